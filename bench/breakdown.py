#!/usr/bin/env python3
"""Where the time of a call goes: how long each process spends on copies, checksums, sockets and the rest.

    python3 bench/breakdown.py               # builds first; needs perf (Debian: apt-get install linux-perf)
    python3 bench/breakdown.py --as-installed  # two minutes, with what was built before

A client repeats one kind of work, with a node and a master in processes of their own. perf samples each of them 5,000
times a second. Only samples within a call count; what the client does between calls, to make room, does not. A line of
the table is a process: its processor time in percent of the duration of the calls, and its purposes. The package is
built from the sources into an environment of its own, .bench/symbols, with the names of its functions.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from environment import HOME, ROOT, ensure_environment, machine, python_of, run
from table import cell, markdown
from testbed import HERE_PLACE, Client, Pool

KIB, MIB = 1 << 10, 1 << 20
FREQUENCY = 4_999
SEGMENT_BYTES = 4 << 30
# perf takes no samples for a moment after its start.
PERF_START_SECONDS = 1.0


class Work(NamedTuple):
    """A kind of call. A round puts, gets or looks up `objects` objects, `batch` per call; 1 means a call for one
    object.
    """

    name: str
    variant: str
    verb: str
    size: int
    batch: int
    objects: int

    def options(self) -> dict[str, object]:
        """The options for the client."""
        return {"verb": self.verb, "size": self.size, "batch": self.batch, "objects": self.objects}


WORKS = [
    Work("get_into 1 MiB, TCP", "rust_tcp", "get", MIB, 1, 512),
    Work("get_into 16 MiB, TCP", "rust_tcp", "get", 16 * MIB, 1, 32),
    Work("put_from 1 MiB, TCP", "rust_tcp", "put", MIB, 1, 512),
    Work("batch_put_from 64 x 1 MiB, TCP", "rust_tcp", "put", MIB, 64, 512),
    Work("batch_get_into 64 x 1 MiB, TCP", "rust_tcp", "get", MIB, 64, 512),
    Work("batch_get_into 128 x 64 KiB, TCP", "rust_tcp", "get", 64 * KIB, 128, 2048),
    Work("batch_put_from 1000 x 64 B, TCP", "rust_tcp", "put", 64, 1000, 20_000),
    Work("batch_is_exist 1000 keys", "rust_tcp", "exist", 64, 1000, 20_000),
    Work("get_into 1 MiB, shared memory", "rust", "get", MIB, 1, 512),
    Work("get_into 1 MiB again (16 keys), shared memory", "rust", "again", MIB, 1, 512),
]

ENVIRONMENT = "symbols"
TARGET = ROOT / "target" / "profiled"

# The purpose of a sample: the first of these with a mark in a function on its stack, innermost function first.
COPIES, CHECKSUMS, LOOKING, SENDING, RECEIVING, PAGES, REST = KINDS = (
    "copies",
    "checksums",
    "giving way while it looks for a message",
    "sending, delivery to the other socket included",
    "receiving, or looking for it",
    "pages",
    "its own code, and the rest",
)
MARKS = {
    COPIES: ("_copy_to_iter", "_copy_from_iter", "copy_user", "rep_movs", "memmove", "memcpy"),
    CHECKSUMS: ("crc32",),
    LOOKING: ("sched_yield",),
    PAGES: ("handle_mm_fault", "exc_page_fault", "madvise"),
    SENDING: ("sys_sendmsg", "sys_sendto", "tcp_sendmsg", "unix_stream_sendmsg"),
    RECEIVING: ("sys_recvmsg", "sys_recvfrom", "tcp_recvmsg", "unix_stream_recvmsg", "poll"),
}


class Sample(NamedTuple):
    pid: int
    seconds: float
    # The innermost function first.
    stack: list[str]


class Profile(NamedTuple):
    """The processor time of one kind of work in seconds, by process and purpose, and the calls that it covers."""

    work: Work
    calls: int
    p50_us: float
    call_seconds: float
    spent: Counter[tuple[str, str]]


def purpose(stack: Sequence[str]) -> str:
    """The purpose of a sample."""
    for function in stack[:1]:
        for kind in (COPIES, CHECKSUMS):
            if any(mark in function for mark in MARKS[kind]):
                return kind
    for function in stack:
        for kind in (LOOKING, PAGES, SENDING, RECEIVING):
            if any(mark in function for mark in MARKS[kind]):
                return kind
    return REST


def samples(script: str) -> Iterator[Sample]:
    """The samples that `perf script -F pid,time,ip,sym` printed: a line per sample, then its stack, a line per
    function.
    """
    for block in script.split("\n\n"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if lines:
            pid, seconds = lines[0].split()[:2]
            stack = [line.partition(" ")[2] for line in lines[1:]]
            yield Sample(int(pid), float(seconds.rstrip(":")), stack)


def spent_in(calls: Sequence[tuple[float, float]], seen: Iterator[Sample], names: dict[int, str]) -> Counter[Any]:
    """The seconds within the calls, by process and purpose. `calls` must be in order."""
    begins = [begin for begin, _ in calls]
    spent: Counter[tuple[str, str]] = Counter()
    for sample in seen:
        at = bisect_right(begins, sample.seconds) - 1
        if at >= 0 and sample.seconds < calls[at][1] and sample.pid in names:
            spent[names[sample.pid], purpose(sample.stack)] += 1
    return Counter({key: count / FREQUENCY for key, count in spent.items()})


def take(work: Work, folder: pathlib.Path) -> Profile:
    with Pool(work.variant, python=str(python_of(ENVIRONMENT))) as pool:
        pool.add_node(SEGMENT_BYTES)
        arguments = [f"--{name}={value}" for name, value in work.options().items()]
        command = pool.role("breakdown_work.py", HERE_PLACE, *arguments)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": pool.log, "text": True}
        client = Client(pool.start(command, **pipes), pool.log)
        pool.clients.append(client)
        client.line()
        names = {client.pid: "client", pool.processes[1].pid: "node", pool.master.pid: "master"}
        data = folder / "perf.data"
        perf: list[Any] = ["perf", "record", "--quiet", "-k", "mono", "-e", "cpu-clock", "-F", str(FREQUENCY), "-g"]
        taken = subprocess.Popen([*perf, "-p", ",".join(map(str, names)), "-o", data], stderr=subprocess.DEVNULL)
        time.sleep(PERF_START_SECONDS)
        client.tell("go")
        calls = [(float(begin), float(end)) for begin, end in json.loads(client.line())]
        taken.send_signal(signal.SIGINT)
        taken.wait()
        command = ["perf", "script", "-i", str(data), "-F", "pid,time,ip,sym"]
        script = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    times = [end - begin for begin, end in calls]
    spent = spent_in(calls, samples(script), names)
    return Profile(work, len(calls), statistics.median(times) * 1e6, sum(times), spent)


def table(profiles: Sequence[Profile]) -> str:
    rows = [["work", "a call, us", "process", "busy", *KINDS]]
    for profile in profiles:
        first = [profile.work.name, cell(profile.p50_us)]
        for process in ("client", "node", "master"):
            shares = [profile.spent[process, kind] / profile.call_seconds for kind in KINDS]
            if sum(shares) >= 0.005:
                rows.append([*first, process, *(f"{share:.0%}" for share in (sum(shares), *shares))])
                first = ["", ""]
    return markdown(rows)


def build() -> None:
    """Builds and installs the package, with the names of the functions in its library."""
    ensure_environment(ENVIRONMENT, ["numpy"])
    run([python_of(ENVIRONMENT), "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", ROOT])
    settings = {**os.environ, "CARGO_PROFILE_RELEASE_STRIP": "none", "CARGO_TARGET_DIR": str(TARGET)}
    library = ["--package", "mooncake-python", "--lib"]
    run(["cargo", "build", "--release", "--locked", "--quiet", *library], env=settings, cwd=ROOT)
    (installed,) = (HOME / ENVIRONMENT).glob("lib/python*/site-packages/mooncake/_native*.so")
    shutil.copy(TARGET / "release" / "libmooncake_native.so", installed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as-installed", action="store_true", help=f"measure what is in .bench/{ENVIRONMENT} already")
    parser.add_argument("--work", help="only kinds of work with this in their names")
    args = parser.parse_args()
    if not shutil.which("perf"):
        sys.exit("perf is not on the PATH; it is in Debian's linux-perf")
    works = [work for work in WORKS if (args.work or "") in work.name]
    if not works:
        parser.error(f"--work: none of {', '.join(work.name for work in WORKS)} has that in its name")
    if not args.as_installed:
        build()
    elif not python_of(ENVIRONMENT).exists():
        sys.exit(f"--as-installed: there is nothing in {HOME / ENVIRONMENT}")
    profiles = []
    with tempfile.TemporaryDirectory() as folder:
        for work in works:
            print(work.name, file=sys.stderr, flush=True)
            profiles.append(take(work, pathlib.Path(folder)))
    print(f"{machine()}.\n\n{table(profiles)}")


if __name__ == "__main__":
    main()
