"""The contents of the wheel, and that it needs only glibc."""

import re
import subprocess
import sys
import zlib
from importlib import metadata
from pathlib import Path

import mooncake

DISTRIBUTION = "mooncake-pool"
# `bench/package.py` limits a release wheel to 15 MB, which it exceeds by 2. The test build is larger by a third: it had
# 22.9 MB when traces, checked reads, and NICs that reach a GPU had come.
MAX_TEST_WHEEL_BYTES = 23_200_000
COMMANDS = {"mooncake", "mooncake_master", "mooncake_client"}
PLACES_OF_COMPLETIONS = (
    "bash-completion/completions/{}",
    "zsh/site-functions/_{}",
    "fish/vendor_completions.d/{}.fish",
)
# Distributions ship libgcc_s with glibc.
SYSTEM = {
    "linux-vdso",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    "libc",
    "libm",
    "libgcc_s",
    "libpthread",
    "libdl",
    "librt",
}


def installed() -> list[Path]:
    files = metadata.files(DISTRIBUTION)
    assert files is not None
    return [Path(str(file.locate())).resolve() for file in files if file.suffix != ".pyc"]


def binaries() -> list[Path]:
    commands = [path for path in installed() if path.name in COMMANDS and "share" not in path.parts]
    return commands + [path for path in installed() if path.suffix == ".so"]


def test_the_wheel_brings_the_module_its_types_and_the_commands() -> None:
    names = {path.name for path in installed()}
    suffix = ".abi3.so" if sys.version_info >= (3, 11) else f".cpython-3{sys.version_info.minor}-x86_64-linux-gnu.so"
    assert names >= {"__init__.py", "store.py", "_native.pyi", f"_native{suffix}", "py.typed"} | COMMANDS
    scripts = Path(sys.executable).parent
    assert {path.name for path in scripts.iterdir()} >= COMMANDS


def test_the_wheel_brings_man_pages_and_completions() -> None:
    share = {str(path).split("/share/", 1)[1] for path in installed() if "/share/" in str(path)}
    completions = {place.format(command) for place in PLACES_OF_COMPLETIONS for command in COMMANDS}
    assert share >= completions | {"man/man1/mooncake.1", "man/man1/mooncake-get.1", "man/man1/mooncake_master.1"}
    for path in installed():
        if "/share/" in str(path):
            assert "mooncake" in path.read_text(), path


def test_the_wheel_is_small(tmp_path: Path) -> None:
    stripped = []
    # The test build keeps what a release build leaves out: symbols, and the tables by which all functions of a library
    # unwind, whether they are used or not.
    for number, path in enumerate(binaries()):
        stripped.append(tmp_path / f"{number}")
        subprocess.run(["strip", "--remove-section=.gcc_except_table", "-o", stripped[-1], path], check=True)
    others = set(installed()) - set(binaries())
    packed = sum(len(zlib.compress(path.read_bytes(), 9)) for path in [*stripped, *others])
    assert packed < MAX_TEST_WHEEL_BYTES


def test_the_binaries_need_glibc_alone() -> None:
    assert len(binaries()) == 4
    for path in binaries():
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        needed = {Path(line.split()[0]).name.split(".so")[0] for line in listed.splitlines()}
        assert needed <= SYSTEM, path


def test_the_tag_of_the_wheel_names_the_oldest_glibc_that_its_binaries_run_on() -> None:
    wheel = metadata.distribution(DISTRIBUTION).read_text("WHEEL") or ""
    (tagged,) = re.findall(r"^Tag: \S+-manylinux_2_(\d+)_\w+$", wheel, re.MULTILINE)
    named = [re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes()) for path in binaries()]
    assert int(tagged) == max(17, *(int(minor) for minors in named for minor in minors))


def test_importing_brings_no_other_package() -> None:
    code = "import sys; before = set(sys.modules); import mooncake.store; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    brought = {name.split(".")[0] for name in run.stdout.split()}
    assert brought - set(sys.stdlib_module_names) == {"mooncake"}


def test_other_distributions_may_add_modules(tmp_path: Path) -> None:
    extra = tmp_path / "mooncake"
    extra.mkdir()
    (extra / "__init__.py").write_text("from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n")
    (extra / "companion.py").write_text("NAME = 'companion'\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import mooncake.companion, mooncake.store"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert mooncake.__doc__ is not None
