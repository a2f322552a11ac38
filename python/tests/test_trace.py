"""`mooncake trace`, from the KV events of a made-up engine to a trace, and the output of `mooncake sim` for it."""

from __future__ import annotations

import json
import random
import re
import signal
import struct
import time
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
import zmq
from cluster import Process, free_port

BLOCK_TOKENS = 16
START = 1_760_000_000.0


class Engine:
    """An engine that keeps all blocks, and publishes each new one, as vLLM does."""

    def __init__(self, as_numbers: bool) -> None:
        self.as_numbers = as_numbers
        self.known: set[int] = set()

    def name(self, block: int) -> int | bytes:
        return block if self.as_numbers else struct.pack(">Q", block) * 4

    def batch(self, seconds: float, blocks: list[int]) -> bytes | None:
        """The events of a request whose prompt has these blocks, or None if all are known."""
        first = next((at for at, block in enumerate(blocks) if block not in self.known), None)
        if first is None:
            return None
        self.known.update(blocks)
        new = [self.name(block) for block in blocks[first:]]
        parent = self.name(blocks[first - 1]) if first else None
        tokens = list(range(len(new) * BLOCK_TOKENS))
        events: list[Any] = [
            ["BlockStored", new, parent, tokens, BLOCK_TOKENS, None, "GPU", None],
            ["BlockStored", new, parent, tokens, BLOCK_TOKENS, None, "CPU", None],
            ["BlockRemoved", [self.name(1)], "GPU"],
        ]
        batch: bytes = msgpack.packb([START + seconds, events, 0])
        return batch


def conversations() -> list[tuple[float, list[int]]]:
    """Requests of 20 conversations of five turns. Each turn has all blocks of the turn before."""
    chance = random.Random(1)
    requests = []
    for chat in range(20):
        for turn in range(5):
            seconds = 10.0 * turn + chat * 0.1 + chance.random() * 0.05
            requests.append((seconds, [1 + chat * 1000 + block for block in range(4 * (turn + 1))]))
    return sorted(requests)


def run(*arguments: str, code: int = 0) -> str:
    process = Process("mooncake", *arguments)
    assert process.process.wait(60) == code, process.output()
    return process.output()


