"""`transfer_engine_topology_dump`: prints the NUMA nodes and network cards that a transfer engine finds here."""

from __future__ import annotations

import sys

from mooncake._output import Parser, say

__all__ = ["main"]


def main() -> int:
    """Prints one line with JSON. Returns the exit status: 1 if the engine cannot be loaded or finds no topology."""
    parser = Parser(description="Print the topology that a transfer engine finds on this host, as JSON.")
    parser.add_argument("--device-name", default="", metavar="NAMES", help="only these network cards")
    flags = parser.parse_args()
    try:
        from mooncake.engine import TransferEngine

        topology = TransferEngine().get_local_topology(flags.device_name or None)
    except (ImportError, RuntimeError) as error:
        print(f"transfer_engine_topology_dump: {error}", file=sys.stderr)
        return 1
    say(f"Local topology [te/discover]: {topology}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
