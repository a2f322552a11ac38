#!/usr/bin/env python3
"""How long a pool is out of service when a part of it dies, beside the C++ package; a table in Markdown.

    python3 bench/recovery.py                       # about twenty minutes; see --help
    python3 bench/recovery.py --quick --only rust   # fewer objects and shorter outages, for a look

Each scenario starts a pool of real processes on this host and fills it. One client then puts new objects, another gets
the old ones in turn, both without end. The scenario breaks something, and evaluates the clients' answers: the longest
time without a successful put or get, and how many objects are lost afterwards. Every value that is read is compared.
Scenarios with several masters need `etcd` on the PATH. If a package cannot run a scenario, or does not survive it, the
table has the reason instead of figures.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import environment
from table import markdown

HERE = pathlib.Path(__file__).resolve().parent
START_DEADLINE_S = 60.0
# For how long a master leads before it is killed again, in the scenarios with millions of objects: it has some of them.
LED_S = 1.6
# Bytes of an object of which there are millions, and of its place in a segment with room to spare.
SMALL, SMALL_PLACE = 16, 96
# The time for which clients call before something is broken.
BEFORE_S = 2.0
# How often the processes of a slow machine stop and go on again.
SLOW_PERIOD_S = 0.1


class FailedError(Exception):
    """A process did not start or has ended, or the package does not support the scenario."""


class Outage(NamedTuple):
    """The result of one scenario; times in seconds."""

    no_put_s: float | None
    no_get_s: float
    longest_call_s: float
    lost: int
    objects: int
    back_s: float | None = None


class Process:
    """A program with its output in a file."""

    def __init__(self, command: list[str], variables: dict[str, str], log: pathlib.Path) -> None:
        self.log = log
        with log.open("ab") as file, log.with_suffix(".err").open("ab") as errors:
            self.child = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=file, stderr=errors)

    def lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    def wait_for(self, is_there: Callable[[], bool], what: str, for_s: float = START_DEADLINE_S) -> None:
        deadline = time.monotonic() + for_s
        while not is_there():
            if self.child.poll() is not None or time.monotonic() > deadline:
                said = self.log.with_suffix(".err").read_text(errors="replace").strip().splitlines()
                raise FailedError(f"{what}: {said[-1][:200] if said else 'it says nothing'}")
            time.sleep(0.01)

    def wait_until_ready(self, for_s: float = START_DEADLINE_S) -> None:
        self.wait_for(lambda: "ready" in self.lines(), f"{self.log.stem} is not ready", for_s)

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def answers(self) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.lines()[:-1] if line.startswith("{") and line.endswith("}")]
        if self.child.poll() is not None:
            raise FailedError(f"{self.log.stem} has ended: {self.log.with_suffix('.err').read_text()[-200:]}")
        return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def serves(http_port: int) -> bool:
    """Whether a master takes puts and removals."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/health", timeout=5) as answer:
            return bool(json.load(answer)["service_ready"])
    except OSError:
        return False


