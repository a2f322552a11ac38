#!/usr/bin/env python3
"""What viewers of the master's page cost it: its processor time with none, one and ten, with few and many segments.

    make setup
    .venv/bin/python bench/page_load.py            # three minutes
    .venv/bin/python bench/page_load.py --quick    # a short run

A viewer reads the same stream of events as the page. Fifty objects a second are put while it looks.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from environment import machine
from mooncake.store import MooncakeDistributedStore
from peer import free_port
from table import markdown

MIB = 1 << 20
# Segments that one store lends.
MOST_OF_STORE = 250


class WatchedMaster:
    """A master, and stores in this process that lend segments to it."""

    def __init__(self, segments: int) -> None:
        self.rpc, self.http = free_port(), free_port()
        program = str(Path(sys.executable).with_name("mooncake_master"))
        flags = [f"--rpc_port={self.rpc}", f"--metrics_port={self.http}", "--rpc_address=127.0.0.1", "--state_dir=none"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([program, *flags], **quiet)
        self.stores = [self.add_store() for _ in range(0, segments, MOST_OF_STORE)]
        for number in range(segments):
            mounted = self.stores[number // MOST_OF_STORE].allocate_and_mount_segment(MIB)
            assert mounted["ret"] == 0, mounted

    def add_store(self) -> MooncakeDistributedStore:
        store = MooncakeDistributedStore()
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 * MIB, "tcp", "", f"127.0.0.1:{self.rpc}") == 0
        return store

    def __enter__(self) -> "WatchedMaster":
        return self

    def __exit__(self, *_: object) -> None:
        for store in self.stores:
            store.close()
        self.process.terminate()
        self.process.wait(20)

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def look(self, stop: threading.Event, heard: list[int]) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/api/v1/live", timeout=20) as stream:
            while not stop.is_set():
                heard.append(len(stream.readline()))

    def watched(self, viewers: int, seconds: float) -> tuple[float, float]:
        """The share of a processor that the master used, and the bytes a second that one viewer got."""
        stop = threading.Event()
        heard: list[list[int]] = [[] for _ in range(viewers)]
        threads = [threading.Thread(target=self.look, args=(stop, bytes_heard)) for bytes_heard in heard]
        for thread in threads:
            thread.start()
        # The first events, which have all of it, are not those that a viewer costs for long.
        time.sleep(3)
        for lengths in heard:
            lengths.clear()
        begun, spent, number = time.monotonic(), self.processor_seconds(), 0
        while time.monotonic() - begun < seconds:
            self.stores[0].put(f"key-{number}", bytes(4096))
            number += 1
            time.sleep(0.02)
        took = time.monotonic() - begun
        share = (self.processor_seconds() - spent) / took
        received = sum(map(sum, heard)) / took / max(viewers, 1)
        stop.set()
        for thread in threads:
            thread.join()
        return share, received


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short run")
    args = parser.parse_args()
    seconds = 5.0 if args.quick else 30.0
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        rows = [["segments", "viewers", "processor time of the master", "bytes a second of a viewer"]]
        for segments in (3, 2000):
            with WatchedMaster(segments) as master:
                for viewers in (0, 1, 10):
                    share, received = master.watched(viewers, seconds)
                    told = f"{received:,.0f}" if viewers else "-"
                    rows.append([f"{segments:,}", str(viewers), f"{share:.2%}", told])
    print(machine())
    print(markdown(rows))


if __name__ == "__main__":
    main()
