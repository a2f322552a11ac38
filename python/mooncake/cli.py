"""`python -m mooncake.cli` runs `mooncake_master`.

The programs are native. This module serves callers of the C++ package that start them as modules.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

__all__ = ["find_program", "main", "run_program"]

DISTRIBUTION = "mooncake-pool"
NOT_FOUND = 127


def find_program(name: str) -> Path | None:
    """The path of a program that was installed with this package; None if it is missing.

    PATH is not searched: a program of the same name there may belong to another package.
    """
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    try:
        installed = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        installed = []
    recorded = [Path(str(file.locate())).resolve() for file in installed if file.name == name]
    for program in [*recorded, *(folder / name for folder in folders)]:
        if program.is_file() and os.access(program, os.X_OK):
            return program
    return None


def run_program(name: str) -> int:
    """Replaces this process by the program, with the same arguments. Returns 127 if it is not installed."""
    program = find_program(name)
    if program is None:
        print(f"{name} is not installed beside {sys.executable}; reinstall {DISTRIBUTION}", file=sys.stderr)
        return NOT_FOUND
    sys.stdout.flush()
    sys.stderr.flush()
    return os.execv(program, [str(program), *sys.argv[1:]])


def main() -> int:
    """Runs `mooncake_master`."""
    return run_program("mooncake_master")


if __name__ == "__main__":
    sys.exit(main())
