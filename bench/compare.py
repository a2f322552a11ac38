#!/usr/bin/env python3
"""Measures this project beside the C++ package, in turn, and prints medians, ratios and goals as Markdown.

    python3 bench/compare.py                 # about five minutes; `make bench` does the same

Two virtual environments are made under .bench/: one with the C++ package from PyPI, one with this project's wheel,
built from this checkout. Each round runs peer.py in all of them, one after the other: C++ as it comes, C++ with its
connection pool (MC_TCP_ENABLE_CONNECTION_POOL=1), and this project. Absolute figures drift with the machine;
only the ratios of one interleaved run count.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
PEER = pathlib.Path(__file__).resolve().parent / "peer.py"
CPP_PACKAGE = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
SYSTEM_PACKAGES = ["libibverbs1", "librdmacm1", "libnuma1", "libcurl4"]
ROUND_TIMEOUT_S = 700

# name, environment, extra environment variables
VARIANTS = {
    "cpp": ("C++", "cpp", {}),
    "cpp_pool": ("C++, pool", "cpp", {"MC_TCP_ENABLE_CONNECTION_POOL": "1"}),
    "rust": ("Rust", "rust", {}),
}

# (work, figure in peer.py's output, field, unit, divisor, goal in that unit). Times and bytes are to be at most the
# goal, rates at least. The goals are for a machine with 2 cores and loopback TCP.
ROWS = [
    ("get_into 4 KiB, p50", "get_4096", "p50_us", "us", 1, 45),
    ("get_into 4 KiB again, p50", "get_again_4096", "p50_us", "us", 1, 25),
    ("get_into 64 KiB, p50", "get_65536", "p50_us", "us", 1, 90),
    ("get_into 1 MiB, p50", "get_1048576", "p50_us", "us", 1, 340),
    ("get_into 16 MiB", "get_16777216", "GBps", "GB/s", 1, 2.8),
    ("put_from 4 KiB, p50", "put_4096", "p50_us", "us", 1, 90),
    ("put_from 64 KiB, p50", "put_65536", "p50_us", "us", 1, None),
    ("put_from 1 MiB, p50", "put_1048576", "p50_us", "us", 1, 420),
    ("put_from 16 MiB", "put_16777216", "GBps", "GB/s", 1, None),
    ("batch_put_from 64 x 1 MiB", "batch_put_64x1048576", "GBps", "GB/s", 1, 2.8),
    ("batch_get_into 64 x 1 MiB", "batch_get_64x1048576", "GBps", "GB/s", 1, 2.8),
    ("batch_put_from 128 x 64 KiB", "batch_put_128x65536", "GBps", "GB/s", 1, None),
    ("batch_get_into 128 x 64 KiB", "batch_get_128x65536", "GBps", "GB/s", 1, 2.5),
    ("batch_put_from 1000 x 64 B", "small_put", "objects_per_s", "k/s", 1e3, 300),
    ("batch_is_exist, 1000 keys", "batch_exist", "keys_per_s", "M/s", 1e6, 2.5),
    ("is_exist, one key", "exist", "ops_per_s", "k/s", 1e3, 35),
    ("setup", "setup", "ms", "ms", 1, 100),
    ("master memory per object", "master_bytes_per_object", "bytes", "B", 1, 300),
]
LOWER_IS_BETTER = {"us", "ms", "B"}


def run(command, **kwargs):
    print("+ " + " ".join(map(str, command)), file=sys.stderr, flush=True)
    return subprocess.run([str(part) for part in command], check=True, **kwargs)


def python_of(name):
    return HOME / name / "bin" / "python"


def ensure_environment(name, requirements, force=False):
    """A virtual environment with these requirements; installed once unless forced."""
    python, stamp = python_of(name), HOME / name / "installed.json"
    wanted = [str(requirement) for requirement in requirements]
    if not force and stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return
    if not python.exists():
        venv.create(HOME / name, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *wanted], stdout=sys.stderr)
    stamp.write_text(json.dumps(wanted))


def ensure_rust(wheel):
    """This project's package, built from the checkout each time, since the sources may have changed."""
    ensure_environment("rust", ["numpy"])
    source = wheel or ROOT
    pip = [python_of("rust"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--force-reinstall", "--no-deps", source], stdout=sys.stderr)


def system_libraries_problem():
    """What keeps the C++ package from starting, or None."""
    probe = [python_of("cpp"), "-c", "import mooncake.store"]
    done = subprocess.run([str(part) for part in probe], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def ensure_system_libraries(install):
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


def measure(variant, small):
    _, environment, extra = VARIANTS[variant]
    figures = HOME / "round.json"
    figures.unlink(missing_ok=True)
    command = [python_of(environment), PEER, "--small", small, "--json", figures]
    try:
        run(
            command,
            env={**os.environ, **extra},
            stdout=subprocess.DEVNULL,
            timeout=ROUND_TIMEOUT_S,
            cwd=HOME,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"measuring {VARIANTS[variant][0]} failed: {error}")
    return json.loads(figures.read_text())


def medians(rounds):
    """{variant: {figure: {field: median over the rounds}}}; a figure counts where every round has it."""
    out = {}
    for variant, runs in rounds.items():
        names = [name for name in runs[0] if all(name in figures for figures in runs)]
        out[variant] = {
            name: {field: statistics.median(f[name][field] for f in runs) for field in runs[0][name]} for name in names
        }
    return out


def cell(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def row(entry, medians_of, variants):
    work, figure, field, unit, divisor, goal = entry
    lower = unit in LOWER_IS_BETTER

    def value(variant):
        fields = medians_of.get(variant, {}).get(figure)
        return fields[field] / divisor if fields else None

    values = {variant: value(variant) for variant in variants}
    ours, cells = values.get("rust"), [work, unit]
    cells += [cell(values[variant]) for variant in variants]
    for variant in variants:
        if variant != "rust" and "rust" in variants:
            theirs = values[variant]
            better = (theirs, ours) if lower else (ours, theirs)
            cells.append(f"{better[0] / better[1]:.2f}" if ours and theirs else "-")
    if goal is None:
        return [*cells, "-"]
    text = f"{'<=' if lower else '>='} {goal:g}"
    if ours is None:
        return [*cells, text]
    met = ours <= goal if lower else ours >= goal
    return [*cells, text + (", met" if met else ", missed")]


def table(medians_of, variants):
    head = ["work", "unit", *(VARIANTS[variant][0] for variant in variants)]
    if "rust" in variants:
        head += [f"times better than {VARIANTS[v][0]}" for v in variants if v != "rust"]
    head.append("goal")
    rows = [row(entry, medians_of, variants) for entry in ROWS]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    kernel = platform.release().split("-")[0]
    cores, python = os.cpu_count(), platform.python_version()
    return f"{model}, {cores} cores, Linux {kernel}, Python {python}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each of all packages")
    parser.add_argument("--only", choices=("cpp", "rust"), help="measure one package alone")
    parser.add_argument("--wheel", type=pathlib.Path, help="this project's wheel, if it is built")
    parser.add_argument("--small", type=int, default=100_000, help="small objects to store")
    parser.add_argument("--json", type=pathlib.Path, help="figures [.bench/figures.json]")
    parser.add_argument(
        "--install-system-packages",
        action="store_true",
        help="let apt-get install what the C++ package needs: " + " ".join(SYSTEM_PACKAGES),
    )
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    if args.wheel and not args.wheel.is_file():
        parser.error(f"--wheel: {args.wheel} is not a file")
    return args


def main():
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit(f"Python 3.10 or later is needed, this is {platform.python_version()}")
    args = parse_arguments()
    HOME.mkdir(exist_ok=True)
    variants = [v for v, (_, e, _) in VARIANTS.items() if args.only in (None, e)]
    try:
        if args.only != "rust":
            ensure_environment("cpp", [CPP_PACKAGE, "numpy"])
            ensure_system_libraries(args.install_system_packages)
        if args.only != "cpp":
            ensure_rust(args.wheel)
    except subprocess.CalledProcessError as error:
        sys.exit(f"setting up failed: {error}")
    rounds = {variant: [] for variant in variants}
    for number in range(args.rounds):
        for variant in variants:
            name = VARIANTS[variant][0]
            print(f"round {number + 1} of {args.rounds}: {name}", file=sys.stderr)
            rounds[variant].append(measure(variant, args.small))
    medians_of = medians(rounds)
    memcpy = os.environ.get("MC_STORE_MEMCPY", "not set, so the C++ package decides")
    print(f"{machine()}. C++: {CPP_PACKAGE}; MC_STORE_MEMCPY: {memcpy}.")
    print(f"Medians over {args.rounds} round(s), taken in turn.\n")
    print(table(medians_of, variants))
    target = args.json or HOME / "figures.json"
    result = {"machine": machine(), "cpp_package": CPP_PACKAGE, "medians": medians_of}
    target.write_text(json.dumps({**result, "rounds": rounds}, indent=1) + "\n")
    print(f"\nfigures written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
