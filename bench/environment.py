"""The two virtual environments of the benchmarks, under .bench/: the C++ package, and this project's wheel."""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import venv
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
CPP_PACKAGE = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
CPP_CUDA_PACKAGE = "mooncake-transfer-engine==0.3.13.post1"
SYSTEM_PACKAGES = ["libibverbs1", "librdmacm1", "libnuma1", "libcurl4"]

# By variant: its name in tables, its environment, and its variables.
VARIANTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "cpp": ("C++", "cpp", {}),
    "cpp_pool": ("C++, pool", "cpp", {"MC_TCP_ENABLE_CONNECTION_POOL": "1"}),
    "rust_tcp": ("Rust, TCP", "rust", {"MOONCAKE_TRANSPORTS": "tcp"}),
    "rust": ("Rust", "rust", {}),
}


def run(command: list[Any], **kwargs: Any) -> "subprocess.CompletedProcess[Any]":
    print("+ " + " ".join(map(str, command)), file=sys.stderr, flush=True)
    return subprocess.run([str(part) for part in command], check=True, **kwargs)


def python_of(name: str) -> pathlib.Path:
    return HOME / name / "bin" / "python"


def variables_of(variant: str) -> dict[str, str]:
    """The environment variables for a variant's processes, including those of this process."""
    return {**os.environ, "XDG_STATE_HOME": str(HOME / "state"), **VARIANTS[variant][2]}


def ensure_environment(name: str, requirements: list[str], force: bool = False) -> None:
    """Makes a virtual environment with these requirements. Keeps an existing one, unless `force` is set."""
    python, stamp = python_of(name), HOME / name / "installed.json"
    wanted = [str(requirement) for requirement in requirements]
    if not force and stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return
    if not python.exists():
        venv.create(HOME / name, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *wanted], stdout=sys.stderr)
    stamp.write_text(json.dumps(wanted))


def ensure_rust(wheel: pathlib.Path | None) -> None:
    """Installs this project's package. Builds it each time, because the sources may have changed."""
    ensure_environment("rust", ["numpy"])
    source = wheel or ROOT
    pip = [python_of("rust"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--force-reinstall", "--no-deps", source], stdout=sys.stderr)


def system_libraries_problem() -> str | None:
    """The reason why the C++ package cannot be loaded, or None."""
    probe = [str(python_of("cpp")), "-c", "import mooncake.store"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def ensure_system_libraries(install: bool) -> None:
    problem = system_libraries_problem()
    if problem is None:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *SYSTEM_PACKAGES]
    if os.geteuid() != 0 and shutil.which("sudo"):
        command.insert(0, "sudo")
    if not install:
        sys.exit(
            f"The C++ package cannot be loaded: {problem}\n"
            f"It needs libraries of the system. On Debian and Ubuntu:\n\n    {' '.join(command)}\n\n"
            "Run that and try again, or pass --install-system-packages to have it run here, or "
            "--only rust to measure this project alone."
        )
    update = [*command[: command.index("install")], "update"]
    run(update, stdout=sys.stderr)
    run(command, stdout=sys.stderr)
    problem = system_libraries_problem()
    if problem is not None:
        sys.exit(f"The C++ package still cannot be loaded: {problem}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that all programs share which measure both packages. `prepare` reads them."""
    parser.add_argument("--only", choices=("cpp", "rust"), help="measure one package alone")
    parser.add_argument("--wheel", type=pathlib.Path, help="this project's wheel, if it is built")
    parser.add_argument(
        "--as-installed", action="store_true", help="measure what was installed in .bench/ before; build nothing"
    )
    parser.add_argument(
        "--install-system-packages",
        action="store_true",
        help="let apt-get install what the C++ package needs: " + " ".join(SYSTEM_PACKAGES),
    )


def prepare(args: argparse.Namespace) -> list[str]:
    """Makes the requested environments. Returns the variants to measure. Ends the program if that fails."""
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit(f"Python 3.10 or later is needed, this is {platform.python_version()}")
    if args.wheel and not args.wheel.is_file():
        sys.exit(f"--wheel: {args.wheel} is not a file")
    HOME.mkdir(exist_ok=True)
    wanted = [environment for environment in ("cpp", "rust") if args.only in (None, environment)]
    if args.as_installed:
        for missing in (name for name in wanted if not python_of(name).exists()):
            sys.exit(f"--as-installed: there is nothing in {HOME / missing}")
    try:
        if "cpp" in wanted and not args.as_installed:
            ensure_environment("cpp", [CPP_PACKAGE, "numpy"])
        if "cpp" in wanted:
            ensure_system_libraries(args.install_system_packages)
        if "rust" in wanted and not args.as_installed:
            ensure_rust(args.wheel)
    except subprocess.CalledProcessError as error:
        sys.exit(f"setting up failed: {error}")
    return [variant for variant, (_, environment, _) in VARIANTS.items() if environment in wanted]


def machine() -> str:
    """The machine of the figures, in words."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    kernel = platform.release().split("-")[0]
    cores, python = os.cpu_count(), platform.python_version()
    return f"{model}, {cores} cores, Linux {kernel}, Python {python}"


def memcpy_note() -> str:
    """Whether the C++ package may copy within a process instead of sending. Without the variable, it decides itself."""
    setting = os.environ.get("MC_STORE_MEMCPY")
    if setting is not None:
        return f"MC_STORE_MEMCPY={setting}"
    return "MC_STORE_MEMCPY not set, so the C++ package copies by itself where the owner is the same process"
