"""`python -m mooncake.cli_client` runs `mooncake_client`."""

from __future__ import annotations

import sys

from mooncake.cli import run_program

__all__ = ["main"]


def main() -> int:
    """Runs `mooncake_client`."""
    return run_program("mooncake_client")


if __name__ == "__main__":
    sys.exit(main())
