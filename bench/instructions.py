#!/usr/bin/env python3
"""Counts the instructions of the hottest operations, and compares them with the counts in the repository.

    python3 bench/instructions.py              # `make bench-check` does the same; a minute or two
    python3 bench/instructions.py --update     # write the counts as they are now to bench/instructions.json

A busy machine does not change the number of instructions. It therefore shows a change of 1 % in the code, when times
drift by 30 %. valgrind's callgrind counts them around `hottest`, a program of crates/bench. Each operation runs with
two numbers of rounds; the difference is its cost, without preparations. Fails if a count exceeds the stored count by
more than the tolerance. Asks for --update if it is lower by more than that.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

from table import markdown

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench" / "instructions.json"
BUILD = ["cargo", "build", "--release", "--locked", "--package", "mooncake-bench", "--bin", "hottest"]
ROUNDS = (4, 12)
TOLERANCE = 0.03
RUN_TIMEOUT_S = 300
NO_VALGRIND = (
    "valgrind is not installed, and it is what counts instructions here. On Debian and Ubuntu: apt-get install "
    "valgrind; on Fedora: dnf install valgrind; on Arch: pacman -S valgrind."
)


def verdict(kept: float | None, now: float | None, tolerance: float = TOLERANCE) -> str:
    """The verdict on an operation: `new`, `gone`, `same`, `more` (a failure) or `fewer`."""
    if kept is None:
        return "new"
    if now is None:
        return "gone"
    if now > kept * (1 + tolerance):
        return "more"
    return "fewer" if now < kept * (1 - tolerance) else "same"


def compare(kept: dict[str, float], now: dict[str, float], tolerance: float = TOLERANCE) -> dict[str, str]:
    """The verdict on every operation in either of the counts."""
    return {name: verdict(kept.get(name), now.get(name), tolerance) for name in [*now, *(set(kept) - set(now))]}


def program() -> pathlib.Path:
    """Builds `hottest`. Returns its path."""
    subprocess.run([*BUILD, "--quiet"], cwd=ROOT, check=True)
    described = subprocess.run([*BUILD, "--message-format=json"], cwd=ROOT, check=True, capture_output=True, text=True)
    built = [json.loads(line) for line in described.stdout.splitlines()]
    programs = [entry for entry in built if entry.get("executable")]
    return pathlib.Path(programs[-1]["executable"])


def operations(hottest: pathlib.Path) -> dict[str, tuple[int, str]]:
    """By operation: how often a round does it, and its description."""
    listed = subprocess.run([hottest, "--list"], check=True, capture_output=True, text=True).stdout
    rows = (line.split("\t") for line in listed.splitlines())
    return {name: (int(items), what) for name, items, what in rows}


def instructions(hottest: pathlib.Path, name: str, rounds: int) -> int:
    """The instructions of a whole run, in user space."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(hottest), name, str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or counted is None:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return int(counted[1])


def count(hottest: pathlib.Path, name: str, items: int) -> float:
    """The instructions per item."""
    few, many = (instructions(hottest, name, rounds) for rounds in ROUNDS)
    return round((many - few) / ((ROUNDS[1] - ROUNDS[0]) * items), 1)


def rustc() -> str:
    return subprocess.run(["rustc", "--version"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="keep the counts of now")
    parser.add_argument("--only", nargs="+", metavar="OPERATION", help="these alone; nothing is kept")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=f"as a share [{TOLERANCE}]")
    args = parser.parse_args()
    if args.update and args.only:
        parser.error("--update counts all operations, so --only does not go with it")
    return args


def report(kept: dict[str, float], now: dict[str, float], what: dict[str, str], verdicts: dict[str, str]) -> str:
    head = ["operation", "instructions", "kept", "change", ""]
    rows = []
    for name, said in verdicts.items():
        before, after = kept.get(name), now.get(name)
        change = f"{(after / before - 1) * 100:+.1f} %" if before and after else "-"
        cells = ["-" if value is None else f"{value:,.0f}" for value in (after, before)]
        rows.append([what.get(name, name), *cells, change, said])
    return markdown([head, *rows])


def main() -> None:
    args = parse_arguments()
    if shutil.which("valgrind") is None:
        sys.exit(NO_VALGRIND)
    stored = json.loads(KEPT.read_text()) if KEPT.exists() else {"rustc": None, "instructions": {}}
    hottest = program()
    known = operations(hottest)
    wanted = args.only or list(known)
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"there is no operation {unknown[0]}; there are " + ", ".join(known))
    now = {}
    for name in wanted:
        print(f"counting {name}", file=sys.stderr, flush=True)
        now[name] = count(hottest, name, known[name][0])
    kept = {name: value for name, value in stored["instructions"].items() if not args.only or name in now}
    verdicts = compare(kept, now, args.tolerance)
    print(report(kept, now, {name: text for name, (_, text) in known.items()}, verdicts))
    if args.update:
        KEPT.write_text(json.dumps({"rustc": rustc(), "instructions": now}, indent=1) + "\n")
        print(f"\nwritten to {KEPT.relative_to(ROOT)}")
        return
    if stored["rustc"] != rustc():
        print(f"\nThe counts kept are of {stored['rustc']}, these of {rustc()}: a difference may be the compiler's.")
    worse = [name for name, said in verdicts.items() if said == "more"]
    if worse:
        sys.exit(f"more instructions than before: {', '.join(worse)}. If that is meant: --update.")
    if any(said in ("fewer", "new", "gone") for said in verdicts.values()) and not args.only:
        sys.exit("the counts that are kept are not those of this code any more: --update keeps these.")


if __name__ == "__main__":
    main()
