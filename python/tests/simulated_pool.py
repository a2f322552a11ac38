"""Serves the master's page with the events of a pool that does not exist, of as many segments as wanted.

`python python/tests/simulated_pool.py PORT SEGMENTS` serves it to a browser. With `--pictures FOLDER` it draws the
pictures of `docs/images` instead.
"""

from __future__ import annotations

import argparse
import http.server
import json
import math
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "crates" / "master" / "src" / "admin" / "page" / "page.html"
MIB, GIB = 1 << 20, 1 << 30
FIELDS = [
    *("at_ms", "epoch", "keys", "memory_used", "memory_bytes", "disk_used", "disk_bytes", "hits", "misses"),
    *("own_bytes", "host_bytes", "fabric_bytes", "tcp_bytes", "memory_read", "disk_read", "shared_disk_read"),
    *("object_store_read", "puts", "put_bytes", "refused", "evicted_keys", "evicted_bytes", "requests", "slow"),
]
# A fixed time, so that pictures do not differ in their clocks.
NOW_MS = 1_790_000_000_000
TASKS = [
    *("all copies and moves", "repairs", "copies to disks", "copies to memory", "extra replicas", "moves of drains"),
]

MASTER = {
    "cluster": "mooncake_cluster",
    "leader": "10.0.0.1:50051",
    "epoch": 7,
    "version": "0.1.0",
    "protocol": 3,
    "reason": None,
}


class SimulatedPool:
    """A pool of `count` segments: a fifth are disks, if there are more than three."""

    def __init__(self, count: int, seed: int = 1, *, hostile: bool = False) -> None:
        self.random = random.Random(seed)
        self.hostile = hostile
        disks = count // 5 if count > 3 else 0
        self.segments = [self.segment(number, count - disks, "memory") for number in range(count - disks)]
        self.segments += [self.segment(number, disks, "disk") for number in range(disks)]
        self.fills = [min(0.97, max(0.03, self.random.gauss(0.66, 0.17))) for _ in self.segments]
        self.hour = [self.sample(step) for step in range(-360, 1)]

    def segment(self, number: int, count: int, medium: str) -> dict[str, Any]:
        racks = max(2, count // 40)
        rack = number * racks // count
        state = "OK"
        if count > 100 and number % 371 == 17:
            state = "DRAINING"
        if count > 100 and 700 <= number < 703:
            state = "RECOVERING"
        name = f"10.{rack // 8}.{rack % 8}.{number % 200 + 7}:50052"
        if self.hostile:
            name = f"<img src=x onerror='window.hacked={number}'>&amp;\"{number}"
        return {
            "id": f"{number + 1:032x}",
            "name": name,
            "endpoint": name.replace("50052", "15000"),
            "medium": medium,
            "domains": [f"rack=r{rack + 1}", f"zone={'east' if rack < racks / 2 else 'west'}"],
            "state": state,
            "in_sight": not (count > 100 and number % 613 == 100),
            "reachable": not (count > 100 and number == 222),
            "behind": False,
            "bytes": (64 if medium == "memory" else 480) * GIB,
        }

    def total(self, field: str, medium: str) -> int:
        of = [
            (segment["bytes"], fill)
            for segment, fill in zip(self.segments, self.fills, strict=True)
            if segment["medium"] == medium
        ]
        return int(sum(length * (fill if field == "used" else 1) for length, fill in of))

    def grown(self, step: int, speed: float, period: int, phase: int = 0) -> int:
        """A counter that grows by about `speed` a second and segment, in waves of some steps."""
        wave = 0.4 * period * math.cos((step + phase) / period)
        return int(len(self.segments) * speed * 10 * (step + 400 - wave))

    def sample(self, step: int) -> list[int]:
        """The counters at a step of 10 s; step 0 is now."""
        growth = min(1.0, 0.75 + (step + 360) / 1200)
        values: dict[str, int] = {
            "at_ms": NOW_MS + step * 10_000,
            "epoch": 7,
            "keys": int(len(self.segments) * 16_000 * growth),
            "memory_used": int(self.total("used", "memory") * growth * (1 + 0.01 * math.sin(step / 3))),
            "memory_bytes": self.total("bytes", "memory"),
            "disk_used": self.total("used", "disk"),
            "disk_bytes": self.total("bytes", "disk"),
            "hits": self.grown(step, 9, 40) + self.grown(step, 1, 9),
            "misses": self.grown(step, 4, 70, 100),
            "own_bytes": self.grown(step, 6 * MIB, 40),
            "host_bytes": self.grown(step, 14 * MIB, 30),
            "fabric_bytes": self.grown(step, 70 * MIB, 40),
            "tcp_bytes": self.grown(step, 11 * MIB, 11),
            "memory_read": self.grown(step, 81 * MIB, 40),
            "disk_read": self.grown(step, 20 * MIB, 40),
            "requests": self.grown(step, 40, 30),
            "puts": self.grown(step, 4, 70, 100),
            "put_bytes": self.grown(step, 16 * MIB, 70, 100),
            "evicted_keys": self.grown(step, 3, 50),
            "evicted_bytes": self.grown(step, 12 * MIB, 50),
        }
        return [values.get(field, 0) for field in FIELDS]

    def events(self) -> list[tuple[str, Any]]:
        """All that a viewer hears first."""
        hot = [f"model-7b/layer-{layer}/block-{self.random.getrandbits(64):016x}" for layer in (0, 3, 11, 12, 31)]
        if self.hostile:
            hot = ["</script><script>window.hacked=1</script>", "<b>bold</b>"]
        keys = [
            {"key": key, "replicas": 1 + number % 2, "ago_ms": 9_000 + number * 177_000}
            for number, key in enumerate(hot)
        ]
        return [
            ("samples", {"fields": FIELDS, "samples": self.hour, "restart": True}),
            ("segments", {"high_watermark": 0.95, "segments": self.segments}),
            ("hot", {"counts_reads": True, "keys": keys}),
            ("now", self.now(0)),
        ]

    def now(self, step: float) -> dict[str, Any]:
        """What comes every two seconds."""
        lost = [segment["name"] for segment in self.segments if not segment["in_sight"]]
        problems = [
            {
                "text": f"memory of {name}: its node does not ping; what lies there cannot be read",
                "remedy": "start the node again; its log says why it stopped",
            }
            for name in lost
        ]
        if self.hostile:
            problems = [{"text": "<script>window.hacked=1</script>", "remedy": "<i>nothing</i>"}]
        drain = {
            "segments": [segment["name"] for segment in self.segments if segment["state"] == "DRAINING"][:2],
            "status_name": "RUNNING",
            "succeeded_units": 8_121,
            "remaining_units": 4_310,
            "active_units": 4,
            "failed_units": 0,
            "migrated_bytes": 31 * GIB,
            "remaining_bytes": 17 * GIB,
            "message": "Drain job running",
        }
        sample = self.sample(0)
        sample[0] = NOW_MS + int(step * 1000)
        return {
            **MASTER,
            "role": "leader",
            "state": "serving",
            "leads_ms": 11_532_000 + int(step * 1000),
            "following": None,
            "clients": len(self.segments) * 3,
            "clients_away": len(lost),
            "sample": sample,
            "used": [int(segment["bytes"] * fill) for segment, fill in zip(self.segments, self.fills, strict=True)],
            "problems": problems,
            "drains": [drain] if drain["segments"] else [],
            "tasks": [
                {"name": name, "under_way": number % 4 * 3, "done": 1_200 * number, "failed": number % 3}
                for number, name in enumerate(TASKS)
            ],
        }


STANDBY: dict[str, Any] = {
    **MASTER,
    "role": "standby",
    "state": "standby",
    "following": {"is_warm": True, "segments": 12, "known_segments": 11, "entries": 90_001},
}


def sse(events: list[tuple[str, Any]]) -> bytes:
    """These events as a stream has them."""
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events).encode()


