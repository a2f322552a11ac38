#!/usr/bin/env python3
"""Measures one `mooncake` Python package end to end, through its public API only.

Works with any package that has `mooncake.store.MooncakeDistributedStore`, so that two packages can be compared;
`compare.py` beside this file does so. By hand:

    python3 -m venv peer
    peer/bin/pip install mooncake-transfer-engine-non-cuda==0.3.13.post1 numpy
    peer/bin/python bench/peer.py --json a.json    # and the same with this project's own environment

Starts a master and a storage node on free ports, and stops them. The master is the package's `mooncake_master`, from
the bin folder of the environment that runs this file. Then starts a master and one process that is client and storage
node at once. Compares every value that it reads with the value that was put. The goals that `compare.py` prints refer
to this script.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SIZES = {4096: 2000, 65536: 2000, 1 << 20: 500, 16 << 20: 40}
BATCHES = ((65536, 128, 10), (1 << 20, 64, 10))
BUFFER_BYTES = 256 << 20
SMALL_BATCH = 1000
SMALL_BYTES = 64
# A quick run makes this fraction of the calls.
QUICK = 10
EXISTS = 3000
LONG_KEY = "Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{:064x}"
START_DEADLINE_S = 60


def free_port(host="127.0.0.1"):
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def connect(args, segment_bytes, buffer_bytes):
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    code = store.setup(
        f"{args.host}:{free_port(args.host)}",
        f"http://{args.master_host}:{args.http_port}/metadata",
        segment_bytes,
        buffer_bytes,
        "tcp",
        "",
        f"{args.master_host}:{args.master_port}",
    )
    if code != 0:
        sys.exit(f"setup failed: {code}")
    return store


def node(args):
    store = connect(args, args.segment, 16 << 20)
    print("ready", flush=True)
    signal.pause()
    store.close()


def timed(calls):
    seconds = []
    for call in calls:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def expect(value, wanted):
    if value != wanted:
        sys.exit(f"expected {wanted!r}, got {value!r}")


def cpu_seconds(pid):
    """The CPU time of a process so far in seconds, with all its threads, including those that have ended."""
    return time.clock_gettime(~pid << 3 | 2)


class Client:
    def __init__(self, store, quick, others):
        import numpy as np

        self.store = store
        self.quick = quick
        # The processes whose CPU time is measured, by name.
        self.pids = {"client": os.getpid(), **others}
        self.source = np.random.default_rng(7).integers(0, 255, BUFFER_BYTES, dtype=np.uint8)
        self.target = np.zeros(BUFFER_BYTES, dtype=np.uint8)
        for array in (self.source, self.target):
            expect(store.register_buffer(array.ctypes.data, array.nbytes), 0)
        self.src, self.dst = self.source.ctypes.data, self.target.ctypes.data

    def expect_bytes(self, source_at, size, what):
        if not (self.target[:size] == self.source[source_at : source_at + size]).all():
            sys.exit(f"wrong bytes at {what}")

    def remove(self, keys):
        for key in keys:
            self.store.remove(key, True)

    def count(self, full):
        return max(4, full // QUICK) if self.quick else full

    def cpu(self):
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def cost(self, since, moved):
        """The CPU seconds of each process per GB, since an earlier `cpu()`."""
        now = self.cpu()
        return {f"{name}_s_per_GB": (now[name] - since[name]) / moved * 1e9 for name in now}

    def ones(self, out):
        """Measures single objects: put, first get, gets of 16 keys in turn, gets of one key, and puts where the first
        ones lay.
        """
        for size, full in SIZES.items():
            count = self.count(full)
            keys = [f"one-{size}-{i}" for i in range(count)]

            def put(i, size=size, keys=keys):
                expect(self.store.put_from(keys[i], self.src + (i % 4) * size, size), 0)

            def get(key, size=size):
                expect(self.store.get_into(key, self.dst, size), size)

            puts = timed(lambda i=i, put=put: put(i) for i in range(count))
            gets = timed(lambda key=key, get=get: get(key) for key in keys)
            self.expect_bytes((count - 1) % 4 * size, size, f"get_into of {size}")
            again = timed(lambda key=keys[i % 16 % count], get=get: get(key) for i in range(count))
            self.expect_bytes((count - 1) % 16 % min(count, 16) % 4 * size, size, f"repeated get_into of {size}")
            same = timed(lambda get=get, key=keys[1]: get(key) for _ in range(count))
            self.expect_bytes(size, size, f"get_into of one key of {size}")
            self.remove(keys)
            puts_again = timed(lambda i=i, put=put: put(i) for i in range(count))
            for name, seconds in (
                ("put", puts),
                ("get", gets),
                ("get_again", again),
                ("get_same", same),
                ("put_again", puts_again),
            ):
                out[f"{name}_{size}"] = {
                    "p50_us": quantile(seconds, 0.5) * 1e6,
                    "p99_us": quantile(seconds, 0.99) * 1e6,
                    "GBps": count * size / sum(seconds) / 1e9,
                }
            self.remove(keys)

    def batches(self, out):
        store = self.store
        for size, batch, full in BATCHES:
            rounds = self.count(full)
            groups = [[f"b-{size}-{r}-{i}" for i in range(batch)] for r in range(rounds)]
            sizes = [size] * batch
            sp = [self.src + i * size for i in range(batch)]
            dp = [self.dst + i * size for i in range(batch)]
            self.target[: batch * size] = 0

            def put(keys, sp=sp, sizes=sizes):
                expect(store.batch_put_from(keys, sp, sizes), [0] * len(keys))

            def get(keys, dp=dp, sizes=sizes):
                expect(store.batch_get_into(keys, dp, sizes), sizes)

            moved = batch * size * rounds
            begin = self.cpu()
            puts = timed(lambda keys=keys, put=put: put(keys) for keys in groups)
            out[f"cost_put_{batch}x{size}"] = self.cost(begin, moved)
            begin = self.cpu()
            gets = timed(lambda keys=keys, get=get: get(keys) for keys in groups)
            out[f"cost_get_{batch}x{size}"] = self.cost(begin, moved)
            self.expect_bytes(0, batch * size, f"batch_get_into of {batch} x {size}")
            again = timed(lambda get=get, keys=groups[0]: get(keys) for _ in range(rounds))
            for name, seconds in (("put", puts), ("get", gets), ("get_again", again)):
                out[f"batch_{name}_{batch}x{size}"] = {"GBps": moved / sum(seconds) / 1e9}
            for group in groups:
                self.remove(group)

    def small(self, out, total):
        """Measures many small objects under long keys. They stay, so that the master's memory can be measured."""
        store = self.store
        groups = [
            [LONG_KEY.format(r * SMALL_BATCH + i) for i in range(SMALL_BATCH)] for r in range(total // SMALL_BATCH)
        ]
        pointers = [self.src + i * SMALL_BYTES for i in range(SMALL_BATCH)]
        sizes, stored, found = [SMALL_BYTES] * SMALL_BATCH, [0] * SMALL_BATCH, [1] * SMALL_BATCH
        puts = timed(lambda g=g: expect(store.batch_put_from(g, pointers, sizes), stored) for g in groups)
        asks = timed(lambda g=g: expect(store.batch_is_exist(g), found) for g in groups)
        out["small_put"] = {"objects_per_s": len(groups) * SMALL_BATCH / sum(puts)}
        out["batch_exist"] = {"keys_per_s": len(groups) * SMALL_BATCH / sum(asks)}
        ones = timed(lambda: expect(store.is_exist(groups[0][0]), 1) for _ in range(self.count(EXISTS)))
        out["exist"] = {"ops_per_s": len(ones) / sum(ones), "p50_us": quantile(ones, 0.5) * 1e6}


def alone(args):
    """Measures one process that is client and storage node: no byte leaves it."""
    store = connect(args, args.segment, 512 << 20)
    out = {}
    measuring = Client(store, args.quick, {"master": args.master_pid})
    measuring.ones(out)
    measuring.batches(out)
    store.close()
    print("RESULT " + json.dumps({f"alone_{work}": figures for work, figures in out.items()}), flush=True)


def client(args):
    started = time.perf_counter()
    store = connect(args, 0, 512 << 20)
    out = {"setup": {"ms": (time.perf_counter() - started) * 1e3}}
    measuring = Client(store, args.quick, {"node": args.node_pid, "master": args.master_pid})
    measuring.ones(out)
    measuring.batches(out)
    measuring.small(out, args.small)
    out["peak_rss"] = {f"{name}_MiB": peak_rss_bytes(pid) / (1 << 20) for name, pid in measuring.pids.items()}
    store.close()
    print("RESULT " + json.dumps(out), flush=True)


def status_bytes(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def rss_bytes(pid):
    return status_bytes(pid, "VmRSS")


def peak_rss_bytes(pid):
    """The largest resident memory of a process so far, in bytes. For a node, this includes the touched pages of its
    segment.
    """
    return status_bytes(pid, "VmHWM")


def wait_for_port(port, process):
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the master ended with status {process.returncode}")
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"the master does not listen on port {port}")


def wait_for_node(process, log):
    watchdog = threading.Timer(START_DEADLINE_S, process.kill)
    watchdog.start()
    try:
        if not any(line.strip() == "ready" for line in process.stdout):
            log.seek(0)
            sys.exit("the storage node did not become ready:\n" + log.read()[-2000:])
    finally:
        watchdog.cancel()
    # Reads on, because a full pipe would block the node.
    threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()


def start_master(args, started):
    """Starts a master on free ports. Returns it and the flags that the other roles need."""
    master_port, http_port, metrics = free_port(), free_port(), free_port()
    binary = str(pathlib.Path(sys.executable).parent / "mooncake_master")
    flags = [
        f"--rpc_port={master_port}",
        "--enable_http_metadata_server=true",
        f"--http_metadata_server_port={http_port}",
        f"--metrics_port={metrics}",
    ]
    master = subprocess.Popen([binary, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(master)
    wait_for_port(master_port, master)
    found = ["--master-port", str(master_port), "--http-port", str(http_port), "--master-pid", str(master.pid)]
    return master, [*found, "--segment", str(args.segment), "--small", str(args.small)]


def result_of(role, flags, args):
    """Runs a role in a process, and returns the figures that it prints."""
    run = subprocess.run(
        [sys.executable, __file__, role, *flags, *(["--quick"] if args.quick else [])],
        capture_output=True,
        text=True,
        timeout=570,
    )
    lines = [line[7:] for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        sys.exit(f"{role} failed: {run.stdout[-500:]}\n{run.stderr[-2000:]}")
    return json.loads(lines[0])


def measure(args, started, log):
    master, flags = start_master(args, started)
    server = subprocess.Popen(
        [sys.executable, __file__, "node", *flags],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    started.append(server)
    wait_for_node(server, log)
    before = rss_bytes(master.pid)
    out = result_of("client", [*flags, "--node-pid", str(server.pid)], args)
    out["master_bytes_per_object"] = {"bytes": (rss_bytes(master.pid) - before) / args.small}
    stop([started.pop(), started.pop()])
    _, flags = start_master(args, started)
    return out | result_of("alone", flags, args)


def stop(processes):
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", default="all", choices=("all", "node", "client", "alone"))
    parser.add_argument("--master-port", type=int)
    parser.add_argument("--http-port", type=int)
    parser.add_argument("--host", default="127.0.0.1", help="this process's address")
    parser.add_argument("--master-host", default="127.0.0.1")
    parser.add_argument("--master-pid", type=int)
    parser.add_argument("--node-pid", type=int)
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls")
    parser.add_argument("--segment", type=int, default=4 << 30)
    parser.add_argument("--small", type=int, default=100_000, help="small objects to store")
    parser.add_argument("--json", help="write the figures here")
    args = parser.parse_args()
    if args.small < SMALL_BATCH or args.small % SMALL_BATCH:
        parser.error(f"--small must be a multiple of {SMALL_BATCH}")
    if args.role != "all":
        {"node": node, "client": client, "alone": alone}[args.role](args)
        return
    # SIGTERM runs the `finally` below, so that no process is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    started = []
    try:
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            out = measure(args, started, log)
    finally:
        stop(started)
    for name, figures in out.items():
        text = "  ".join(f"{field} {value:.4g}" for field, value in figures.items())
        print(f"{name:<24} {text}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
