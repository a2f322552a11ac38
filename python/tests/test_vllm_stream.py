"""A GPU stream that waits for the layers of a step, with a double of the driver."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cluster import Cluster, content, wait_until
from gpu import DeviceMemory, Stream, driver, needs_double, reset
from mooncake._native import _StreamCounter
from mooncake.store import MooncakeDistributedStore
from mooncake.vllm.plan import Load, StepPlan
from mooncake.vllm.stream import Gate, gate_on
from test_vllm_worker import LAYERED, LAYERS, NAMES, SECONDS, WHOLE, Instance, load, save


@pytest.fixture
def model() -> str:
    """A model of which the pool holds no block."""
    return f"m-{uuid.uuid4().hex[:8]}"


class Attention:
    """A reader on a GPU. While layers load, its stream reads each of them, as attention does."""

    def __init__(self, cluster: Cluster, model: str, stream: Stream, limit_ms: int = 60_000) -> None:
        counter = _StreamCounter.of_device(0, limit_ms)
        assert counter is not None
        self.stream = stream
        self.is_capturing = False
        gate = Gate(counter, lambda: None if self.is_capturing else stream.handle)
        self.instance = Instance(cluster, LAYERED, model, kind=DeviceMemory, gate=gate)
        self.held, self.calls = threading.Event(), 0
        self.instance.calls.broken["batch_get_into_multi_buffer_ranges"] = self.get

    def get(self, *arguments: Any) -> Any:
        """Loads the first layer at once, and the others after the test has released them."""
        self.calls += 1
        if self.calls > 1:
            assert self.held.wait(SECONDS)
        return self.instance.calls.store.batch_get_into_multi_buffer_ranges(*arguments)

    def launch(self, loads: dict[str, Load]) -> list[Any]:
        """Launches the reads on the device, as the engine's thread does, without waiting for the loads."""
        worker = self.instance.worker
        worker.begin(StepPlan(loads=loads))
        worker.load()
        seen = []
        for name in NAMES:
            worker.wait_for_layer(name)
            block_ids = [block_id for load in loads.values() for block_id in load.block_ids]
            parts = [part for block_id in block_ids for part in self.parts(name, block_id)]
            seen.append([self.stream.read(address, length) for address, length in parts])
        return seen

    def parts(self, name: str, block_id: int) -> list[tuple[int, int]]:
        layout = self.instance.layout
        addresses, lengths, _ = layout.layer_buffers(layout.index[name], block_id)
        return list(zip(addresses, lengths, strict=True))

    def end(self) -> set[int]:
        self.instance.worker.save()
        self.stream.finish()
        return self.instance.worker.take_failed_blocks()

    def close(self) -> None:
        self.held.set()
        self.instance.worker.close()
        assert self.instance.calls.store.unregister_buffer(self.instance.memory.address) == 0


@pytest.fixture
def stream(store: MooncakeDistributedStore) -> Iterator[Stream]:
    with Stream() as stream:
        yield stream
    reset()


def bytes_of(seen: list[Any]) -> bytes:
    """The bytes that the stream read, in the order of an object's layers."""
    return b"".join(read() for layer in seen for read in layer)


def stored(cluster: Cluster, model: str, *names: str) -> dict[str, bytes]:
    """Blocks that another instance has put, by name."""
    writer = Instance(cluster, WHOLE, model, kind=DeviceMemory)
    computed = dict(enumerate(names))
    writer.step(StepPlan(saves={"w": save(0, tuple(computed), *names)}), computed)
    writer.finish("w")
    writer.worker.close()
    assert writer.calls.store.unregister_buffer(writer.memory.address) == 0
    # Freed here: if it were collected later, a real driver would make that thread wait for all streams.
    assert isinstance(writer.memory, DeviceMemory)
    writer.memory.free()
    return {name: content(name, writer.layout.block_bytes) for name in names}