class Server(http.server.ThreadingHTTPServer):
    """Serves the page, and these events to whoever looks."""

    daemon_threads = True

    def __init__(self, events: list[tuple[str, Any]], again: Any = None, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.first, self.again = events, again
        self.address = f"http://127.0.0.1:{self.server_port}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        page = self.path == "/"
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8" if page else "text/event-stream")
        self.end_headers()
        if page:
            self.wfile.write(PAGE.read_bytes())
            return
        try:
            self.wfile.write(sse(self.server.first))
            self.wfile.flush()
            if "turns=1" in self.path:
                return
            begun = time.monotonic()
            while True:
                time.sleep(2)
                if self.server.again is not None:
                    self.wfile.write(sse([("now", self.server.again(time.monotonic() - begun))]))
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


def draw(folder: Path) -> None:
    """Draws the page at several sizes."""
    from browser import Browser

    with Browser() as browser:
        for name, count, width, scheme in [
            ("page-3-light", 3, 1320, "light"),
            ("page-2000-light", 2000, 1320, "light"),
            ("page-2000-dark", 2000, 1320, "dark"),
            ("page-40-dark", 40, 1320, "dark"),
            ("page-2000-phone", 2000, 390, "light"),
            ("page-3-phone", 3, 390, "dark"),
        ]:
            with Server(SimulatedPool(count).events()) as server:
                browser.open(server.address, width=width, scheme=scheme)
                browser.wait(
                    "document.querySelector('.cell[data-index]') && document.querySelector('.chart path')", name
                )
                browser.picture(folder / f"{name}.png")
        assert browser.complaints == [], browser.complaints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", nargs="?", type=int, default=8000)
    parser.add_argument("segments", nargs="?", type=int, default=2000)
    parser.add_argument("--pictures", type=Path)
    args = parser.parse_args()
    if args.pictures:
        draw(args.pictures)
        return
    pool = SimulatedPool(args.segments)
    with Server(pool.events(), pool.now, args.port) as server:
        print(server.address, file=sys.stderr)
        threading.Event().wait()


if __name__ == "__main__":
    main()
