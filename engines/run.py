#!/usr/bin/env python3
"""Runs real inference engines on the store, unmodified, on the CPU, and prints a table. `make engines` does the same.

    python3 engines/run.py                 # installs if needed, then runs all: under 40 minutes on 2 quiet cores
    python3 engines/run.py --only vllm     # one part
    python3 engines/run.py --quick         # the smaller model, one round of each measurement

The exit status is 1 if a check does not hold. Environment: ENGINES, the folder of the environment and its logs
(default: .engines).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from install import HERE, InstallError, cpp_python, folder, install, install_cpp, models, python
from outcome import Outcome
from process import EngineProcess, end_on_sigterm
from report import all_hold, report

# The time that a script gets to end its own processes.
CLEAN_UP_SECONDS = 120.0
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Engine:
    """A script of this folder, its limit in seconds, and the options that it takes."""

    script: str
    subject: str
    seconds: float
    options: frozenset[str] = frozenset()


ENGINES = {
    "vllm": Engine("vllm_store.py", "vLLM", 2400, frozenset({"models", "shape"})),
    "connector": Engine("vllm_connector.py", "mooncake.vllm", 2400, frozenset({"models"})),
    "ttft": Engine("vllm_ttft.py", "vLLM, TTFT", 2400, frozenset({"models", "shapes", "rounds", "cpp"})),
    "faults": Engine("vllm_faults.py", "vLLM, faults", 2400, frozenset({"models", "rounds", "cpp"})),
    "multi-turn": Engine("vllm_multi_turn.py", "vLLM, multi-turn", 2400, frozenset({"models", "load", "cpp"})),
    "sglang": Engine("sglang_store.py", "SGLang", 900),
    "lmcache": Engine("lmcache_store.py", "LMCache", 600),
}
QUICK_LOAD = ("--conversations=4", "--turns=3")


def arguments_of(engine: Engine, given: argparse.Namespace, with_cpp: bool) -> list[str]:
    """The arguments for the engine's script."""
    told = {
        "models": [f"--models={models()}"],
        # The part `ttft` measures the larger model; this one runs only the smaller.
        "shape": ["--shapes=gqa"],
        "shapes": [f"--shapes={'gqa' if given.quick else given.shapes}"],
        "rounds": ["--rounds=1"] if given.quick else [],
        "load": [*QUICK_LOAD] if given.quick else [],
        "cpp": [f"--cpp={cpp_python()}"] if with_cpp else [],
    }
    return [argument for option, arguments in told.items() if option in engine.options for argument in arguments]


def follow(process: EngineProcess, subject: str, seconds: float) -> int:
    """Prints the script's progress. Returns its exit status. Raises TimeoutError after `seconds`.

    Leaves out log lines of engines, and checks that hold.
    """
    deadline = time.monotonic() + seconds
    shown = 0
    while True:
        ended = process.ended()
        text = process.output()
        whole = text.rfind("\n") + 1
        for line in text[shown:whole].splitlines():
            if line.startswith((subject, "  ")) and not line.startswith(("  ok: ", "   ", '  File "')):
                print(line, flush=True)
        shown = max(shown, whole)
        if ended:
            return process.wait(0)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.name} ran longer than {seconds:.0f} s, see {process.log}")
        time.sleep(POLL_SECONDS)


def run_engine(name: str, logs: Path, more: list[str]) -> Outcome:
    """The outcome of the engine's script. A script that does not finish is a failed check."""
    engine = ENGINES[name]
    out, log = logs / f"{name}.json", logs / f"{name}.log"
    print(f"{engine.subject}: at most {engine.seconds / 60:.0f} minutes, log in {log}", flush=True)
    command = [str(python()), str(HERE / engine.script), "--logs", str(logs), "--out", str(out)]
    process = EngineProcess([*command, *more], log, {"PYTHONDONTWRITEBYTECODE": "1"})
    begin = time.monotonic()
    try:
        status = follow(process, engine.subject, engine.seconds)
    finally:
        process.stop(CLEAN_UP_SECONDS)
    print(f"{engine.subject}: done after {time.monotonic() - begin:.0f} s", flush=True)
    try:
        outcome = Outcome.read(out)
    except (OSError, ValueError, TypeError, KeyError):
        outcome = Outcome(engine.subject)
    outcome.equal(f"{engine.script} runs to its end", status, 0)
    return outcome


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(ENGINES), action="append", help="this part; may be given again")
    parser.add_argument("--skip-install", action="store_true", help="take the engines and the wheel as they are")
    parser.add_argument("--wheel", type=Path, help="install this wheel of the project instead of building one")
    parser.add_argument(
        "--shapes", default="gqa,mha", help="models of the part ttft: gqa (48 MiB a prompt), mha (144 MiB)"
    )
    parser.add_argument("--quick", action="store_true", help="gqa alone, one round of each measurement")
    parser.add_argument("--without-cpp", action="store_true", help="no comparison with the C++ package")
    return parser.parse_args()


def has_cpp() -> bool:
    """Installs the C++ package if it is missing. Returns whether it can be used, and prints the reason if not."""
    try:
        install_cpp()
    except (InstallError, OSError, subprocess.TimeoutExpired) as error:
        print(f"engines: without the C++ package: {error}", file=sys.stderr)
        return False
    return True


def run_all(names: list[str], logs: Path, given: argparse.Namespace) -> list[Outcome]:
    compares = any("cpp" in ENGINES[name].options for name in names)
    with_cpp = compares and not given.without_cpp and has_cpp()
    outcomes = []
    for name in names:
        try:
            outcomes.append(run_engine(name, logs, arguments_of(ENGINES[name], given, with_cpp)))
        except TimeoutError as error:
            late = Outcome(ENGINES[name].subject)
            late.equal("ends in time", str(error), "in time")
            outcomes.append(late)
    return outcomes


def main() -> int:
    given = parse()
    end_on_sigterm()
    if not given.skip_install:
        try:
            install(given.wheel)
        except (InstallError, OSError, subprocess.TimeoutExpired) as error:
            print(f"engines: {error}", file=sys.stderr)
            return 1
    logs = folder() / "logs" / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    outcomes = run_all(given.only or list(ENGINES), logs, given)
    text = report(outcomes)
    (logs / "report.md").write_text(text)
    print(f"\n{text}\nLogs: {logs}")
    return 0 if all_hold(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
