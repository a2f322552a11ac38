"""The worker of the connector for vLLM, without vLLM: it moves blocks between memory and a real pool."""

from __future__ import annotations

import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cluster import MIB, Cluster, Memory, content, wait_until
from device_stream import DeviceStream
from gpu import DeviceMemory
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from mooncake.vllm.config import Options
from mooncake.vllm.key import Topology
from mooncake.vllm.layout import BlockLayout, Layer
from mooncake.vllm.lookup import (
    FRAME,
    LOOKUP,
    MAX_HASHES,
    MAX_PAYLOAD_BYTES,
    LookupClient,
    LookupServer,
    decode_hashes,
    encode_hashes,
    socket_name,
)
from mooncake.vllm.pending import PendingSaves
from mooncake.vllm.plan import Load, Save, StepPlan
from mooncake.vllm.pool import Pool
from mooncake.vllm.stage import Stage
from mooncake.vllm.stream import Gate, at_once, marks_on, no_marks
from mooncake.vllm.worker import Place, Worker

SECONDS = 10.0
BLOCKS, LAYERS, PIECE_BYTES = 16, 3, 4096
# A layer's part of a block lies in two pieces, keys and values, half a layer apart.
LAYER_BYTES = 2 * BLOCKS * PIECE_BYTES
NAMES = [f"model.layers.{number}.attn" for number in range(LAYERS)]
WHOLE = Options()
WITHIN = Options(load_async=False)
LAYERED = Options(use_layerwise=True)
STRAIGHT = Options(save_buffer_mb=0)
LAYERED_STRAIGHT = Options(use_layerwise=True, save_buffer_mb=0)


class Calls:
    """A store that records the names of calls, and in which a test can break a call."""

    def __init__(self, store: MooncakeDistributedStore) -> None:
        self.store = store
        self.names: list[str] = []
        self.broken: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if not name.startswith("_"):
                self.names.append(name)
            if name in self.broken:
                return self.broken[name](*arguments)
            return getattr(self.store, name)(*arguments)

        return call


