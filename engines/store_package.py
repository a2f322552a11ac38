"""The two packages that have `mooncake.store`: this project's, and the C++ package that it is compared with."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The engines' environment: its Python runs all scripts.
ENGINES_PYTHON = Path(sys.executable)


@dataclass(frozen=True)
class Package:
    """Where a package is installed, and the variables that all of its processes are started with."""

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
        """For the names of logs."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower().replace("+", "p"))


OURS = Package("this project", ENGINES_PYTHON)
OURS_TCP = Package("this project, TCP", ENGINES_PYTHON, {"MOONCAKE_TRANSPORTS": "tcp"})


def cpp_package(python: Path) -> Package:
    """The C++ package, installed where this Python is."""
    return Package("C++ package", python, ours=False)
