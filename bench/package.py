#!/usr/bin/env python3
"""Measures the size of the package, its import and its setup, beside the C++ package, as a table in Markdown.

    python3 bench/package.py                 # about a minute, once the environments of compare.py exist

Uses the two virtual environments under .bench/, and makes them if they are missing. An import time is the time of an
interpreter that imports the module and ends, less that of an interpreter that imports nothing. Times are medians of
alternating runs.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import time

from environment import (
    CPP_PACKAGE,
    HOME,
    ROOT,
    ensure_environment,
    ensure_rust,
    ensure_system_libraries,
    python_of,
    run,
    variables_of,
)

PACKAGES = {"cpp": "C++", "rust": "Rust"}
MAX_WHEEL_MB = 15
SETUP = """
import subprocess, sys, time, urllib.request, socket, pathlib
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
rpc, http = port(), port()
master = pathlib.Path(sys.executable).with_name("mooncake_master")
log = subprocess.DEVNULL
process = subprocess.Popen([master, f"--rpc_port={rpc}", f"--metrics_port={http}"], stdout=log, stderr=log)
try:
    for _ in range(100):
        time.sleep(0.1)
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{http}/health", timeout=1).read()
            break
        except OSError:
            pass
    from mooncake.store import MooncakeDistributedStore
    times = []
    for _ in range(int(sys.argv[1])):
        store = MooncakeDistributedStore()
        start = time.perf_counter()
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "", f"127.0.0.1:{rpc}") == 0
        times.append(time.perf_counter() - start)
        store.close()
    print(sorted(times)[len(times) // 2] * 1000)
finally:
    process.terminate()
    process.wait()
"""


def site_packages(name):
    scheme = sysconfig.get_path("purelib", vars={"base": str(HOME / name), "platbase": str(HOME / name)})
    return pathlib.Path(scheme)


def wheel_mb(name, folder):
    """The size of the package's wheel in MB. Downloads or builds the wheel into `folder`."""
    requirement = CPP_PACKAGE if name == "cpp" else str(ROOT)
    target = folder / name
    run([python_of(name), "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", target, requirement], stdout=sys.stderr)
    (wheel,) = target.glob("*.whl")
    size = wheel.stat().st_size
    wheel.unlink()
    return size / 1e6


def installed_mb(name):
    recorded = set((site_packages(name) / "mooncake").rglob("*"))
    libraries = site_packages(name).glob("mooncake*.libs/*")
    commands = (HOME / name / "bin").glob("mooncake*")
    files = {path.resolve() for path in [*recorded, *libraries, *commands] if path.is_file() and path.suffix != ".pyc"}
    return sum(path.stat().st_size for path in files) / 1e6


def libraries(name):
    """The shared libraries that the module and the master load and the package does not contain."""
    package = site_packages(name) / "mooncake"
    modules = [*package.glob("_native*.so"), *package.glob("store.so")]
    programs = [path for path in [HOME / name / "bin" / "mooncake", package / "mooncake_master"] if is_elf(path)]
    needed = set()
    for path in [*modules, *programs]:
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            library, _, place = line.strip().partition(" => ")
            if "site-packages" not in place and "linux-vdso" not in library:
                needed.add(library.split()[0].rpartition("/")[2].partition(".so")[0])
    return sorted(needed)


def is_elf(path):
    return path.is_file() and path.open("rb").read(4) == b"\x7fELF"


def start_seconds(name, code):
    start = time.perf_counter()
    subprocess.run([python_of(name), "-c", code], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def import_ms(rounds):
    """By package, the median time of an import beyond that of an interpreter that imports nothing."""
    times = {name: [] for name in PACKAGES}
    for _ in range(rounds):
        for name, taken in times.items():
            taken.append(start_seconds(name, "import mooncake.store") - start_seconds(name, "pass"))
    return {name: statistics.median(taken) * 1000 for name, taken in times.items()}


def setup_ms(name, rounds):
    command, variables = [python_of(name), "-c", SETUP, str(rounds)], variables_of(name)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="imports and setups of each package (20)")
    parser.add_argument("--install-system-packages", action="store_true", help="have apt-get install what C++ needs")
    arguments = parser.parse_args()
    ensure_environment("cpp", [CPP_PACKAGE, "numpy"])
    ensure_system_libraries(arguments.install_system_packages)
    ensure_rust(None)
    imports = import_ms(arguments.rounds)
    wheels = {name: wheel_mb(name, HOME / "wheels") for name in PACKAGES}
    rows = [
        ("wheel, MB", {name: f"{wheels[name]:.1f}" for name in PACKAGES}),
        ("installed, MB", {name: f"{installed_mb(name):.1f}" for name in PACKAGES}),
        ("import mooncake.store, ms", {name: f"{imports[name]:.0f}" for name in PACKAGES}),
        ("setup with 64 MiB, ms", {name: f"{setup_ms(name, arguments.rounds):.1f}" for name in PACKAGES}),
        ("libraries of the system", {name: ", ".join(libraries(name)) for name in PACKAGES}),
    ]
    print("| what | " + " | ".join(PACKAGES.values()) + " |")
    print("| --- | " + " | ".join("---" for _ in PACKAGES) + " |")
    for what, values in rows:
        print(f"| {what} | " + " | ".join(values[name] for name in PACKAGES) + " |")
    if wheels["rust"] > MAX_WHEEL_MB:
        sys.exit(f"the wheel has {wheels['rust']:.1f} MB, and is to have at most {MAX_WHEEL_MB}")


if __name__ == "__main__":
    main()
