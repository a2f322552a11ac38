#!/usr/bin/env python3
"""A client that repeats one kind of work, and prints when each call began and ended. `breakdown.py` starts it.

After a warm-up it prints RESULT ready and waits for a line. Then it works again, and prints RESULT and the times of
its calls, in seconds of the monotonic clock.
"""

import argparse
import json
import sys
import time

import peer

BUFFER_BYTES = 256 << 20
# Calls before the measurement, until all memory was touched and all connections exist.
WARM_UP_SECONDS = 1.5
CALL_SECONDS = 2.0
MOST_SECONDS = 25.0
KEY = "Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{:067x}"


class Worker:
    """Does the work in rounds, and records when each call began and ended."""

    def __init__(self, store, verb, size, batch, objects):
        import numpy as np

        self.store, self.size, self.batch = store, size, batch
        self.block = np.arange(BUFFER_BYTES // 8, dtype=np.uint64).view(np.uint8)
        peer.expect(store.register_buffer(self.block.ctypes.data, self.block.nbytes), 0)
        self.keys = [KEY.format(number) for number in range(objects)]
        self.calls = []
        self.put(timed=False)
        self.round = {"put": self.put, "get": self.get, "again": self.again, "exist": self.exist}[verb]

    def place(self, number):
        """The address of an object's bytes, for puts and gets."""
        return self.block.ctypes.data + number % (BUFFER_BYTES // self.size) * self.size

    def call(self, do, expected, timed=True):
        begin = time.monotonic()
        peer.expect(do(), expected)
        if timed:
            self.calls.append((begin, time.monotonic()))

    def batches(self):
        for first in range(0, len(self.keys), self.batch):
            keys = self.keys[first : first + self.batch]
            yield keys, [self.place(first + at) for at in range(len(keys))], [self.size] * len(keys)

    def put(self, timed=True):
        peer.expect(self.store.remove_all(True) >= 0, True)
        for keys, places, sizes in self.batches():
            if self.batch == 1:
                self.call(lambda: self.store.put_from(keys[0], places[0], sizes[0]), 0, timed)  # noqa: B023
            else:
                self.call(lambda: self.store.batch_put_from(keys, places, sizes), [0] * len(keys), timed)  # noqa: B023

    def get(self):
        """Gets each object once. Puts all of them again before, so that no route to them is known."""
        self.put(timed=False)
        for keys, places, sizes in self.batches():
            if self.batch == 1:
                self.call(lambda: self.store.get_into(keys[0], places[0], sizes[0]), sizes[0])  # noqa: B023
            else:
                self.call(lambda: self.store.batch_get_into(keys, places, sizes), sizes)  # noqa: B023

    def again(self):
        for at in range(len(self.keys)):
            key = self.keys[at % 16]
            self.call(lambda: self.store.get_into(key, self.place(0), self.size), self.size)  # noqa: B023

    def exist(self):
        for keys, _, _ in self.batches():
            self.call(lambda: self.store.batch_is_exist(keys), [1] * len(keys))  # noqa: B023

    def run(self, call_seconds):
        self.calls.clear()
        last = time.monotonic() + MOST_SECONDS
        while sum(end - begin for begin, end in self.calls) < call_seconds and time.monotonic() < last:
            self.round()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verb", choices=("put", "get", "again", "exist"), required=True)
    for option in ("--size", "--batch", "--objects", "--master-port", "--http-port"):
        parser.add_argument(option, type=int, required=True)
    for option in ("--host", "--master-host"):
        parser.add_argument(option, default="127.0.0.1")
    args = parser.parse_args()
    store = peer.connect(args, 0, BUFFER_BYTES)
    worker = Worker(store, args.verb, args.size, args.batch, args.objects)
    worker.run(WARM_UP_SECONDS)
    print("RESULT ready", flush=True)
    sys.stdin.readline()
    worker.run(CALL_SECONDS)
    print("RESULT " + json.dumps(worker.calls), flush=True)
    sys.stdin.readline()
    store.close()


if __name__ == "__main__":
    main()
