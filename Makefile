# The one entry point for builds, checks and tests. Needs Rust, Python 3.10+ and make; installs the rest into .venv and
# target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools
WHEEL := $(VENV)/.wheel
# The same package, built with the cargo profile of the Rust tests, so that both share the compiled dependencies.
TEST_WHEEL := $(VENV)/.test-wheel
TORCH := $(VENV)/.torch
SOURCES := Cargo.toml Cargo.lock pyproject.toml \
    $(shell find crates packaging python/mooncake -type f -not -name '*.pyc' 2>/dev/null)
PYTHON_CODE := python packaging bench engines website
# Arguments for the demo, the benchmarks, the engines, the Python tests, soak and chaos.
ARGS ?=
# The number of seeds that `make soak` runs, one simulated cluster per seed.
SEEDS ?= 10000
# The seconds for which `make chaos` injects faults, and the seed that selects them; without SEED, a new one each time.
SECONDS ?= 600
SEED ?=
# Where `make c-api` installs. DESTDIR is put before it.
PREFIX ?= /usr/local
DESTDIR ?=
# The Debian packages with the servers and the browser that tests start, with libfabric and libibverbs, and the command that runs
# apt-get as root.
SERVER_PACKAGES := etcd-server redis-server iproute2 libfabric1 libfabric-dev libfabric-bin libibverbs-dev prometheus systemd chromium
AS_ROOT := $(shell test "$$(id -u)" = 0 || echo sudo -n)

.DEFAULT_GOAL := help
.PHONY: help setup build check check-rust check-python check-licences servers test test-rust test-chaos test-python demo \
    c-api install-systemd release docs reference sbom figures bench bench-scale bench-check bench-all bench-recovery engines gpu gpu-engine soak chaos clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(WHEEL) ## make .venv, and install the tools, the commands and the Python package into it

build: $(WHEEL) ## build the release commands and the wheel, and install them into .venv

C_API := crates/c-api
INSTALLED := $(DESTDIR)$(abspath $(PREFIX))
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -n 1)

c-api: ## build the library for C and C++, and install it; PREFIX=/usr/local: where
	cargo build --locked --release --package mooncake-c-api
	install -D -m 755 target/release/libmooncake_store.so $(INSTALLED)/lib/libmooncake_store.so
	install -D -m 644 -t $(INSTALLED)/include/mooncake $(C_API)/include/mooncake/store_c.h $(C_API)/include/mooncake/client.hpp
	install -d $(INSTALLED)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@VERSION@|$(VERSION)|' $(C_API)/pkgconfig/mooncake_store.pc.in \
	    >$(INSTALLED)/lib/pkgconfig/mooncake_store.pc

# Where the commands lie that the units run.
COMMANDS ?= $(abspath $(PREFIX))/bin
SYSTEMD := deploy/systemd
CONFIGURED := $(DESTDIR)/etc/mooncake
UNIT = sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@COMMANDS@|$(COMMANDS)|' \
    -e '/^@HARDENING@$$/{' -e 'r $(SYSTEMD)/hardening' -e 'd' -e '}'

install-systemd: ## install units for master and node; COMMANDS=/usr/local/bin: where mooncake_master lies
	install -d $(INSTALLED)/lib/systemd/system $(INSTALLED)/lib/sysusers.d $(INSTALLED)/share/doc/mooncake $(CONFIGURED)
	$(UNIT) $(SYSTEMD)/mooncake-master.service.in >$(INSTALLED)/lib/systemd/system/mooncake-master.service
	$(UNIT) $(SYSTEMD)/mooncake-node.service.in >$(INSTALLED)/lib/systemd/system/mooncake-node.service
	install -m 644 $(SYSTEMD)/mooncake.sysusers $(INSTALLED)/lib/sysusers.d/mooncake.conf
	install -m 644 docs/operations.md $(INSTALLED)/share/doc/mooncake
	for file in master.yaml node.yaml; do \
	    test -e $(CONFIGURED)/$$file || install -m 644 $(SYSTEMD)/$$file $(CONFIGURED); done

check: check-rust check-python check-licences ## check formatting, lints, documentation and types

check-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked --quiet

check-python: $(TOOLS)
	$(BIN)/ruff check $(PYTHON_CODE)
	$(BIN)/ruff format --check $(PYTHON_CODE)
	$(BIN)/mypy python/mooncake python/tests
	$(BIN)/mypy engines
	$(BIN)/mypy website

# Skipped if cargo-deny is not installed. These two checks need no network.
check-licences:
	@if ! cargo deny --version >/dev/null 2>&1; then \
	  echo "cargo-deny is not installed: licences and advisories are not checked"; \
	else cargo deny --offline check licenses bans sources && \
	  if cargo deny fetch db >/dev/null 2>&1; then cargo deny --offline check advisories; \
	  else echo "the list of advisories cannot be had: it is not checked"; fi; fi

sbom: $(TOOLS) ## write the bill of materials of wheel and programs to sbom.json (CycloneDX)
	$(BIN)/python packaging/sbom.py > sbom.json

# The two --jobs=2 steps run a target that mostly waits (for packages or faults) beside one that computes.
test: ## run all checks and tests: Rust, Python, and real processes under faults
	$(MAKE) --jobs=2 check
	$(MAKE) test-rust
	$(MAKE) --jobs=2 test-chaos $(TEST_WHEEL)
	$(MAKE) test-python

