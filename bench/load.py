#!/usr/bin/env python3
"""A client that puts, gets and looks up on command, and prints how long it took. `testbed.py` starts it.

Commands are lines of JSON on the standard input. Answers are lines on the standard output that begin with RESULT. Runs
in the environment of either package. Values are windows of one block, in which every eight bytes hold their own
position: the bytes of an object identify it.
"""

import argparse
import json
import sys

import peer

KEY = "Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{:067x}"
# Gets and look-ups use another order of keys than puts: steps of this length, a prime.
STRIDE = 7919


class Load:
    def __init__(self, store, buffer_bytes):
        import numpy as np

        self.store = store
        self.source = np.arange(buffer_bytes // 8, dtype=np.uint64).view(np.uint8)
        self.target = np.zeros(buffer_bytes, dtype=np.uint8)
        for array in (self.source, self.target):
            peer.expect(store.register_buffer(array.ctypes.data, array.nbytes), 0)

    def place(self, number, size):
        """The offset of a key's value in the source."""
        room = self.source.nbytes - size
        return number * 8 % room // 8 * 8 if room else 0

    def numbers(self, first, count, span, batch):
        """Batches of `count` key numbers, spread over `span` numbers."""
        spread = [first + at * STRIDE % span for at in range(count)]
        return [spread[at : at + batch] for at in range(0, count, batch)]

    def put(self, first, count, size, batch):
        """Puts `count` objects. The times cover only the calls."""

        def arguments(numbers):
            places = [self.source.ctypes.data + self.place(number, size) for number in numbers]
            return [KEY.format(number) for number in numbers], places, [size] * len(numbers)

        stored = [0] * batch
        groups = [range(first + at, first + min(at + batch, count)) for at in range(0, count, batch)]
        calls = [arguments(group) for group in groups]
        return peer.timed(
            lambda call=call: peer.expect(self.store.batch_put_from(*call), stored[: len(call[0])]) for call in calls
        )

    def get(self, first, count, size, batch, span):
        into = [self.target.ctypes.data + at * size for at in range(batch)]
        seconds, sizes = [], [size] * batch
        for numbers in self.numbers(first, count, span, batch):
            keys, of = [KEY.format(number) for number in numbers], len(numbers)
            self.target[: of * size : size] = 0xFF
            call = [lambda: peer.expect(self.store.batch_get_into(keys, into[:of], sizes[:of]), sizes[:of])]  # noqa: B023
            seconds += peer.timed(call)
            self.check(numbers, size)
        return seconds

    def get_one(self, first, count, size, span):
        into, seconds = self.target.ctypes.data, []
        for (number,) in self.numbers(first, count, span, 1):
            key = KEY.format(number)
            self.target[:size:size] = 0xFF
            seconds += peer.timed([lambda: peer.expect(self.store.get_into(key, into, size), size)])  # noqa: B023
            self.check([number], size)
        return seconds

    def check(self, numbers, size):
        """Compares the first bytes of each object, and all bytes of the last."""
        for at, number in enumerate(numbers):
            place, checked = self.place(number, size), size if at == len(numbers) - 1 else 8
            got = self.target[at * size : at * size + checked]
            if not (got == self.source[place : place + checked]).all():
                sys.exit(f"wrong bytes in object {number}")

    def exist(self, first, count, batch, span):
        groups = [[KEY.format(number) for number in numbers] for numbers in self.numbers(first, count, span, batch)]
        return peer.timed(
            lambda keys=keys: peer.expect(self.store.batch_is_exist(keys), [1] * len(keys)) for keys in groups
        )

    def exist_one(self, first, count, span):
        keys = [KEY.format(number) for (number,) in self.numbers(first, count, span, 1)]
        return peer.timed(lambda key=key: peer.expect(self.store.is_exist(key), 1) for key in keys)

    def health(self, count):
        return peer.timed(self.store.health_check for _ in range(count))

    def remove(self, first, count):
        keys = [KEY.format(first + at) for at in range(count)]
        return peer.timed(lambda key=key: peer.expect(self.store.remove(key, True), 0) for key in keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master-port", type=int, required=True)
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--master-host", default="127.0.0.1")
    parser.add_argument("--buffer-bytes", type=int, default=64 << 20)
    args = parser.parse_args()
    store = peer.connect(args, 0, 64 << 20)
    load = Load(store, args.buffer_bytes)
    print("RESULT ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        seconds = getattr(load, command.pop("do"))(**command)
        p50_us, best_us = (peer.quantile(seconds or [0.0], q) * 1e6 for q in (0.5, 0))
        answer = {"seconds": sum(seconds), "p50_us": p50_us, "best_us": best_us, "calls": len(seconds)}
        print("RESULT " + json.dumps(answer), flush=True)
    store.close()


if __name__ == "__main__":
    main()
