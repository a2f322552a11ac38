#!/usr/bin/env python3
"""Runs every benchmark, one after the other, and collects what they print: the figures of docs/performance.md.

    python3 bench/everything.py              # about an hour, on a machine that does nothing else
    python3 bench/everything.py --quick      # a quarter of an hour, to see that all of it works

Writes .bench/report.md, a section for each with its command; one that fails is named there and does not end the rest.
"""

import argparse
import subprocess
import sys

from environment import HOME, ROOT, machine

CARGO = ["cargo", "bench", "--locked", "--package"]
# By section: the command, and what a quick run adds to it.
SECTIONS: dict[str, tuple[list[str], list[str]]] = {
    "Beside the C++ package": (["bench/compare.py"], ["--quick"]),
    "The raw limit of small operations": (["bench/round_trip.py"], []),
    "As the work grows": (["bench/scale.py", "--as-installed"], ["--quick"]),
    "A slow link": (["bench/link.py", "--as-installed"], ["--rounds", "1", "--batch", "16"]),
    "What a call from Python costs": (["bench/python_overhead.py", "--as-installed"], ["--rounds", "1"]),
    "The master over the wire": (["bench/master_load.py", "--as-installed"], ["--seconds", "1"]),
    "The package": (["bench/package.py"], ["--rounds", "3"]),
    "Instructions": (["bench/instructions.py"], []),
    "The master's state machine": ([*CARGO, "mooncake-meta", "--bench", "meta"], ["--", "100000"]),
    "The range allocator": ([*CARGO, "mooncake-alloc", "--bench", "alloc"], ["--", "50000"]),
    "The wire": ([*CARGO, "mooncake-wire", "--bench", "frames"], []),
}


def section(title: str, command: list[str]) -> tuple[str, bool]:
    """Runs a command; its section, and whether it succeeded. What goes to standard error is shown, not kept."""
    print(f"== {title}: {' '.join(command)}", file=sys.stderr, flush=True)
    runs = command if command[0] == "cargo" else [sys.executable, *command]
    done = subprocess.run(runs, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    shown = " ".join(command if command[0] == "cargo" else ["python3", *command])
    ended = "" if done.returncode == 0 else f"\n\nIt ended with status {done.returncode}."
    text = done.stdout.strip()
    body = text if "| --- |" in text else f"```\n{text}\n```"
    return f"## {title}\n\n`{shown}`\n\n{body}{ended}\n", done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything: not for publishing")
    args = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    target, parts, failed = HOME / "report.md", [f"{machine()}.\n"], []
    for title, (command, quick) in SECTIONS.items():
        text, is_good = section(title, [*command, *(quick if args.quick else [])])
        parts.append(text)
        if not is_good:
            failed.append(title)
        target.write_text("\n".join(parts))
    print(f"written to {target}")
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
