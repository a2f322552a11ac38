"""`transfer_engine_bench`: measures how fast transfer engines read or write each other's memory, from Python.

With `--mode=target` it lends memory, prints its name, and runs until SIGINT or SIGTERM. With `--mode=initiator
--segment_id=NAME` it moves blocks to or from that memory in batches, and prints the throughput. Each batch is one call
from Python: with small batches, the figure includes Python's own time.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mooncake._flag import count
from mooncake._output import Parser, say

__all__ = ["main", "parse_arguments"]

MAX_THREADS = 256
MAX_BATCH = 1 << 16
MAX_BYTES = 1 << 40
MAX_DURATION_SECONDS = 86_400
# The bytes of each unit; "b" is a bit.
UNITS = {
    "GB": 1e9,
    "GiB": float(1 << 30),
    "Gb": 1e9 / 8,
    "MB": 1e6,
    "MiB": float(1 << 20),
    "Mb": 1e6 / 8,
    "KB": 1e3,
    "KiB": 1024.0,
    "Kb": 1e3 / 8,
}
MAX_PRECISION = 9
# Flags of the C++ program, of gflags and of glog that change nothing here. Start scripts pass them.
SWITCHES_WITHOUT_EFFECT = (
    "auto_discovery",
    "use_vram",
    "init_mem",
    "logtostderr",
    "alsologtostderr",
    "colorlogtostderr",
)
VALUES_WITHOUT_EFFECT = (
    "nic_priority_matrix",
    "backend",
    "gpu_id",
    "v",
    "vmodule",
    "minloglevel",
    "stderrthreshold",
    "log_dir",
    "max_log_size",
)


@dataclass
class Tally:
    """The batches that one thread moved, and its failure."""

    batches: int = 0
    failure: str | None = None


def main() -> int:
    """Runs one side. Returns the exit status: 0, or 1 if a transfer failed or the side could not start."""
    flags = parse_arguments()
    if without_effect := _without_effect(flags):
        print(f"transfer_engine_bench: without effect here: {', '.join(without_effect)}", file=sys.stderr)
    try:
        return _target(flags) if flags.mode == "target" else _initiate(flags)
    except (RuntimeError, OSError, ImportError) as error:
        print(f"transfer_engine_bench: {error}", file=sys.stderr)
        return 1


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the flags, in all spellings of gflags, with dashes or underscores. If one is wrong, prints a message and
    ends the process with status 2.
    """
    given = sys.argv[1:] if arguments is None else arguments
    what = "Measure how fast one transfer engine reads or writes the memory that another one lends."
    parser = Parser(prog="transfer_engine_bench", description=what, allow_abbrev=False)
    for name, settings in _flags().items():
        parser.add_argument(f"--{name}", **settings)
    for name in SWITCHES_WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", f"--no{name}", nargs="?", const="true", help=argparse.SUPPRESS)
    for name in VALUES_WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    flags = parser.parse_args([_spelled(one) for one in given])
    if flags.mode == "initiator" and not flags.segment_id:
        parser.error("--segment_id is required: the name that the target printed")
    return flags


def _spelled(argument: str) -> str:
    """The flag with two dashes, and with underscores in its name. Values, and `-h`, stay as they are."""
    name, equals, value = argument.partition("=")
    plain = name.lstrip("-")
    is_flag = name.startswith("-") and plain[:1].isalpha() and argument != "-h"
    return f"--{plain.replace('-', '_')}{equals}{value}" if is_flag else argument


def _without_effect(flags: argparse.Namespace) -> list[str]:
    names = (*SWITCHES_WITHOUT_EFFECT, *VALUES_WITHOUT_EFFECT)
    return [f"--{name}" for name in names if getattr(flags, name) is not None]


