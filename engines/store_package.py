"""The two packages that have `mooncake.store`: this project's, and the C++ package for comparison."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The Python of the engines' environment, which runs all scripts.
ENGINES_PYTHON = Path(sys.executable)


@dataclass(frozen=True)
class Package:
    """The place where a package is installed, and the variables for all its processes."""

    name: str
    python: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    ours: bool = True

    @property
    def commands(self) -> Path:
        """The folder of `mooncake_master` and `mooncake_client`."""
        return self.python.parent

    @property
    def file_name(self) -> str:
        """The name in a form for file names."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower().replace("+", "p"))


OURS = Package("this project", ENGINES_PYTHON)
OURS_TCP = Package("this project, TCP", ENGINES_PYTHON, {"MOONCAKE_TRANSPORTS": "tcp"})


def cpp_package(python: Path) -> Package:
    """The C++ package in this Python's environment."""
    return Package("C++ package", python, ours=False)
