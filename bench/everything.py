#!/usr/bin/env python3
"""Runs every benchmark, one after the other, and collects the output: the figures of the pages on performance.

    python3 bench/everything.py              # about an hour, on a machine that does nothing else
    python3 bench/everything.py --quick      # a quarter of an hour, to see that all of it works
    python3 bench/everything.py --write      # and put the figures into docs/performance.md and docs/performance/
    python3 bench/everything.py --only "A slow link" "The wire"     # some of the sections

Writes .bench/report.md, with a section per benchmark and its command. A benchmark that fails is reported there, and
the others still run. One of the documents has `<!-- figures: TITLE -->` and `<!-- end -->` around the figures of each
section.
"""

import argparse
import subprocess
import sys

from environment import HOME, ROOT, machine

DOCUMENTS = [ROOT / "docs" / "performance.md", *sorted((ROOT / "docs" / "performance").glob("*.md"))]
CARGO = ["cargo", "bench", "--locked", "--package"]
# The section that builds and installs the packages for the sections after it.
BUILDS = "Beside the C++ package"
HOT_CACHE, LINK = ["bench/hot_cache.py", "--as-installed", "--only", "rust"], ["--rate-mbit", "1000"]
# By section: the command, and what a quick run adds to it.
SECTIONS: dict[str, tuple[list[str], list[str]]] = {
    BUILDS: (["bench/compare.py"], ["--quick"]),
    "Summary": (["bench/compare.py", "--summary", "--from-json", ".bench/figures.json"], []),
    "Where the time of a call goes": (["bench/breakdown.py"], ["--work", "put_from 1 MiB"]),
    "As the work grows": (["bench/scale.py", "--as-installed"], ["--quick"]),
    "A slow link": (["bench/link.py", "--as-installed"], ["--rounds", "1", "--batch", "16"]),
    "What a call from Python costs": (["bench/python_overhead.py", "--as-installed"], ["--rounds", "1"]),
    "The hot cache": (HOT_CACHE, ["--rounds", "1"]),
    "The hot cache on an idle link": ([*HOT_CACHE, *LINK, "--load", "0", "--gets", "300"], ["--rounds", "1"]),
    "The hot cache on a link": ([*HOT_CACHE, *LINK], ["--rounds", "1", "--gets", "300"]),
    "Disks": (["bench/disks.py", "--as-installed"], ["--gib", "1", "--rounds", "1"]),
    "Conversations that outgrow memory": (["bench/outgrown.py", "--as-installed"], ["--requests", "500"]),
    "The master over the wire": (["bench/master_load.py", "--as-installed"], ["--seconds", "1"]),
    "The package": (["bench/package.py"], ["--rounds", "3"]),
    "Instructions": (["bench/instructions.py"], []),
    "The master's state machine": ([*CARGO, "mooncake-meta", "--bench", "meta"], ["--", "100000"]),
    "A pool that comes back": ([*CARGO, "mooncake-master", "--bench", "recovery"], ["--", "100000"]),
    "Eviction": (["bench/policies.py", "--as-installed"], ["--seeds", "1"]),
    "The range allocator": ([*CARGO, "mooncake-alloc", "--bench", "alloc"], ["--", "50000"]),
    "The wire": ([*CARGO, "mooncake-wire", "--bench", "frames"], []),
    "Seals": ([*CARGO, "mooncake-seals", "--bench", "seals"], []),
}


def run(command: list[str]) -> tuple[str, int]:
    """The standard output of a command, as Markdown, and its status. Standard error is shown, not kept."""
    runs = command if command[0] == "cargo" else [sys.executable, *command]
    done = subprocess.run(runs, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    text = done.stdout.strip()
    return text if "|---" in text.replace(" ", "") else f"```\n{text}\n```", done.returncode


def filled(document: str, title: str, figures: str) -> str:
    """The document with these figures between the marks of that title. Unchanged if it has no such marks."""
    begin, end = f"<!-- figures: {title} -->\n", "<!-- end -->"
    before, mark, rest = document.partition(begin)
    if not mark or end not in rest:
        return document
    return f"{before}{mark}{figures}\n{rest[rest.index(end) :]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything: not for publishing")
    parser.add_argument("--write", action="store_true", help="put the figures into the documents")
    parser.add_argument("--only", nargs="+", metavar="SECTION", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument(
        "--as-installed", action="store_true", help="measure the packages that are in .bench/ already; build neither"
    )
    args = parser.parse_args()
    if args.quick and args.write:
        parser.error("figures of a quick run are not for the documents")
    HOME.mkdir(exist_ok=True)
    target, parts, failed = HOME / "report.md", [f"{machine()}.\n"], []
    for title in args.only:
        command, quick = SECTIONS[title]
        installed = ["--as-installed"] if args.as_installed and title == BUILDS else []
        command = [*command, *installed, *(quick if args.quick else [])]
        shown = " ".join(command if command[0] == "cargo" else ["python3", *command])
        print(f"== {title}: {shown}", file=sys.stderr, flush=True)
        figures, status = run(command)
        if status != 0:
            failed.append(title)
            figures += f"\n\nIt ended with status {status}."
        elif args.write:
            for document in DOCUMENTS:
                document.write_text(filled(document.read_text(), title, figures))
        parts.append(f"## {title}\n\n`{shown}`\n\n{figures}\n")
        target.write_text("\n".join(parts))
    print(f"written to {target}")
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