def test_the_device_waits_for_its_layers_and_the_engine_does_not(cluster: Cluster, model: str, stream: Stream) -> None:
    values = stored(cluster, model, "a", "b", "c")
    attention = Attention(cluster, model, stream)
    part = len(values["a"]) // LAYERS
    expected = [b"".join(values[name][place * part : (place + 1) * part] for name in "abac") for place in range(LAYERS)]
    for step in range(3):
        attention.calls = 0
        attention.held.clear()
        # Two requests of one step share a block.
        seen = attention.launch({"r": load(LAYERED, (4, 6), "a", "b"), "s": load(LAYERED, (1, 7), "a", "c")})
        wait_until(lambda: attention.calls == 2, SECONDS, "the second layer is being loaded")
        wait_until(lambda seen=seen: bytes_of(seen[:1]) == expected[0], SECONDS, "the first is read")  # type: ignore[misc]
        assert set(bytes_of(seen[1:])) == {0}, "the others are not"
        attention.held.set()
        assert attention.end() == set()
        assert [bytes_of([layer]) for layer in seen] == expected
        for block_id in (4, 6, 1, 7):
            attention.instance.write(block_id, f"of step {step}")
    attention.close()


def test_a_load_that_fails_lets_the_device_go_on(cluster: Cluster, model: str, stream: Stream) -> None:
    stored(cluster, model, "a")
    attention = Attention(cluster, model, stream)
    plan = {"r": load(LAYERED, (1, 2), "a", "gone")}
    attention.held.set()
    attention.launch(plan)
    assert attention.end() == {2}

    def fail(*_: object) -> list[int]:
        raise RuntimeError("of a test")

    attention.instance.calls.broken["batch_get_into_multi_buffer_ranges"] = fail
    attention.launch(plan)
    assert attention.end() == {1, 2}
    # The loading thread has ended, for any reason.
    attention.instance.worker.layer_receiver.thread.close(SECONDS)  # type: ignore[union-attr]
    attention.launch(plan)
    assert attention.end() == {1, 2}
    attention.close()


@pytest.mark.parametrize("why", ["slow", pytest.param("queue", marks=needs_double)])
def test_a_load_that_does_not_end_in_time_counts_as_failed(
    cluster: Cluster, model: str, stream: Stream, why: str
) -> None:
    values = stored(cluster, model, "a")
    attention = Attention(cluster, model, stream, limit_ms=200)
    plan = {"r": load(LAYERED, (1,), "a")}
    if why == "queue":
        # The loads stand in the queue behind the stream that waits for them.
        driver().double_one_queue(True)
        attention.held.set()
    attention.launch(plan)
    stream.finish()
    attention.held.set()
    assert attention.end() == {1}
    # From now on the processor waits, and loads succeed.
    seen = attention.launch(plan)
    assert attention.end() == set()
    assert bytes_of(seen) == values["a"]
    attention.close()


@needs_double
def test_the_processor_waits_where_the_stream_cannot(cluster: Cluster, model: str, stream: Stream) -> None:
    values = stored(cluster, model, "a")
    attention = Attention(cluster, model, stream)
    attention.held.set()
    plan = {"r": load(LAYERED, (1,), "a")}
    for why in ("captured", "driver"):
        attention.is_capturing = why == "captured"
        driver().double_wait_value(why != "driver")
        calls = driver().double_calls(b"cuStreamWaitValue32")
        attention.instance.write(1, why)
        seen = attention.launch(plan)
        assert attention.end() == set()
        assert bytes_of(seen) == values["a"]
        assert driver().double_calls(b"cuStreamWaitValue32") <= calls + (why == "driver")
    attention.close()


@needs_double
def test_a_gate_is_that_of_the_stream_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gate_on(SimpleNamespace(type="cpu", index=None), 100) is None
    driver()
    capturing = False
    cuda = SimpleNamespace(
        current_device=lambda: 1,
        current_stream=lambda device: SimpleNamespace(cuda_stream=5 if device.type == "cuda" else None),
        is_current_stream_capturing=lambda: capturing,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    gate = gate_on(SimpleNamespace(type="cuda", index=None), 100)
    assert gate is not None
    assert gate.open(3)
    assert (gate.stream(), gate.wait(3)) == (5, True)
    capturing = True
    assert (gate.stream(), gate.wait(3)) == (None, False)
    assert gate_on(SimpleNamespace(type="cuda", index=7), 100) is None, "there is no such GPU"
    assert gate_on(SimpleNamespace(type="cuda", index=1), 0) is None, "it is turned off"