class Pool:
    """The processes of one package. Use it in a `with`."""

    def __init__(self, package: str, programs: pathlib.Path | None) -> None:
        self.package, self.python = package, environment.python_of(package)
        self.programs = programs if package == "rust" and programs else self.python.parent
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mooncake-recovery-"))
        self.variables = {**os.environ, "XDG_STATE_HOME": str(self.folder), "MOONCAKE_TRANSPORTS": "tcp"}
        self.processes: list[Process] = []
        self.etcd: Process | None = None
        self.coordinator = ""

    def start(self, name: str, command: list[str], variables: dict[str, str] | None = None) -> Process:
        count = len(self.processes)
        process = Process(command, variables or self.variables, self.folder / f"{name}-{count}.log")
        self.processes.append(process)
        return process

    def master(self, port: int, flags: list[str] | None = None, http_port: int | None = None) -> Process:
        http = f"--metrics_port={http_port or free_port()}"
        command = [str(self.programs / "mooncake_master"), f"--rpc_port={port}", http]
        process = self.start("master", [*command, "--rpc_address=127.0.0.1", *(flags or [])])
        process.wait_for(lambda: listens(port) or bool(flags), "the master does not listen")
        return process

    def start_etcd(self, ttl_s: int) -> None:
        if not shutil.which("etcd"):
            raise FailedError("etcd is not on the PATH")
        client, peer = free_port(), free_port()
        place, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        command = ["etcd", f"--data-dir={self.folder / 'etcd'}", "--name=a", f"--initial-cluster=a={peers}"]
        command += [f"--listen-client-urls={place}", f"--advertise-client-urls={place}"]
        command += [f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"]
        if ttl_s < 2:
            # etcd grants no lease shorter than one and a half election timeouts.
            command += ["--heartbeat-interval=50", "--election-timeout=500"]
        self.etcd = self.start("etcd", command)
        self.etcd.wait_for(lambda: listens(client), "etcd does not listen")
        self.coordinator = f"127.0.0.1:{client}"

    def masters(self, ttl_s: int) -> tuple[Process, Process]:
        """Starts two masters that stand for election. The first leads."""
        self.start_etcd(ttl_s)
        flags = ["--enable_ha=true", f"--etcd_endpoints={self.coordinator}", "--ha_backend_type=etcd"]
        if self.package == "rust":
            flags.append(f"--ha_lease_ttl_sec={ttl_s}")
        elif ttl_s != 5:
            raise FailedError("its lease is always 5 s")
        port = free_port()
        first = self.master(port, flags)
        first.wait_for(lambda: listens(port), "no master leads")
        # Gives the first master time to become the leader, so that the second one becomes the standby.
        time.sleep(2)
        return first, self.master(free_port(), flags)

    def role(self, role: str, master: str, *more: str, variables: dict[str, str] | None = None) -> Process:
        command = [str(self.python), str(HERE / "recovery_peer.py"), role, "--master", master, *more]
        process = self.start(role, command, variables)
        if role != "fill":
            process.wait_until_ready()
        return process

    def fill(self, master: str, *more: str, for_s: float = START_DEADLINE_S) -> None:
        process = self.role("fill", master, *more)
        process.wait_until_ready(for_s)

    def elected(self) -> str:
        return f"etcd://{self.coordinator}"

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in reversed(self.processes):
            process.child.kill()
            process.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class SlowMachine:
    """Lets the processes of a pool run for one part in `times` of the time. Use it in a `with`."""

    def __init__(self, pool: Pool, times: float) -> None:
        self.pool, self.times = pool, times
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.is_over.is_set():
            for number, share in ((signal.SIGCONT, 1 / self.times), (signal.SIGSTOP, 1 - 1 / self.times)):
                self.signal(number)
                self.is_over.wait(SLOW_PERIOD_S * share)

    def signal(self, number: int) -> None:
        for process in list(self.pool.processes):
            process.signal(number)

    def __enter__(self) -> None:
        if self.times > 1:
            self.thread.start()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.is_over.set()
        if self.thread.ident:
            self.thread.join()
        self.signal(signal.SIGCONT)


def gap(answers: list[dict[str, Any]], since: float, until: float) -> float:
    """The longest time without a successful call."""
    ends = [answer["t1"] for answer in answers if answer["ok"] and since < answer["t1"] < until]
    marks: list[float] = [since, *ends, until]
    return max(float(later - earlier) for earlier, later in itertools.pairwise(marks))


def lost(gets: list[dict[str, Any]], count: int) -> int:
    """The number of objects that their last get did not find."""
    last = {answer["key"]: answer["ok"] for answer in gets}
    return count - sum(bool(ok) for ok in last.values())


def watch(pool: Pool, master: str, size: list[str], count: int, do: Callable[[], None], after_s: float) -> Outage:
    """Runs clients that put and get while `do` breaks something, and for at least `after_s` seconds after that."""
    putter, getter = pool.role("put", master, *size), pool.role("get", master, *size)
    time.sleep(BEFORE_S)
    since = time.monotonic()
    do()
    # Waits, because a pass over all objects must begin after everything has recovered.
    time.sleep(after_s)
    passed = time.monotonic()
    deadline = passed + 120
    while time.monotonic() < deadline:
        seen = {answer["key"] for answer in getter.answers() if answer["t0"] > passed}
        if len(seen) == count:
            break
        time.sleep(0.2)
    puts, gets = putter.answers(), getter.answers()
    until = max(puts[-1]["t1"], gets[-1]["t1"])
    calls = [answer["t1"] - answer["t0"] for answer in [*puts, *gets] if answer["t1"] > since]
    no_put, no_get = gap(puts, since, until), gap(gets, since, until)
    return Outage(no_put, no_get, max(calls), lost(gets, count), count)


class Settings(NamedTuple):
    objects: int
    outage_s: float
    named_gb: float
    millions: float
    slowdown: float


def sizes(settings: Settings, replicas: int = 1) -> list[str]:
    return ["--count", str(settings.objects), "--replicas", str(replicas)]


def add_nodes(pool: Pool, master: str, count: int, segment_bytes: int = 512 << 20) -> list[Process]:
    return [pool.role("node", master, "--segment", str(segment_bytes)) for _ in range(count)]


def master_restarted(pool: Pool, settings: Settings) -> Outage:
    port = free_port()
    master, address = pool.master(port), f"127.0.0.1:{port}"
    add_nodes(pool, address, 2)
    pool.fill(address, *sizes(settings))

    def act() -> None:
        master.kill()
        pool.master(port)

    return watch(pool, address, sizes(settings), settings.objects, act, 15)


def elected(ttl_s: int, act: Callable[[Pool, Process], None], after_s: float) -> Callable[[Pool, Settings], Outage]:
    def run(pool: Pool, settings: Settings) -> Outage:
        leader, _ = pool.masters(ttl_s)
        add_nodes(pool, pool.elected(), 2)
        pool.fill(pool.elected(), *sizes(settings))
        return watch(pool, pool.elected(), sizes(settings), settings.objects, lambda: act(pool, leader), after_s)

    return run


def etcd_away(pool: Pool, settings: Settings) -> Outage:
    pool.masters(5)
    add_nodes(pool, pool.elected(), 2)
    pool.fill(pool.elected(), *sizes(settings))
    back: list[float] = []

    def act() -> None:
        assert pool.etcd
        pool.etcd.signal(signal.SIGSTOP)
        time.sleep(settings.outage_s)
        pool.etcd.signal(signal.SIGCONT)
        back.append(time.monotonic())

    outage = watch(pool, pool.elected(), sizes(settings), settings.objects, act, 20)
    putter = next(process for process in pool.processes if process.log.stem.startswith("put"))
    first = min((answer["t1"] for answer in putter.answers() if answer["ok"] and answer["t0"] > back[0]), default=None)
    return outage._replace(back_s=None if first is None else first - back[0])


def node_killed(replicas: int) -> Callable[[Pool, Settings], Outage]:
    def run(pool: Pool, settings: Settings) -> Outage:
        port = free_port()
        address = f"127.0.0.1:{port}"
        pool.master(port)
        nodes = add_nodes(pool, address, 3)
        pool.fill(address, *sizes(settings, replicas))
        return watch(pool, address, sizes(settings, replicas), settings.objects, nodes[0].kill, 20)

    return run


def named_node_restarted(pool: Pool, settings: Settings) -> Outage:
    if pool.package == "cpp":
        raise FailedError("it has no segment that outlives its process")
    port, size = free_port(), 65_536
    address, count = f"127.0.0.1:{port}", int(settings.named_gb * (1 << 30)) // size
    pool.master(port)
    segment = pathlib.Path(f"/dev/shm/mooncake-recovery-{os.getpid()}")
    variables = {**pool.variables, "MOONCAKE_SEGMENT_PATH": str(segment)}
    room = str(count * size * 5 // 4 + (64 << 20))
    try:
        node = pool.role("node", address, "--segment", room, variables=variables)
        what = ["--count", str(count), "--size", str(size)]
        pool.fill(address, *what)
        finder = pool.role("find", address, *what)
        since = time.monotonic()
        node.kill()
        pool.role("node", address, "--segment", room, variables=variables)
        assert finder.child.stdin
        finder.child.stdin.write(b"\n")
        finder.child.stdin.flush()
        finder.wait_for(lambda: any(line.startswith("{") for line in finder.lines()), "the objects are not found")
        found = json.loads(finder.lines()[-1])
        if found["right"] != found["read"]:
            raise FailedError(f"{found['read'] - found['right']} of {found['read']} objects cannot be read")
        took = found["found_at"] - since
        return Outage(None, took, took, found["missing"], count)
    finally:
        segment.unlink(missing_ok=True)


def master_killed_twice(nodes: int) -> Callable[[Pool, Settings], Outage]:
    """The master dies, and its successor dies while the nodes tell what they hold. A look-up of each object follows."""

    def run(pool: Pool, settings: Settings) -> Outage:
        if pool.package == "cpp":
            raise FailedError("what it holds is lost with its master")
        port, http_port, count = free_port(), free_port(), int(settings.millions * 1e6)
        address, what = f"127.0.0.1:{port}", ["--count", str(count), "--size", str(SMALL)]
        patience_s = START_DEADLINE_S + count / 1e4
        master = pool.master(port, http_port=http_port)
        add_nodes(pool, address, nodes, count * SMALL_PLACE // nodes + (64 << 20))
        pool.fill(address, *what, for_s=patience_s)
        with SlowMachine(pool, settings.slowdown):
            master.kill()
            second = pool.master(port, http_port=http_port)
            time.sleep(LED_S * settings.slowdown)
            second.kill()
            since = time.monotonic()
            master = pool.master(port, http_port=http_port)
            master.wait_for(lambda: serves(http_port), "the objects do not come back", patience_s)
            took = time.monotonic() - since
        finder = pool.role("find", address, *what, "--patience", "0")
        assert finder.child.stdin
        finder.child.stdin.write(b"\n")
        finder.child.stdin.flush()
        finder.wait_for(
            lambda: any(line.startswith("{") for line in finder.lines()),
            "the client that looks them up says nothing",
            patience_s,
        )
        found = json.loads(finder.lines()[-1])
        if found["right"] != found["read"]:
            raise FailedError(f"{found['read'] - found['right']} of {found['read']} objects cannot be read")
        return Outage(took, took, took, found["missing"], count)

    return run


def kill_leader(_: Pool, leader: Process) -> None:
    leader.kill()


def pause_leader(_: Pool, leader: Process) -> None:
    leader.signal(signal.SIGSTOP)


SCENARIOS: dict[str, Callable[[Pool, Settings], Outage]] = {
    "master killed and started again": master_restarted,
    "leader killed, lease of 1 s": elected(1, kill_leader, 15),
    "leader killed, lease of 5 s": elected(5, kill_leader, 25),
    "leader paused, lease of 5 s": elected(5, pause_leader, 25),
    "node killed, one replica": node_killed(1),
    "node killed, two replicas": node_killed(2),
    "node restarted with its named segment": named_node_restarted,
    "etcd away": etcd_away,
    "master killed twice, one node with millions of objects": master_killed_twice(1),
    "master killed twice, eight nodes with millions of objects": master_killed_twice(8),
}


def measure(package: str, name: str, args: argparse.Namespace) -> Outage | str:
    quick = args.quick
    settings = Settings(args.objects, args.outage, args.named_gb, args.millions, args.slowdown)
    if quick:
        settings = Settings(args.objects // 5, args.outage / 3, args.named_gb / 10, args.millions / 100, args.slowdown)
    print(f"{package}: {name}", file=sys.stderr, flush=True)
    try:
        with Pool(package, args.programs) as pool:
            return SCENARIOS[name](pool, settings)
    except (FailedError, OSError) as error:
        return str(error)


def row(name: str, package: str, found: Outage | str) -> list[str]:
    if isinstance(found, str):
        return [name, package, found, "", "", ""]
    back = f" ({found.back_s:.2f} s after it is back)" if found.back_s is not None else ""
    no_put = "-" if found.no_put_s is None else f"{found.no_put_s:.2f} s{back}"
    times = [no_put, f"{found.no_get_s:.2f} s", f"{found.longest_call_s:.2f} s"]
    return [name, package, *times, f"{found.lost} of {found.objects}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    environment.add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="fewer objects, shorter outages")
    parser.add_argument("--objects", type=int, default=1000, help="objects of 16 KiB that the pool holds (1000)")
    parser.add_argument("--outage", type=float, default=30, help="seconds that etcd is away (30)")
    parser.add_argument("--named-gb", type=float, default=1, help="GiB that the named segment holds (1)")
    parser.add_argument(
        "--millions", type=float, default=20, help="million objects of 16 bytes, where so many are put (20)"
    )
    parser.add_argument(
        "--slowdown",
        type=float,
        default=1,
        help="how many times slower the processes run from the first death on, where so many are put (1)",
    )
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this one; may be repeated")
    parser.add_argument("--programs", type=pathlib.Path, help="where this project's programs are, if not in its wheel")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    args = parser.parse_args()
    variants = environment.prepare(args)
    packages = [package for package in ("rust", "cpp") if package in variants]
    head = ["what happens", "package", "no put for", "no get for", "longest call", "objects lost"]
    rows, figures = [head], {}
    for name in args.scenario or SCENARIOS:
        for package in packages:
            found = measure(package, name, args)
            rows.append(row(name, environment.VARIANTS[package][0], found))
            figures[f"{name}, {package}"] = found if isinstance(found, str) else found._asdict()
    print(f"{environment.machine()}; objects of 16 KiB; processes of one host, by TCP\n")
    print(markdown(rows))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
