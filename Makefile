# One entry for everything. Needs Rust, Python 3.10+ and make; all else goes into .venv and target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools
WHEEL := $(VENV)/.wheel
# The same package, built for the tests: with the profile of the Rust tests, so that other people's code is built once for both.
TEST_WHEEL := $(VENV)/.test-wheel
TORCH := $(VENV)/.torch
SOURCES := Cargo.toml Cargo.lock pyproject.toml \
    $(shell find crates packaging python/mooncake -type f -not -name '*.pyc' 2>/dev/null)
PYTHON_CODE := python packaging bench engines
# What the demo, the benchmarks and the engines are told.
ARGS ?=
# How many seeds of simulated clusters `make soak` runs.
SEEDS ?= 10000
# How long `make chaos` does harm, and which faults it chooses; by default others each time.
SECONDS ?= 600
SEED ?=
# The servers that tests start themselves, and how they are installed.
SERVER_PACKAGES := etcd-server redis-server iproute2
AS_ROOT := $(shell test "$$(id -u)" = 0 || echo sudo -n)

.DEFAULT_GOAL := help
.PHONY: help setup build check check-rust check-python check-licences servers test test-rust test-chaos test-python demo \
    figures bench bench-scale bench-check bench-all bench-recovery engines gpu soak chaos clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(WHEEL) ## make .venv with the tools, the commands and the Python package

build: $(WHEEL) ## build the release commands and the wheel, and install them into .venv

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

# Only where cargo-deny is installed; it needs no network for these two.
check-licences:
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --offline check licenses bans; \
	else echo "cargo-deny is not installed: licences are not checked"; fi

# What mostly waits, for packages or for faults, runs beside what computes.
test: ## run everything: checks, Rust tests, Python tests, processes
	$(MAKE) --jobs=2 check
	$(MAKE) test-rust
	$(MAKE) --jobs=2 test-chaos $(TEST_WHEEL)
	$(MAKE) test-python

servers: ## install etcd, Redis and ip, which tests start, from Debian's packages; as root, or by sudo
	@if ! { command -v etcd && command -v redis-server && command -v ip; } >/dev/null; then set -x; \
	    $(AS_ROOT) apt-get update && \
	    $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $(SERVER_PACKAGES) \
	|| { echo "the tests need etcd, redis-server and ip on the PATH; as root: apt-get install $(SERVER_PACKAGES)" >&2; exit 1; }; fi

test-rust: servers
	@if cargo nextest --version >/dev/null 2>&1; then set -x; cargo nextest run --workspace --tests --locked \
	    --profile make --test-threads $$((2 * $$(nproc))); \
	else set -x; cargo test --workspace --tests --locked; fi
	cargo test --workspace --doc --locked

# As a test of the whole workspace, so that nothing is built again with other features.
test-chaos: servers
	cargo test --workspace --locked --test minute -- --ignored --nocapture

test-python: $(TEST_WHEEL)
	$(BIN)/python -m mypy.stubtest mooncake._native mooncake.store mooncake.engine \
	    --allowlist python/stubtest-allowlist.txt --ignore-unused-allowlist
	$(BIN)/python -m pytest --numprocesses $$(nproc) --dist loadfile $(ARGS)

demo: ## replay real requests against a pool of several processes; ARGS="--help" lists the options
	cargo run --locked --profile quick --package mooncake-cli --bin mooncake -- replay $(ARGS)

figures: ## draw the hit ratios of docs/sizing.md anew; those that time shows are drawn by bench-scale and bench-all
	cargo run --locked --profile quick --package mooncake-cli --bin mooncake -- sim --plot docs/images/hit-ratio.svg

bench: ## this project beside the C++ package, and its parts; ARGS=--quick for a look
	cargo bench --locked --package mooncake-alloc --package mooncake-meta --package mooncake-wire --package mooncake-workload --bench '*'
	$(PYTHON) bench/round_trip.py
	$(PYTHON) bench/compare.py $(ARGS)

bench-scale: ## what an operation costs with more objects, segments, clients and bytes; ARGS="--quick" for a look
	$(PYTHON) bench/scale.py $(ARGS)

bench-check: ## count the instructions of the hottest operations, against bench/instructions.json; needs valgrind
	$(PYTHON) bench/instructions.py $(ARGS)

bench-all: ## every figure of docs/performance.md, into .bench/report.md: an hour, on a machine that does nothing else
	$(PYTHON) bench/everything.py $(ARGS)

bench-recovery: ## how long a pool is out of service when a part of it dies, beside the C++ package; ARGS="--quick" for a look
	$(PYTHON) bench/recovery.py $(ARGS)

engines: ## run vLLM, SGLang and LMCache on the store; installs 8 GB from PyPI into .engines; ARGS="--help" lists the options
	$(PYTHON) engines/run.py $(ARGS)

gpu: $(WHEEL) | $(TORCH) ## the tests of memory of GPUs on the GPU of this machine, and figures; ARGS="--double --quick" without a GPU
	$(if $(findstring --double,$(ARGS)),,MOONCAKE_TEST_DRIVER=libcuda.so.1 $(BIN)/python -m pytest -k 'gpu or vllm_stream')
	$(BIN)/python bench/gpu_figures.py $(ARGS)

soak: ## simulate many clusters whose parts fail; SEEDS=100000 says how many, ARGS="--help" lists more
	cargo run --release --locked --package mooncake-sim --bin soak -- --seeds $(SEEDS) $(ARGS)

chaos: servers ## real clusters whose processes and networks fail; SECONDS=600 says how long, SEED=1 which faults, ARGS="--help" lists more
	cargo run --locked --package mooncake-chaos -- run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean: ## remove everything that was built
	rm -rf $(VENV) target python/mooncake_store_rs.data
	find python packaging -name __pycache__ -type d -prune -exec rm -rf {} +

$(TOOLS): python/requirements-dev.txt
	@command -v cargo >/dev/null || { echo "cargo is not on the PATH; install Rust from https://rustup.rs" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "$(PYTHON) is older than 3.10; say make PYTHON=... with a newer one" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade --requirement python/requirements-dev.txt
	touch $@

# Only the tests of tensors need it, and it takes 5 GB.
$(TORCH): python/requirements-torch.txt | $(TOOLS)
	$(BIN)/python -m pip install --no-compile --requirement $<
	touch $@

# pip shows what cargo builds only when it is verbose. Either wheel takes the place of the other.
INSTALL := $(BIN)/python -m pip install --verbose --force-reinstall --no-deps --no-build-isolation

$(WHEEL): $(TOOLS) $(SOURCES)
	$(INSTALL) .
	rm -f $(TEST_WHEEL)
	touch $@

# After the packages that the tests need, since pip does one thing at a time.
$(TEST_WHEEL): $(TOOLS) $(SOURCES) | $(TORCH)
	$(INSTALL) --config-settings=profile=dev .
	rm -f $(WHEEL)
	touch $@
