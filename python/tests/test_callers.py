"""The calls of inference engines, replayed, and the checks that engines make.

`engines/callers.py` recorded `callers/*.json` from unmodified engines. The test repeats the calls of each script in
order, with the same shapes. Every result must equal the recorded one, in strict types, and every byte must be the one
that was put.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cluster import FABRIC, MIB, Cluster, Memory, content
from gpu import DeviceMemory
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

SCRIPTS = sorted((Path(__file__).parent / "callers").glob("*.json"))
SCRIPT_NAMES = ["lmcache", "lmcache_meta", "sglang", "sglang_linker", "vllm", "vllm_ec"]
HEADER_BYTES = 28
OBJECT_NOT_FOUND = -704
# After these codes no transfer is running, so a caller may reuse its buffers.
SETTLED = {-200, -600, -702, -703, -704, -705, -707, -900, -901, -1700}


def join(pieces: list[list[Any]]) -> list[Any]:
    return [piece for row in pieces for piece in row]


class Replay:
    """The stores and buffers of one script, and the expected bytes of each key."""

    def __init__(self, script: dict[str, Any], cluster: Cluster, kind: type[Memory | DeviceMemory]) -> None:
        self.cluster = cluster
        self.calls: list[dict[str, Any]] = script["calls"]
        # The engines register all these buffers.
        self.buffers: list[Memory | DeviceMemory] = [kind(size) for size in script["buffers"]]
        self.stores: dict[int, MooncakeDistributedStore] = {}
        self.objects: dict[str, bytes] = {}
        self.sent = 0

    def argument(self, value: Any) -> Any:
        """The recorded argument, with addresses of this process and the master of this pool in place of its own."""
        if value == "MASTER":
            return self.cluster.master_address
        if isinstance(value, list):
            return [self.argument(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "at" in value:
            buffer, offset = value["at"]
            return self.buffers[buffer].address + offset
        if "bytes" in value:
            return self.fresh(value["bytes"])
        if "ReplicateConfig" in value:
            config = ReplicateConfig()
            for name, field in value["ReplicateConfig"].items():
                setattr(config, name, field)
            return config
        return {name: self.argument(item) for name, item in value.items()}

    def fresh(self, length: int) -> bytes:
        """Bytes that no earlier call has sent."""
        self.sent += 1
        return content(f"value {self.sent}", length)

    def fill(self, key: str, addresses: list[int], sizes: list[int]) -> None:
        """Writes to memory the value that the next put reads."""
        pieces = [self.fresh(size) for size in sizes]
        for address, piece in zip(addresses, pieces, strict=True):
            memory = self.memory_at(address)
            memory.write(address - memory.address, piece)
        self.objects.setdefault(key, b"".join(pieces))

    def memory_at(self, address: int) -> Memory | DeviceMemory:
        return next(memory for memory in self.buffers if 0 <= address - memory.address < memory.size)

    def read(self, address: int, length: int) -> bytes:
        memory = self.memory_at(address)
        return memory.read(address - memory.address, length)

    def run(self) -> None:
        for number, call in enumerate(self.calls):
            store = self.stores.setdefault(call["store"], MooncakeDistributedStore())
            args = [self.argument(value) for value in call["args"]]
            kwargs = {name: self.argument(value) for name, value in call["kwargs"].items()}
            before = getattr(self, f"before_{call['method']}", None)
            if before is not None:
                before(*args)
            result = getattr(store, call["method"])(*args, **kwargs)
            where = f"call {number}, {call['method']}"
            self.compare(result, call["result"], where)
            after = getattr(self, f"after_{call['method']}", None)
            if after is not None:
                after(result, where, *args)

    def compare(self, result: Any, recorded: Any, where: str) -> None:
        """Compares exact types too: callers zip results with keys, and check `type(x) is int`."""
        if isinstance(recorded, list):
            assert type(result) is list, where
            assert len(result) == len(recorded), where
            for item, wanted in zip(result, recorded, strict=True):
                self.compare(item, wanted, where)
        elif isinstance(recorded, dict):
            kind, length = next(iter(recorded.items()))
            assert type(result).__name__ == kind, where
            assert length is None or len(result) == length, where
        else:
            assert type(result) is type(recorded), where
            assert result == recorded or type(recorded) is str, where

    # Before a put: note or write the value that it reads.

    def before_put(self, key: str, value: bytes, *_: object) -> None:
        self.objects[key] = value

    def before_put_parts(self, key: str, *parts: Any) -> None:
        self.objects[key] = b"".join(part for part in parts if isinstance(part, bytes))

    def before_put_from(self, key: str, address: int, size: int, *_: object) -> None:
        self.fill(key, [address], [size])

    def before_batch_put_from(self, keys: list[str], addresses: list[int], sizes: list[int], *_: object) -> None:
        for key, address, size in zip(keys, addresses, sizes, strict=True):
            self.fill(key, [address], [size])

    def before_batch_put_from_multi_buffers(
        self, keys: list[str], addresses: list[list[int]], sizes: list[list[int]], *_: object
    ) -> None:
        for key, places, lengths in zip(keys, addresses, sizes, strict=True):
            self.fill(key, places, lengths)

    # After a get: compare what it wrote or returned.

    def after_get(self, result: bytes, where: str, key: str) -> None:
        assert result == self.objects[key], where

    def after_batch_get_buffer(self, result: list[Any], where: str, keys: list[str]) -> None:
        for key, handle in zip(keys, result, strict=True):
            assert handle is None or bytes(memoryview(handle)) == self.objects[key], where

    def after_batch_get_into(
        self, result: list[int], where: str, keys: list[str], addresses: list[int], _: list[int]
    ) -> None:
        for key, address, length in zip(keys, addresses, result, strict=True):
            assert length < 0 or self.read(address, length) == self.objects[key], where

    def after_batch_get_into_multi_buffers(
        self, result: list[int], where: str, keys: list[str], addresses: list[list[int]], sizes: list[list[int]]
    ) -> None:
        for key, places, lengths, code in zip(keys, addresses, sizes, result, strict=True):
            found = b"".join(map(self.read, places, lengths))
            assert code < 0 or found == self.objects[key], where

    def after_batch_get_into_multi_buffer_ranges(
        self,
        result: list[int],
        where: str,
        keys: list[str],
        addresses: list[list[int]],
        sizes: list[list[int]],
        offsets: list[list[int]],
    ) -> None:
        for key, places, lengths, begins in zip(keys, addresses, sizes, offsets, strict=True):
            wanted = [self.objects[key][begin : begin + length] for begin, length in zip(begins, lengths, strict=True)]
            assert list(map(self.read, places, lengths)) == wanted, where

    def close(self) -> None:
        for store in self.stores.values():
            store.close()


@pytest.mark.parametrize("kind", [Memory, DeviceMemory], ids=["host", "gpu"])
@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_recorded_calls_have_the_recorded_results(
    path: Path, kind: type[Memory | DeviceMemory], cluster: Cluster, store: MooncakeDistributedStore
) -> None:
    replay = Replay(json.loads(path.read_text()), cluster, kind)
    try:
        replay.run()
    finally:
        replay.close()


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_recorded_calls_have_the_recorded_results_where_bytes_move_one_sided(
    path: Path, one_sided_cluster: Cluster
) -> None:
    with patch.dict(os.environ, FABRIC):
        assert one_sided_cluster.store().remove_all(force=True) >= 0
        replay = Replay(json.loads(path.read_text()), one_sided_cluster, Memory)
        try:
            replay.run()
        finally:
            replay.close()


def test_every_script_is_there() -> None:
    assert [path.stem for path in SCRIPTS] == SCRIPT_NAMES


@pytest.fixture
def fresh() -> Iterator[MooncakeDistributedStore]:
    """A store that is not set up yet."""
    store = MooncakeDistributedStore()
    yield store
    store.close()


def test_setup_as_vllm_ascend_calls_it(cluster: Cluster, fresh: MooncakeDistributedStore) -> None:
    code = fresh.setup(
        local_hostname="127.0.0.1",
        metadata_server="P2PHANDSHAKE",
        global_segment_size=0,
        local_buffer_size=16 * MIB,
        protocol="tcp",
        rdma_devices="",
        master_server_addr=cluster.master_address,
        engine=None,
    )
    assert (type(code), code) == (int, 0)
    assert fresh.batch_is_exist(["nowhere"]) == [0]


def test_ssd_support_can_be_detected_as_vllm_ascend_does() -> None:
    setup = MooncakeDistributedStore.setup
    try:
        words = " ".join(inspect.signature(setup).parameters)
    except (TypeError, ValueError):
        words = ""
    assert "enable_ssd_offload" in words + (setup.__doc__ or "")


@pytest.mark.parametrize(
    "names",
    [("master_server_addr", "rdma_devices"), ("master_server_address", "device_name")],
    ids=["the store's names", "LMCache's names"],
)
def test_setup_from_strings_alone_takes_both_spellings(
    names: tuple[str, str], cluster: Cluster, fresh: MooncakeDistributedStore
) -> None:
    master, device = names
    config = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "0",
        "local_buffer_size": str(16 * MIB),
        "protocol": "tcp",
        device: "",
        master: cluster.master_address,
    }
    assert fresh.setup(config) == 0
    assert fresh.is_exist("nowhere") == 0


def test_replicate_config_has_the_fields_that_callers_probe_and_set(store: MooncakeDistributedStore) -> None:
    for field in ("group_ids", "preferred_segment", "prefer_alloc_in_same_node", "replica_num", "data_type"):
        assert hasattr(ReplicateConfig, field) or hasattr(ReplicateConfig(), field), field
    # A vLLM worker uses one config for all its puts, and changes the group before each.
    config = ReplicateConfig()
    memory = Memory(4096)
    assert store.register_buffer(memory.address, memory.size) == 0
    for turn in range(3):
        config.group_ids = [f"group-{turn}"]
        assert config.group_ids == [f"group-{turn}"]
        address = memory.write(0, content(f"turn-{turn}", 4096))
        assert store.batch_put_from_multi_buffers([f"turn-{turn}"], [[address]], [[4096]], config) == [0]
        assert store.get(f"turn-{turn}") == content(f"turn-{turn}", 4096)
    assert store.unregister_buffer(memory.address) == 0


def test_failures_are_plain_ints_that_leave_no_transfer_in_doubt(
    store: MooncakeDistributedStore, memory: Memory
) -> None:
    """After any other code, vLLM's embedding store declares a worker unusable."""
    keys, address = ["here", "nowhere"], memory.address
    assert store.put("here", bytes(100)) == 0
    results = {
        "into": store.batch_get_into(keys, [address, address + 4096], [50, 4096]),
        "multi": store.batch_get_into_multi_buffers(["nowhere"], [[address, address + 64]], [[64, 64]]),
        "put": store.batch_put_from_multi_buffers(["huge"], [[address] * 64], [[8 * MIB] * 64], ReplicateConfig()),
        "ranges": store.batch_get_session_start(["nowhere"]),
    }
    for name, codes in results.items():
        assert type(codes) is list, name
        assert [type(code) for code in codes] == [int] * len(codes), name
        assert set(codes) <= SETTLED, (name, codes)
    assert results["into"][1] == results["multi"][0] == results["ranges"][0] == OBJECT_NOT_FOUND


def test_lmcache_reads_a_chunk_and_its_header_through_the_buffer_protocol(store: MooncakeDistributedStore) -> None:
    header, value = content("header", HEADER_BYTES), bytearray(content("value", 4096))
    assert store.put_parts("chunk", header, memoryview(value)) == 0
    handles = store.batch_get_buffer(["chunk", "nowhere"])
    assert type(handles) is list
    assert handles[1] is None
    assert handles[0] is not None
    view = memoryview(handles[0])
    assert (view.nbytes, bytes(view[:HEADER_BYTES]), bytes(view[HEADER_BYTES:])) == (
        HEADER_BYTES + 4096,
        header,
        bytes(value),
    )


def test_what_lmcache_takes_as_a_truth_value_is_never_negative(store: MooncakeDistributedStore) -> None:
    """LMCache counts any number except 0 as a hit."""
    found = [store.is_exist(key) for key in ("nowhere", "")]
    assert [type(code) for code in found] == [int, int]
    assert found[0] == 0


def test_close_is_zero_and_may_come_again(cluster: Cluster, fresh: MooncakeDistributedStore) -> None:
    assert cluster.setup(fresh) == 0
    assert (type(fresh.close()), fresh.close()) == (int, 0)