servers: ## install etcd, Redis, Prometheus, Chromium and others that the tests start, from Debian's packages; as root or with sudo
	@if ! { command -v etcd && command -v redis-server && command -v ip && command -v fi_pingpong && \
	    command -v promtool && command -v systemd-analyze && command -v chromium && test -e /usr/include/rdma/fabric.h && \
	    test -e /usr/include/infiniband/verbs.h; } >/dev/null; then set -x; \
	    $(AS_ROOT) apt-get update && \
	    $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-upgrade --no-install-recommends $(SERVER_PACKAGES) \
	|| { echo "the tests need etcd, redis-server, ip, libfabric, libibverbs, promtool, systemd-analyze and chromium; as root: apt-get install $(SERVER_PACKAGES)" >&2; exit 1; }; fi

test-rust: servers
	@if cargo nextest --version >/dev/null 2>&1; then set -x; cargo nextest run --workspace --tests --locked \
	    --profile make --no-fail-fast --test-threads $$((2 * $$(nproc))); \
	else set -x; cargo test --workspace --tests --locked; fi
	cargo test --workspace --doc --locked

# Selected from the whole workspace, so that cargo does not rebuild crates with other features.
test-chaos: servers
	cargo test --workspace --locked --test minute -- --ignored --nocapture

test-python: $(TEST_WHEEL)
	$(BIN)/python -m mypy.stubtest mooncake._native mooncake.store mooncake.engine \
	    --allowlist python/stubtest-allowlist.txt --ignore-unused-allowlist
	$(BIN)/python -m pytest --numprocesses $$(nproc) --dist loadfile $(ARGS)

# `mooncake replay` starts the master and the nodes from the programs beside it.
demo: ## replay real requests against a pool of several processes; ARGS=--help: options
	cargo build --locked --profile quick --package mooncake-cli --bins
	cargo run --quiet --locked --profile quick --package mooncake-cli --bin mooncake -- replay $(ARGS)

# Needs the tools of $(TOOLS) alone. ARGS="--profile dev" runs the steps with a build that takes less time, and is no release.
release: $(TOOLS) ## make a release in dist, and check it: the source package, the wheel out of it, checksums
	$(BIN)/python packaging/release.py $(ARGS)

# The variable leaves out a message about other programs.
docs: $(TOOLS) ## build the documents as a site, into .site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file website/mkdocs.yml

reference: $(TEST_WHEEL) ## write docs/reference anew, from the programs and the package
	cd website && ../$(BIN)/python -m reference

figures: ## redraw the hit ratios in docs/sizing.md; bench-scale and bench-all redraw the measured times
	cargo run --locked --profile quick --package mooncake-cli --bin mooncake -- sim --plot docs/images/hit-ratio.svg

bench: ## benchmark this project beside the C++ package, and its parts; ARGS=--quick: a short run
	cargo bench --locked --package mooncake-alloc --package mooncake-meta --package mooncake-wire --package mooncake-workload --bench '*'
	$(PYTHON) bench/compare.py $(ARGS)

bench-scale: ## measure operations with more objects, segments, clients and bytes; ARGS=--quick: a short run
	$(PYTHON) bench/scale.py $(ARGS)

bench-check: ## compare instruction counts of hot operations with bench/instructions.json; needs valgrind
	$(PYTHON) bench/instructions.py $(ARGS)

bench-all: ## measure all figures of docs/performance/, into .bench/report.md: an hour on an idle machine
	$(PYTHON) bench/everything.py $(ARGS)

bench-recovery: ## measure outages when a part of a pool dies, beside the C++ package; ARGS=--quick: a short run
	$(PYTHON) bench/recovery.py $(ARGS)

engines: ## run vLLM, SGLang and LMCache on the store; installs 8 GB into .engines; ARGS=--help: options
	$(PYTHON) engines/run.py $(ARGS)

gpu: $(WHEEL) | $(TORCH) ## run GPU tests and measure figures; without a GPU: ARGS="--double --quick"
	$(if $(findstring --double,$(ARGS)),,MOONCAKE_TEST_DRIVER=libcuda.so.1 $(BIN)/python -m pytest -k 'gpu or vllm_stream')
	$(BIN)/python bench/gpu_figures.py $(ARGS)

gpu-engine: $(WHEEL) | $(TORCH) ## conversations on a small engine with and without a pool; without a GPU: ARGS="--device cpu"
	$(BIN)/python bench/gpu_engine.py $(ARGS)

soak: ## simulate clusters whose parts fail; SEEDS=100000: how many; ARGS=--help: more options
	cargo run --release --locked --package mooncake-sim --bin soak -- --seeds $(SEEDS) $(ARGS)

chaos: servers ## inject faults into real clusters; SECONDS=600: how long; SEED=1: which faults; ARGS=--help: more
	cargo run --locked --package mooncake-chaos -- run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean: ## remove everything that was built
	rm -rf $(VENV) target python/mooncake_pool.data
	find python packaging -name __pycache__ -type d -prune -exec rm -rf {} +

$(TOOLS): python/requirements-dev.txt
	@command -v cargo >/dev/null || { echo "cargo is not on the PATH; install Rust from https://rustup.rs" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "$(PYTHON) is older than 3.10; say make PYTHON=... with a newer one" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade --requirement python/requirements-dev.txt
	touch $@

# torch takes 5 GB. Only the tests of tensors need it.
$(TORCH): python/requirements-torch.txt | $(TOOLS)
	$(BIN)/python -m pip install --no-compile --requirement $<
	touch $@

# --verbose makes pip show cargo's output. Each of the two wheels replaces the other in .venv.
INSTALL := $(BIN)/python -m pip install --verbose --force-reinstall --no-deps --no-build-isolation

$(WHEEL): $(TOOLS) $(SOURCES)
	$(INSTALL) .
	rm -f $(TEST_WHEEL)
	touch $@

# Waits for $(TORCH), because two pip processes must not change .venv at the same time.
$(TEST_WHEEL): $(TOOLS) $(SOURCES) | $(TORCH)
	$(INSTALL) --config-settings=profile=dev .
	rm -f $(WHEEL)
	touch $@