def rows(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


@pytest.mark.parametrize("as_numbers", [True, False], ids=["numbers", "bytes"])
def test_a_recorded_file_is_converted_and_simulated(tmp_path: Path, as_numbers: bool) -> None:
    engine, requests = Engine(as_numbers), conversations()
    batches = [engine.batch(seconds, blocks) for seconds, blocks in requests]
    events, trace = tmp_path / "events.bin", tmp_path / "trace.jsonl"
    events.write_bytes(b"".join(batch for batch in batches if batch))
    said = run("trace", "--events", str(events), "--output", str(trace))
    assert "100 requests, 400 distinct blocks" in said
    assert "A block has 16 tokens" in said
    found = rows(trace)
    assert [len(row["hash_ids"]) for row in found] == [len(blocks) for _, blocks in requests]
    assert [row["timestamp"] for row in found] == pytest.approx(
        [(seconds - requests[0][0]) * 1000 for seconds, _ in requests], abs=2
    )
    table = run("sim", "--trace", str(trace), "--policy", "lru", "--pool-ratio", "1", "--block-bytes", "64KiB")
    assert "100 requests, 1200 blocks, 400 distinct; a pool that never evicts hits 66.67 %" in table


def test_a_live_publisher_is_recorded_and_converted(tmp_path: Path) -> None:
    port = free_port()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher = context.socket(zmq.XPUB)
    publisher.bind(f"tcp://127.0.0.1:{port}")
    trace, again, record = tmp_path / "trace.jsonl", tmp_path / "again.jsonl", tmp_path / "events.bin"
    arguments = ["--endpoint", f"tcp://127.0.0.1:{port}", "--output", str(trace), "--record", str(record)]
    process = Process("mooncake", "trace", *arguments)
    try:
        assert publisher.poll(20_000), "it subscribes"
        assert publisher.recv() == b"\x01"
        engine = Engine(as_numbers=False)
        for number, (seconds, blocks) in enumerate(conversations()):
            batch = engine.batch(seconds, blocks)
            assert batch is not None
            # One batch is lost on the way.
            publisher.send_multipart([b"kv-events", (number + (number > 50)).to_bytes(8, "big"), batch])
        publisher.send_multipart([b"kv-events", (101).to_bytes(8, "big"), b"\xc1 no events"])
        time.sleep(1)
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(20) == 0, process.output()
    finally:
        process.stop()
        context.destroy(linger=0)
    said = process.output()
    assert "100 requests, 400 distinct blocks" in said
    assert "1 batches were lost on the way" in said
    assert "1 messages were no KV events" in said
    # Reading the record stops at the message that is no batch; all batches before it are read.
    record.write_bytes(record.read_bytes().removesuffix(b"\xc1 no events"))
    run("trace", "--events", str(record), "--output", str(again))
    assert again.read_text() == trace.read_text()


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    port = free_port()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher = context.socket(zmq.XPUB)
    publisher.bind(f"tcp://127.0.0.1:{port}")
    trace = tmp_path / "trace.jsonl"
    trace.write_text("what was there before\n")
    endpoint = ["--endpoint", f"tcp://127.0.0.1:{port}", "--output", str(trace)]
    said = run("trace", *endpoint, "--seconds", "1", code=1)
    assert "0 batches of events stored nothing" in said
    assert trace.read_text() == "what was there before\n"
    context.destroy(linger=0)


def test_what_was_heard_before_the_publisher_went_counts(tmp_path: Path) -> None:
    port = free_port()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher = context.socket(zmq.XPUB)
    publisher.bind(f"tcp://127.0.0.1:{port}")
    trace = tmp_path / "trace.jsonl"
    process = Process("mooncake", "trace", "--endpoint", f"tcp://127.0.0.1:{port}", "--output", str(trace))
    assert publisher.poll(20_000)
    batch = Engine(as_numbers=True).batch(0, [1, 2, 3])
    assert batch is not None
    publisher.send_multipart([b"", (1).to_bytes(8, "big"), batch])
    time.sleep(1)
    context.destroy(linger=1000)
    assert process.process.wait(20) == 0, process.output()
    assert "what came before counts" in process.output()
    assert [row["hash_ids"] for row in rows(trace)] == [[0, 1, 2]]


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    events, trace = tmp_path / "events.bin", tmp_path / "trace.jsonl"
    batch = Engine(as_numbers=True).batch(0, [1, 2, 3])
    assert batch is not None
    for content, expected in [
        (b"", "stored nothing"),
        (b"\x00", "a batch is a list"),
        (b"{}", "a batch is a list"),
        (batch[:-5], "cut off"),
        (batch + b"\xc1", f"at byte {len(batch)}"),
        (msgpack.packb([1.0, [["BlockStored", ["text"], None]]]), "neither a number nor bytes"),
        (msgpack.packb([1.0, [[]]]), "says no type"),
        (msgpack.packb([1.0, [["AllBlocksCleared"]]]), "stored nothing"),
    ]:
        events.write_bytes(content)
        assert expected in run("trace", "--events", str(events), "--output", str(trace), code=1), content
    events.write_bytes(batch + batch[:-5])
    assert "ends within a batch" in run("trace", "--events", str(events), "--output", str(trace))
    said = run("trace", "--events", str(tmp_path / "none"), "--output", str(trace), code=1)
    assert re.search("cannot read .*none", said)
    said = run("trace", "--events", str(events), "--output", str(events), code=1)
    assert "--events and --output name the same file" in said
    assert events.read_bytes() == batch + batch[:-5], "what was recorded is kept"
    said = run("trace", "--endpoint", "127.0.0.1:9", "--output", str(trace), code=1)
    assert "the publisher at 127.0.0.1:9: Connection refused" in said


def test_random_bytes_end_it_with_a_reason(tmp_path: Path) -> None:
    chance, events = random.Random(7), tmp_path / "events.bin"
    batch = Engine(as_numbers=False).batch(0, list(range(1, 40)))
    assert batch is not None
    for _ in range(30):
        damaged = bytearray(batch * 3)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        events.write_bytes(damaged)
        process = Process("mooncake", "trace", "--events", str(events), "--output", str(tmp_path / "trace.jsonl"))
        assert process.process.wait(60) in (0, 1), process.output()
        assert "panicked" not in process.output()
