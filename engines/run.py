#!/usr/bin/env python3
"""Runs real inference engines on the store, unmodified, on the CPU, and prints a table. `make engines` does the same.

    python3 engines/run.py                 # installs if needed, then runs all: about 20 minutes on 2 cores
    python3 engines/run.py --only vllm     # one engine

The exit status is 1 if anything that is checked does not hold. Environment: ENGINES, the folder of the environment
(default: .engines), with its logs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from install import HERE, InstallError, folder, install, models, python
from outcome import Outcome
from process import EngineProcess
from report import all_hold, report

# A script ends its own processes first.
CLEAN_UP_SECONDS = 120.0


@dataclass(frozen=True)
class Engine:
    """A script of this folder, and how long it may run."""

    script: str
    subject: str
    seconds: float
    arguments: tuple[str, ...] = ()


ENGINES = {
    "vllm": Engine("vllm_store.py", "vLLM", 2400, ("--models", str(models()))),
    "connector": Engine("vllm_connector.py", "mooncake.vllm", 2400, ("--models", str(models()))),
    "sglang": Engine("sglang_store.py", "SGLang", 900),
    "lmcache": Engine("lmcache_store.py", "LMCache", 600),
}


def run_engine(name: str, logs: Path, more: list[str]) -> Outcome:
    """What its script found. A script that does not come to its end is a failed check."""
    engine = ENGINES[name]
    out, log = logs / f"{name}.json", logs / f"{name}.log"
    print(f"{engine.subject}: at most {engine.seconds / 60:.0f} minutes, progress in {log}", flush=True)
    command = [str(python()), str(HERE / engine.script), "--logs", str(logs), "--out", str(out)]
    process = EngineProcess([*command, *engine.arguments, *more], log, {"PYTHONDONTWRITEBYTECODE": "1"})
    begin = time.monotonic()
    try:
        status = process.wait(engine.seconds)
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
    parser.add_argument("--only", choices=sorted(ENGINES), action="append", help="this engine; may be given again")
    parser.add_argument("--skip-install", action="store_true", help="take the environment as it is")
    parser.add_argument("--wheel", type=Path, help="install this wheel of the project instead of building one")
    parser.add_argument("--shapes", default="gqa,mha", help="vLLM's models: gqa (48 MiB a prompt), mha (144 MiB)")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if not arguments.skip_install:
        try:
            install(arguments.wheel)
        except (InstallError, OSError, subprocess.TimeoutExpired) as error:
            print(f"engines: {error}", file=sys.stderr)
            return 1
    logs = folder() / "logs" / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    outcomes = []
    for name in arguments.only or ENGINES:
        more = ["--shapes", arguments.shapes] if name == "vllm" else []
        try:
            outcomes.append(run_engine(name, logs, more))
        except TimeoutError as error:
            late = Outcome(ENGINES[name].subject)
            late.equal("ends in time", str(error), "in time")
            outcomes.append(late)
    text = report(outcomes)
    (logs / "report.md").write_text(text)
    print(f"\n{text}\nLogs: {logs}")
    return 0 if all_hold(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