def _flags() -> dict[str, dict[str, Any]]:
    return {
        "mode": {"choices": ("initiator", "target"), "default": "initiator"},
        "segment_id": {"default": "", "metavar": "NAME", "help": "the target's name"},
        "local_server_name": {"default": socket.gethostname(), "metavar": "NAME", "help": "default: the host's name"},
        "metadata_server": {"default": "P2PHANDSHAKE", "metavar": "URL", "help": "default: %(default)s"},
        "protocol": {"default": "tcp", "help": "default: %(default)s"},
        "device_name": {"default": "", "metavar": "NAMES", "help": "network cards, for protocols that take any"},
        "operation": {"choices": ("read", "write"), "default": "read"},
        "block_size": {
            "type": count(MAX_BYTES),
            "default": 65_536,
            "metavar": "BYTES",
            "help": "default: %(default)s",
        },
        "batch_size": {"type": count(MAX_BATCH), "default": 128, "metavar": "BLOCKS", "help": "default: %(default)s"},
        "buffer_size": {
            "type": count(MAX_BYTES),
            "default": 1 << 30,
            "metavar": "BYTES",
            "help": "what a target lends",
        },
        "threads": {"type": count(MAX_THREADS), "default": 1, "help": "default: %(default)s"},
        "duration": {
            "type": count(MAX_DURATION_SECONDS),
            "default": 10,
            "metavar": "SECONDS",
            "help": "default: %(default)s",
        },
        "report_unit": {"choices": tuple(UNITS), "default": "GB", "help": "of each second; b: bits"},
        "report_precision": {
            "type": int,
            "choices": range(MAX_PRECISION + 1),
            "default": 2,
            "metavar": "DIGITS",
            "help": "digits behind the point; default: %(default)s",
        },
    }


def _engine(flags: argparse.Namespace) -> Any:
    """An initialized engine. Raises RuntimeError if `initialize` fails."""
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    code = engine.initialize(flags.local_server_name, flags.metadata_server, flags.protocol, flags.device_name)
    if code != 0:
        raise RuntimeError(f"the engine could not be initialized, code {code}")
    return engine


def _allocate(engine: Any, size: int) -> int:
    address = int(engine.allocate_managed_buffer(size))
    if address == 0:
        raise RuntimeError(f"the engine allocates no {size} bytes")
    return address


def _target(flags: argparse.Namespace) -> int:
    # Blocked before the engine starts its threads, which inherit the mask, so that `sigwait` gets the signals.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    engine = _engine(flags)
    address = _allocate(engine, flags.buffer_size)
    name = flags.local_server_name
    if flags.metadata_server == "P2PHANDSHAKE":
        name = f"{name.partition(':')[0]}:{engine.get_rpc_port()}"
    say(f"target {name} lends {flags.buffer_size} bytes")
    signal.sigwait(signals)
    engine.free_managed_buffer(address, flags.buffer_size)
    return 0


def _initiate(flags: argparse.Namespace) -> int:
    engine = _engine(flags)
    remote = int(engine.get_first_buffer_address(flags.segment_id))
    if remote == 0:
        raise RuntimeError(f"{flags.segment_id} cannot be reached, or lends no memory")
    batch_bytes = flags.block_size * flags.batch_size
    local = _allocate(engine, batch_bytes * flags.threads)
    transfer = getattr(engine, f"batch_transfer_sync_{flags.operation}")
    stopping = threading.Event()
    tallies = [Tally() for _ in range(flags.threads)]

    def work(number: int) -> None:
        # Each thread has its own part of both buffers. The target refuses a part beyond its buffer.
        offsets = [number * batch_bytes + block * flags.block_size for block in range(flags.batch_size)]
        own, others = [local + offset for offset in offsets], [remote + offset for offset in offsets]
        lengths = [flags.block_size] * flags.batch_size
        while not stopping.is_set():
            code = transfer(flags.segment_id, own, others, lengths)
            if code != 0:
                tallies[number].failure = f"a batch failed, code {code}; is the target's --buffer_size large enough?"
                stopping.set()
                return
            tallies[number].batches += 1

    seconds = _run(work, flags.threads, flags.duration, stopping)
    engine.free_managed_buffer(local, batch_bytes * flags.threads)
    return _report(flags, tallies, seconds)


def _run(work: Callable[[int], None], threads: int, duration_seconds: int, stopping: threading.Event) -> float:
    """Runs `work` in threads for `duration_seconds`, or until one sets `stopping`. Returns the seconds until the last
    ended.
    """
    workers = [threading.Thread(target=work, args=[number]) for number in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    try:
        stopping.wait(duration_seconds)
    finally:
        stopping.set()
        for worker in workers:
            worker.join()
    return time.perf_counter() - started


def _report(flags: argparse.Namespace, tallies: list[Tally], seconds: float) -> int:
    batches = sum(tally.batches for tally in tallies)
    moved = batches * flags.batch_size * flags.block_size
    rate = moved / seconds / UNITS[flags.report_unit]
    say(
        f"Test completed: duration {seconds:.2f} s, {flags.operation} {batches} batches of {flags.batch_size} "
        f"blocks of {flags.block_size} bytes, throughput {rate:.{flags.report_precision}f} {flags.report_unit}/s"
    )
    failure = next((tally.failure for tally in tallies if tally.failure), None)
    if failure is not None:
        print(f"transfer_engine_bench: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
