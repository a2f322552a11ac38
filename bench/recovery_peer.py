#!/usr/bin/env python3
"""A process of `recovery.py`: a node, or a client that puts or gets without end and records each call and its result.

Runs in the environment of any package that has `mooncake.store.MooncakeDistributedStore`.
"""

import argparse
import hashlib
import json
import signal
import sys
import time

# The pause between two calls of a client.
PAUSE_S = 0.001
# The number of bytes per call, if many objects are written, and the most keys.
BATCH_BYTES = 1 << 20
BATCH = 1000


def value(key, size):
    """Bytes that identify their key."""
    seed = hashlib.sha256(key.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def connect(args, segment_bytes):
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    code = store.setup(args.host, "P2PHANDSHAKE", segment_bytes, 64 << 20, "tcp", "", args.master)
    if code != 0:
        sys.exit(f"setup failed: {code}")
    return store


def configuration(replicas):
    from mooncake.store import ReplicateConfig

    config = ReplicateConfig()
    config.replica_num = replicas
    return config


def key(number):
    return f"object-{number}"


def node(args, _):
    store = connect(args, args.segment)
    print("ready", flush=True)
    signal.pause()
    store.close()


def fill(args, store):
    """Puts all objects once."""
    config, batch = configuration(args.replicas), max(1, min(BATCH, BATCH_BYTES // args.size))
    for first in range(0, args.count, batch):
        keys = [key(number) for number in range(first, min(first + batch, args.count))]
        code = store.put_batch(keys, [value(name, args.size) for name in keys], config)
        if code != 0:
            sys.exit(f"put_batch: {code}")
    print("ready", flush=True)


def put(args, store):
    """Puts new objects until the process is ended. Prints {"t0", "t1", "ok", "code"} per call."""
    config, number = configuration(args.replicas), 0
    print("ready", flush=True)
    while True:
        name = f"new-{number}"
        number += 1
        begin = time.monotonic()
        code = store.put(name, value(name, args.size), config)
        print(json.dumps({"t0": begin, "t1": time.monotonic(), "ok": code == 0, "code": code}), flush=True)
        time.sleep(PAUSE_S)


def get(args, store):
    """Gets all objects in turn. Prints {"t0", "t1", "ok", "key"} per call. Ends the process at wrong bytes."""
    print("ready", flush=True)
    number = 0
    while True:
        name = key(number % args.count)
        number += 1
        begin = time.monotonic()
        found = store.get(name)
        end = time.monotonic()
        if found and found != value(name, args.size):
            sys.exit(f"wrong bytes of {name}")
        print(json.dumps({"t0": begin, "t1": end, "ok": bool(found), "key": name}), flush=True)
        time.sleep(PAUSE_S)


def find(args, store):
    """Looks up all objects until all exist, for at most `patience` seconds. Then reads some of them."""
    print("ready", flush=True)
    sys.stdin.readline()
    deadline = time.monotonic() + args.patience
    left = [key(number) for number in range(args.count)]
    is_first = True
    while left and (is_first or time.monotonic() < deadline):
        is_first, missing = False, []
        for first in range(0, len(left), 1024):
            names = left[first : first + 1024]
            found = store.batch_is_exist(names)
            missing += [name for name, there in zip(names, found, strict=True) if there != 1]
        left = missing
    found_at = time.monotonic()
    read = [key(number) for number in range(0, args.count, max(1, args.count // 100))]
    right = sum(store.get(name) == value(name, args.size) for name in read)
    print(json.dumps({"found_at": found_at, "missing": len(left), "right": right, "read": len(read)}), flush=True)


ROLES = {"node": node, "fill": fill, "put": put, "get": get, "find": find}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=sorted(ROLES))
    parser.add_argument("--master", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--segment", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--patience", type=float, default=60)
    args = parser.parse_args()
    ROLES[args.role](args, None if args.role == "node" else connect(args, 0))


if __name__ == "__main__":
    main()