class Instance:
    """A worker with its own KV cache, in which each block holds bytes generated from its name, and steps to run."""

    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        model: str,
        can_put: bool = True,
        stream: DeviceStream | None = None,
        kind: type[Memory | DeviceMemory] = Memory,
        gate: Gate | None = None,
    ) -> None:
        self.memory: Memory | DeviceMemory = kind(LAYERS * LAYER_BYTES)
        store = cluster.store()
        assert store.register_buffer(self.memory.address, self.memory.size) == 0
        self.calls = Calls(store)
        layers = {}
        for number, name in enumerate(NAMES):
            address = self.memory.address + number * LAYER_BYTES
            layers[name] = Layer.of(address, [2, BLOCKS, PIECE_BYTES], [LAYER_BYTES // 2, PIECE_BYTES, 1], 1, BLOCKS)
        self.layout = BlockLayout(layers)
        place = Place(model, 0, Topology())
        pool = Pool(self.calls, ReplicateConfig())
        mark = no_marks if stream is None else stream.mark
        self.worker = Worker(pool, self.layout, place, options, can_put, mark, gate)

    def write(self, block_id: int, name: str) -> None:
        """Writes a block as the model would compute it."""
        value = content(name, self.layout.block_bytes)
        for address, length, offset in self._pieces(block_id):
            self.memory.write(address - self.memory.address, value[offset : offset + length])

    def read(self, block_id: int) -> bytes:
        return b"".join(
            self.memory.read(address - self.memory.address, length) for address, length, _ in self._pieces(block_id)
        )

    def _pieces(self, block_id: int) -> list[tuple[int, int, int]]:
        addresses, lengths = self.layout.buffers(block_id)
        return [
            (address, length, number * PIECE_BYTES)
            for number, (address, length) in enumerate(zip(addresses, lengths, strict=True))
        ]

    def step(self, plan: StepPlan, computed: dict[int, str] | None = None) -> set[int]:
        """Runs a step in vLLM's order, computing blocks layer by layer. Returns the blocks that failed to load."""
        worker = self.worker
        worker.begin(plan)
        worker.load()
        for name in NAMES:
            worker.wait_for_layer(name)
            for block_id, value in (computed or {}).items() if name == NAMES[0] else ():
                self.write(block_id, value)
            worker.save_layer(name)
        worker.save()
        wanted = {request_id for request_id, load in plan.loads.items() if load.between_steps}
        loaded: set[str] = set()

        def all_loaded() -> bool:
            loaded.update(worker.take_finished()[1])
            return loaded >= wanted

        wait_until(all_loaded, SECONDS, "the loads are over")
        return worker.take_failed_blocks()

    def finish(self, request_id: str) -> None:
        """Waits until the saves of the request have ended."""
        self.worker.begin(StepPlan(held={request_id}))
        wait_until(lambda: request_id in self.worker.take_finished()[0], SECONDS, "the saves are over")


@pytest.fixture
def model(store: MooncakeDistributedStore) -> str:
    """A model of which the empty pool holds no block."""
    return f"m-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=[Memory, DeviceMemory], ids=["host", "gpu"])
def make(cluster: Cluster, model: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Instance] = []

    def instance(options: Options, can_put: bool = True, stream: DeviceStream | None = None) -> Instance:
        made.append(Instance(cluster, options, model, can_put, stream, request.param))
        return made[-1]

    yield instance
    for one in made:
        one.worker.close()
        assert one.calls.store.unregister_buffer(one.memory.address) == 0


def hashes(*names: str) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in names)


def save(first: int, block_ids: tuple[int, ...], *names: str, computed_from: int | None = None) -> Save:
    return Save(first, block_ids, hashes(*names), first if computed_from is None else computed_from)


def load(options: Options, block_ids: tuple[int, ...], *names: str) -> Load:
    return Load(block_ids, hashes(*names), options.loads_between_steps)


@pytest.mark.parametrize("target", [WHOLE, WITHIN, LAYERED], ids=["between", "within", "layers"])
@pytest.mark.parametrize("source", [WHOLE, LAYERED], ids=["whole", "layers"])
def test_what_one_instance_stored_another_one_loads_in_any_mode(make: Any, source: Options, target: Options) -> None:
    writer, reader = make(source), make(target)
    assert writer.step(StepPlan(saves={"w": save(0, (5, 2, 9), "a", "b", "c")}), {5: "a", 2: "b", 9: "c"}) == set()
    writer.finish("w")
    # Two requests share a prefix, and each has another block after it.
    loads = {"r": load(target, (1, 4, 3), "a", "b", "c"), "s": load(target, (0, 7), "a", "b")}
    assert reader.step(StepPlan(loads=loads)) == set()
    wanted = {1: "a", 4: "b", 3: "c", 0: "a", 7: "b"}
    found = {block_id: reader.read(block_id) for block_id in wanted}
    assert found == {block_id: content(name, reader.layout.block_bytes) for block_id, name in wanted.items()}
    assert set(reader.read(8)) == {0}


@pytest.mark.parametrize("options", [WHOLE, LAYERED], ids=["whole", "layers"])
def test_what_a_device_computes_late_is_stored_once_it_is_there(make: Any, options: Options) -> None:
    with DeviceStream() as device:
        writer, reader = make(options, stream=device), make(WITHIN)
        worker = writer.worker
        worker.begin(StepPlan(saves={"w": save(0, (1, 2), "a", "b")}))
        worker.load()
        for name in NAMES:
            worker.wait_for_layer(name)
            if name == NAMES[0]:
                device.launch(lambda: [writer.write(block_id, value) for block_id, value in ((1, "a"), (2, "b"))])
            worker.save_layer(name)
        worker.save()
        worker.begin(StepPlan(held={"w"}))
        time.sleep(0.2)
        assert worker.take_finished()[0] == set()
        device.is_free.set()
        writer.finish("w")
    assert reader.step(StepPlan(loads={"r": load(WITHIN, (3, 4), "a", "b")})) == set()
    assert [reader.read(i) for i in (3, 4)] == [content(name, reader.layout.block_bytes) for name in "ab"]


@pytest.mark.parametrize("options", [WHOLE, WITHIN, LAYERED], ids=["between", "within", "layers"])
def test_a_load_waits_for_the_steps_that_use_its_blocks_yet(make: Any, options: Options) -> None:
    writer = make(WHOLE)
    writer.step(StepPlan(saves={"w": save(0, (1,), "a")}), {1: "a"})
    writer.finish("w")
    with DeviceStream() as device:
        reader = make(options, stream=device)
        # The last step of the block's earlier request has not run yet.
        device.launch(lambda: reader.write(5, "late"))
        threading.Timer(0.2, device.is_free.set).start()
        assert reader.step(StepPlan(loads={"r": load(options, (5,), "a")})) == set()
        assert reader.read(5) == content("a", reader.layout.block_bytes)


def test_a_mark_is_an_event_in_the_stream_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert marks_on(SimpleNamespace(type="cpu")) is no_marks
    done: list[tuple[str, object]] = []

    class Event:
        def __init__(self, blocking: bool) -> None:
            assert blocking

        def record(self, stream: object) -> None:
            done.append(("recorded", stream))

        def synchronize(self) -> None:
            done.append(("waited", None))

    capturing = False
    cuda = SimpleNamespace(
        Event=Event,
        current_stream=lambda device: f"the stream of {device.type}",
        is_current_stream_capturing=lambda: capturing,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    mark = marks_on(SimpleNamespace(type="cuda"))
    reached = mark()
    assert done == [("recorded", "the stream of cuda")]
    reached()
    assert done[1:] == [("waited", None)]
    capturing = True
    assert mark() is at_once
    assert len(done) == 2


@pytest.mark.parametrize("options", [WHOLE, LAYERED], ids=["whole", "layers"])
def test_what_the_pool_holds_is_not_stored_again(make: Any, options: Options) -> None:
    first, second = make(options), make(options)
    first.step(StepPlan(saves={"r": save(0, (1, 2), "a", "b")}), {1: "a", 2: "b"})
    first.finish("r")
    second.step(StepPlan(saves={"r": save(0, (1, 2), "a", "b")}), {1: "a", 2: "b"})
    second.finish("r")
    assert second.calls.names == ["batch_probe_key"]
    # Two requests of one step share a prefix; the worker stores it once.
    saves = {"s": save(0, (3, 4), "c", "d"), "t": save(0, (5, 6), "c", "e")}
    second.step(StepPlan(saves=saves), {3: "c", 4: "d", 5: "c", 6: "e"})
    second.finish("s")
    second.finish("t")
    reader = make(WITHIN)
    assert reader.step(StepPlan(loads={"r": load(WITHIN, (0, 1, 2), "c", "d", "e")})) == set()
    assert [reader.read(i) for i in range(3)] == [content(name, reader.layout.block_bytes) for name in "cde"]


@pytest.mark.parametrize("options", [WHOLE, WITHIN, LAYERED], ids=["between", "within", "layers"])
def test_what_came_of_blocks_that_are_not_there_is_not_stored(make: Any, options: Options) -> None:
    writer, reader = make(WHOLE), make(options)
    writer.step(StepPlan(saves={"w": save(0, (1, 2), "a", "b")}), {1: "a", 2: "b"})
    writer.finish("w")
    plan = StepPlan(loads={"r": load(options, (1, 2, 3), "a", "b", "gone")})
    if not options.loads_between_steps:
        plan.saves = {"r": save(3, (1, 2, 3, 4), "wrong"), "s": save(0, (5,), "fine")}
    assert reader.step(plan, {4: "wrong", 5: "fine"}) == {3}
    assert [reader.read(i) for i in (1, 2)] == [content(name, reader.layout.block_bytes) for name in "ab"]
    if plan.saves:
        reader.finish("r")
        reader.finish("s")
        exists = reader.calls.store.batch_is_exist(reader.worker.keys.keys(hashes("wrong", "gone", "fine")))
        assert exists == [0, 0, 1]
    # After the request is computed again from the lost block on, the block is stored.
    reader.step(StepPlan(saves={"r": save(2, (1, 2, 3, 4), "gone", "wrong")}), {3: "gone", 4: "wrong"})
    reader.finish("r")
    assert reader.calls.store.batch_is_exist(reader.worker.keys.keys(hashes("gone", "wrong"))) == [1, 1]


@pytest.mark.parametrize("options", [WITHIN, LAYERED], ids=["within", "layers"])
@pytest.mark.parametrize("failure", ["raises", "short", "too few"])
def test_a_store_that_fails_costs_only_the_load(make: Any, options: Options, failure: str) -> None:
    writer, reader = make(WHOLE), make(options)
    writer.step(StepPlan(saves={"w": save(0, (1, 2), "a", "b")}), {1: "a", 2: "b"})
    writer.finish("w")
    call = "batch_get_into_multi_buffer_ranges" if options.use_layerwise else "batch_get_into_multi_buffers"

    def fail(keys: list[str], *_: Any) -> list[int]:
        if failure == "raises":
            raise RuntimeError("of a test")
        return [PIECE_BYTES] * (len(keys) if failure == "short" else 1)

    reader.calls.broken[call] = fail
    plan = StepPlan(loads={"r": load(options, (1, 2), "a", "b")})
    assert reader.step(plan) == {1, 2}
    del reader.calls.broken[call]
    assert reader.step(plan) == set()
    assert [reader.read(i) for i in (1, 2)] == [content(name, reader.layout.block_bytes) for name in "ab"]


def test_layers_that_nobody_announced_are_stored_at_the_end(make: Any) -> None:
    writer = make(LAYERED)
    writer.write(1, "a")
    writer.worker.begin(StepPlan(saves={"r": save(0, (1,), "a")}))
    writer.worker.save_layer(NAMES[1])
    writer.worker.save_layer("an encoder's")
    writer.worker.save()
    writer.finish("r")
    assert writer.calls.store.get(writer.worker.keys.key(b"a")) == content("a", writer.layout.block_bytes)


def test_a_block_whose_layer_cannot_be_written_is_not_published(make: Any) -> None:
    writer = make(LAYERED)
    writes: list[int] = []

    def second_fails(keys: list[str], *arguments: Any) -> list[int]:
        writes.append(len(keys))
        if len(writes) == 2:
            return [-800] * len(keys)
        codes: list[int] = writer.calls.store.batch_put_from_multi_buffer_ranges(keys, *arguments)
        return codes

    writer.calls.broken["batch_put_from_multi_buffer_ranges"] = second_fails
    writer.step(StepPlan(saves={"r": save(0, (1, 2), "a", "b")}), {1: "a", 2: "b"})
    writer.finish("r")
    keys = writer.worker.keys.keys(hashes("a", "b"))
    assert (writes, writer.calls.store.batch_is_exist(keys)) == ([2, 2], [0, 0])
    # The failed step leaves no session open, so the next step can store the blocks.
    writer.step(StepPlan(saves={"r": save(0, (1, 2), "a", "b")}), {1: "a", 2: "b"})
    writer.finish("r")
    assert writer.calls.store.batch_is_exist(keys) == [1, 1]


class Held:
    """A call of the store that goes on once the test lets it."""

    def __init__(self, instance: Instance, name: str) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.call = getattr(instance.calls.store, name)
        instance.calls.broken[name] = self.run

    def run(self, *arguments: Any) -> Any:
        self.begun.set()
        assert self.released.wait(SECONDS)
        return self.call(*arguments)


@pytest.mark.parametrize(
    ("options", "call"),
    [
        (WHOLE, "batch_probe_key"),
        (WHOLE, "batch_put_from_multi_buffers"),
        (LAYERED, "batch_probe_key"),
        (LAYERED, "batch_put_session_start"),
        (LAYERED, "batch_put_from_multi_buffer_ranges"),
    ],
)
def test_a_preemption_does_not_wait_for_the_pool(make: Any, options: Options, call: str) -> None:
    writer = make(options)
    held = Held(writer, call)
    writer.step(StepPlan(saves={"r": save(0, (1,), "a")}), {1: "a"})
    writer.step(StepPlan(saves={"s": save(0, (2,), "b")}), {2: "b"})
    assert held.begun.wait(SECONDS)
    started = time.monotonic()
    writer.worker.begin(StepPlan(preempted={"r"}))
    assert time.monotonic() - started < 0.5
    # Another request computes in the block that the first one lost.
    writer.write(1, "another")
    held.released.set()
    writer.finish("r")
    writer.finish("s")
    wait_until(lambda: stored(writer, "b") is not None, SECONDS, "the other request is saved")
    assert stored(writer, "a") in (None, content("a", writer.layout.block_bytes))
    assert writer.worker.pending.cancelled == (0 if call == "batch_put_from_multi_buffers" else 1)


def stored(instance: Instance, name: str) -> bytes | None:
    """The bytes of a block in the pool."""
    return instance.calls.store.get(instance.worker.keys.key(name.encode())) or None


@pytest.mark.parametrize(
    ("options", "call"),
    [
        (WHOLE, "_copy_out"),
        (LAYERED, "_copy_out"),
        (STRAIGHT, "batch_put_from_multi_buffers"),
        (LAYERED_STRAIGHT, "batch_put_from_multi_buffer_ranges"),
    ],
)
def test_a_preemption_waits_while_its_blocks_are_read(make: Any, options: Options, call: str) -> None:
    writer = make(options)
    held, begun = Held(writer, call), threading.Event()
    writer.step(StepPlan(saves={"r": save(0, (1,), "a")}), {1: "a"})
    assert held.begun.wait(SECONDS)

    def next_step() -> None:
        writer.worker.begin(StepPlan(preempted={"r"}))
        begun.set()

    threading.Thread(target=next_step, daemon=True).start()
    assert not begun.wait(0.1)
    held.released.set()
    assert begun.wait(SECONDS)
    writer.write(1, "another")
    writer.finish("r")
    assert stored(writer, "a") in (None, content("a", writer.layout.block_bytes))


def test_blocks_of_a_request_that_ended_do_not_wait_long_for_their_saves(make: Any) -> None:
    writer = make(Options(save_wait_ms=50))
    held = Held(writer, "batch_probe_key")
    writer.step(StepPlan(saves={"r": save(0, (1,), "a")}), {1: "a"})
    writer.finish("r")
    held.released.set()
    assert writer.worker.pending.cancelled == 1
    assert stored(writer, "a") is None


def test_the_memory_for_copies_is_what_the_local_buffer_has_room_for() -> None:
    piece, lent = 1000, []

    def lend(size: int) -> SimpleNamespace | None:
        lent.append(size)
        return SimpleNamespace(ptr=1) if size < 3 * piece else None

    store: Any = SimpleNamespace(_lend_from_mem_pool=lend)
    stage = Stage.of(store, piece, 8 * piece + 1)
    assert (lent, stage.size if stage else 0) == ([8 * piece, 4 * piece, 2 * piece], 2 * piece)
    assert Stage.of(store, 4 * piece, 8 * piece) is None


def test_without_room_for_copies_blocks_are_put_from_where_they_lie(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    instance = make(WHOLE)
    instance.calls.broken["_lend_from_mem_pool"] = lambda size: None
    assert instance.worker._stage(WHOLE) is None
    assert "local_buffer_size is too small" in caplog.text


def test_a_consumer_stores_nothing(make: Any) -> None:
    for options in (WHOLE, LAYERED):
        consumer = make(options, can_put=False)
        consumer.step(StepPlan(saves={"r": save(0, (1,), "a")}), {1: "a"})
        consumer.finish("r")
        assert consumer.calls.names == []


def test_saves_that_are_over_are_reported_once() -> None:
    pending = PendingSaves()
    first, second, other = (pending.begin(request_id) for request_id in ("a", "a", "b"))
    pending.finish({"a", "no save"})
    assert pending.take_finished() == {"no save"}
    pending.end(first)
    pending.end(first)
    pending.end(other)
    assert pending.take_finished() == set()
    pending.end(second)
    assert [pending.take_finished(), pending.take_finished()] == [{"a"}, set()]
    pending.finish({"b"})
    assert pending.take_finished() == {"b"}


def test_a_cancelled_save_reads_no_more() -> None:
    pending = PendingSaves()
    first, second = pending.begin("a"), pending.begin("b")
    pending.cancel({"a", "unknown"})
    with pending.reading(first, second) as live:
        assert live == [second]
        waiting = threading.Thread(target=pending.cancel, args=({"b"},))
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
    waiting.join(SECONDS)
    with pending.reading(second) as live:
        assert live == []
    assert pending.cancelled == 2
    pending.finish({"a", "b"})
    assert pending.take_finished() == {"a", "b"}


# Lookups


def test_the_scheduler_asks_the_worker(make: Any) -> None:
    instance = make(WHOLE)
    name = socket_name(uuid.uuid4().hex)
    client = LookupClient(name, 5000, 5000)
    assert client.count("r", [b"a"]) == 0, "nobody answers yet"
    client.quiet_until = 0.0
    instance.worker.serve_lookups(name)
    instance.step(StepPlan(saves={"r": save(0, (1, 2, 3), "a", "b", "d")}), {1: "a", 2: "b", 3: "d"})
    instance.finish("r")
    asked = [hashes("a", "b", "d"), hashes("a", "b", "c", "d"), hashes("c"), ()]
    assert [client.count("r", one) for one in asked] == [3, 2, 0, 0]
    assert instance.calls.store.put("other", b"value") == 0
    assert client.reset() is True
    assert [client.count("r", asked[0]), instance.calls.store.is_exist("other")] == [0, 1]
    client.close()


def test_a_look_up_leases_nothing_that_will_not_be_loaded(make: Any) -> None:
    instance = make(WHOLE)
    name = socket_name(uuid.uuid4().hex)
    instance.worker.serve_lookups(name)
    # The save looks which blocks are missing, and a second one does: neither leases anything.
    for _ in range(2):
        instance.step(StepPlan(saves={"r": save(0, (1, 2, 3), "a", "b", "d")}), {1: "a", 2: "b", 3: "d"})
        instance.finish("r")
    client = LookupClient(name, 5000, 5000)
    assert client.count("r", hashes("a", "b", "d"), 2) == 3
    keys = instance.worker.keys.keys(hashes("a", "b", "d"))
    assert [instance.calls.store.remove(key) for key in keys] == [0, 0, -706]
    client.close()


def test_a_block_counts_only_if_all_its_parts_are_there(cluster: Cluster, model: str) -> None:
    store = cluster.store()
    name = socket_name(uuid.uuid4().hex)
    topology = Topology(tp_size=2, kv_heads=2)
    layout = BlockLayout({"l": Layer(0, 8, ((0, 8),))})
    worker = Worker(Pool(store, ReplicateConfig()), layout, Place(model, 0, topology), WHOLE, True)
    worker.serve_lookups(name)
    part = f"{model}@pcp0@dcp0@head_or_tp_rank:{{}}@pp_rank:0@{{}}"
    for rank, block in ((0, b"a"), (1, b"a"), (0, b"b")):
        assert store.put(part.format(rank, block.hex()), b"value") == 0
    client = LookupClient(name, 5000, 5000)
    assert client.count("r", hashes("a", "b")) == 1
    client.close()
    worker.close()


class SlowServer:
    """A look-up server that answers when the test lets it. Use it in a `with`."""

    def __enter__(self) -> SlowServer:
        self.released = threading.Event()
        self.name = socket_name(uuid.uuid4().hex)
        self.server = LookupServer(self.name, self.count, lambda: True)
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.server.close()

    def count(self, hashes: list[bytes], first: int) -> int:
        assert self.released.wait(SECONDS)
        return len(hashes)


def test_a_step_waits_once_for_answers_and_gets_them_in_a_later_step() -> None:
    with SlowServer() as slow:
        client = LookupClient(slow.name, 5000, 300)
        started = time.monotonic()
        assert [client.count(request, [b"a"] * i) for i, request in enumerate("rst", 1)] == [None] * 3
        assert 0.25 < time.monotonic() - started < 0.8
        started = time.monotonic()
        assert client.count("r", [b"a"]) is None
        assert time.monotonic() - started < 0.25, "this step has waited"
        client.forget("s")
        slow.released.set()
        client.begin_step()
        wait_until(lambda: client.count("t", [b"a"] * 3) == 3, SECONDS, "the answer comes")
        assert (client._answers, client._wanted, client._asked) == ({"r": 1}, {"r"}, {})
        assert client.count("r", [b"a"]) == 1
        client.close()


def test_while_an_answer_is_overdue_nothing_is_asked_and_nothing_waits(caplog: pytest.LogCaptureFixture) -> None:
    with SlowServer() as slow:
        client = LookupClient(slow.name, 50, 1)
        assert client.count("r", [b"a"]) is None
        wait_until(lambda: client.count("r", [b"a"]) == 0, SECONDS, "the answer is overdue")
        client.begin_step()
        started = time.monotonic()
        assert [client.count(f"s{i}", [b"a"]) for i in range(100)] == [0] * 100
        assert time.monotonic() - started < 0.2
        assert len(client._asked) == 1
        slow.released.set()
        wait_until(lambda: client.count("t", [b"a"]) == 1, SECONDS, "it asks again")
        client.close()
    assert [line for line in caplog.messages if "answer" in line] == [
        "the look-up server does not answer, so nothing counts as cached: no answer in time",
        "the look-up server answers again",
    ]


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.pack(9, 0),
        FRAME.pack(LOOKUP, MAX_PAYLOAD_BYTES + 1),
        FRAME.pack(LOOKUP, 6) + bytes(4) + b"\x00a",
        FRAME.pack(LOOKUP, 3) + bytes(3),
        FRAME.pack(LOOKUP, 0),
        FRAME.pack(LOOKUP, 100) + b"\x01",
    ],
    ids=["kind", "length", "payload", "short", "empty", "cut off"],
)
def test_a_question_that_is_wrong_ends_its_connection_only(frame: bytes) -> None:
    name = socket_name(uuid.uuid4().hex)
    server = LookupServer(name, lambda found, _: len(found), lambda: True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wrong:
        wrong.connect(name)
        wrong.settimeout(SECONDS)
        wrong.sendall(frame)
        assert wrong.recv(1) == b""
    client = LookupClient(name, 5000, 5000)
    assert client.count("r", [b"a"]) == 1
    client.close()
    server.close()


def test_hashes_on_their_way() -> None:
    for several in ([], [b"a"], [b"ab", b"cd"], [bytes([i % 256]) * 64 for i in range(1000)]):
        assert decode_hashes(encode_hashes(several)) == several
    assert len(decode_hashes(encode_hashes([b"a"] * (MAX_HASHES + 1)))) == MAX_HASHES
    for wrong in ([b"a", b"ab"], [b""], [b"a" * 65]):
        with pytest.raises(ValueError, match="one length"):
            encode_hashes(wrong)
    for payload in (b"", b"\x02abc", b"\x00a", b"\x41" + b"a" * 65):
        with pytest.raises(ValueError, match="not a list"):
            decode_hashes(payload)


def test_batches_are_cut(make: Any) -> None:
    assert 3 * LAYERS * 2 * PIECE_BYTES < MIB
    instance = make(WHOLE)
    keys = [f"{instance.worker.keys.model}-{number}" for number in range(1100)]
    assert [instance.worker.pool.missing(keys + keys[:5]), instance.calls.names] == [keys, ["batch_probe_key"] * 3]
