"""Whole tensors in a real pool: every type, every layout in memory, and every refused tensor."""

from __future__ import annotations

import ctypes
import gc
import struct
import subprocess
import sys
import weakref
from typing import Any

import pytest
from cluster import Memory
from mooncake._values.tensor.dtype import NAMES
from mooncake._values.tensor.read import decode_handle
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from native_fake import FakeStore

torch: Any = pytest.importorskip("torch")
Store = MooncakeDistributedStore
POOLS = ["master", "local", "fabric"]
HEADER_BYTES = 304


@pytest.fixture
def memory(host_memory: Memory) -> Memory:
    """Host memory only: these tests make no tensors in GPU memory."""
    return host_memory


def same(left: Any, right: Any) -> bool:
    """Whether two tensors have the same type, shape and bytes."""
    if left is None or left.dtype != right.dtype or left.shape != right.shape:
        return False
    packed = (tensor.clone(memory_format=torch.contiguous_format).flatten() for tensor in (left, right))
    left, right = (tensor.view(torch.uint8) for tensor in packed)
    return bool(torch.equal(left, right))


def numbered(*shape: int, dtype: Any = None) -> Any:
    count = 1
    for extent in shape:
        count *= extent
    return torch.arange(count).reshape(shape).to(dtype or torch.float32)


@pytest.mark.parametrize("name", NAMES)
def test_every_type(store: Store, memory: Memory, name: str) -> None:
    tensor = torch.randint(0, 2, (3, 40), dtype=torch.uint8).to(getattr(torch, name))
    assert store.put_tensor("k", tensor) == 0
    assert store.get_size("k") == HEADER_BYTES + tensor.numel() * tensor.element_size()
    assert same(store.get_tensor("k"), tensor)
    assert same(store.get_tensor_into("k", memory.address, memory.size), tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        numbered(6, 4).t(),
        numbered(6, 4)[::2],
        numbered(6, 4)[:, 1:3],
        numbered(24)[5:],
        torch.ones(1).expand(3, 3),
        numbered(2, 1, 3).permute(2, 1, 0),
        torch.ones(3, requires_grad=True),
        torch.nn.Parameter(torch.ones(3)),
        torch._neg_view(numbered(5)),
        torch.view_as_complex(numbered(4, 2)).conj().imag,
    ],
    ids=[
        "transposed",
        "stepped",
        "columns",
        "offset",
        "expanded",
        "permuted",
        "grad",
        "parameter",
        "negated",
        "conjugated",
    ],
)
def test_every_form_of_memory(store: Store, tensor: Any) -> None:
    assert store.put_tensor("k", tensor) == 0
    assert torch.equal(store.get_tensor("k"), tensor.detach())


@pytest.mark.parametrize("shape", [(0,), (0, 4096), (2, 0, 3), (1, 0), (1,) * 8, (0,) * 8])
def test_empty_and_deep(store: Store, memory: Memory, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape, dtype=torch.bfloat16)
    assert store.put_tensor("k", tensor) == 0
    assert same(store.get_tensor("k"), tensor)
    assert same(store.get_tensor_into("k", memory.address, 4096), tensor)
    assert store.put_tensor_from("again", memory.address, store.get_size("k")) == 0
    assert same(store.get_tensor("again"), tensor)


def test_a_tensor_without_dimensions_comes_back_as_it_was(store: Store, memory: Memory) -> None:
    assert store.put_tensor("k", torch.tensor(2.5)) == 0
    tensors = [store.get_tensor("k"), store.get_tensor_into("k", memory.address, memory.size)]
    for got in (*tensors, *store.batch_get_tensor(["k"])):
        assert got is not None
        assert (got.shape, got.item()) == (torch.Size([]), 2.5)


REFUSED = [
    None,
    3,
    "text",
    [1.0],
    b"\0" * 400,
    torch.zeros((1,) * 9),
    torch.zeros(2, dtype=torch.complex64),
    torch.zeros(3).to_sparse(),
    torch.zeros(2, device="meta"),
]


def test_what_cannot_be_stored(store: Store) -> None:
    assert [store.put_tensor("k", value) for value in REFUSED] == [-600] * len(REFUSED)
    assert [store.upsert_tensor("k", value) for value in REFUSED] == [-600] * len(REFUSED)
    assert store.is_exist("k") == 0


def test_in_a_batch_only_what_cannot_be_stored_fails(store: Store) -> None:
    keys = [f"k{i}" for i in range(4)]
    good = [numbered(2, 3), numbered(5, dtype=torch.int64)]
    assert store.batch_put_tensor(keys, [good[0], None, good[1], torch.zeros(2, dtype=torch.complex64)]) == [
        0,
        -600,
        0,
        -600,
    ]
    found = store.batch_get_tensor([*keys, "none"])
    assert [tensor is None for tensor in found] == [False, True, False, True, True]
    assert same(found[0], good[0])
    assert same(found[2], good[1])


def test_a_second_put_keeps_the_first_value_and_an_upsert_does_not(store: Store) -> None:
    first, second = numbered(4), numbered(2, 2, dtype=torch.int16)
    assert (store.put_tensor("k", first), store.put_tensor("k", second)) == (0, 0)
    assert same(store.get_tensor("k"), first)
    assert (store.upsert_tensor("k", second), store.upsert_tensor("new", first)) == (0, 0)
    assert (same(store.get_tensor("k"), second), same(store.get_tensor("new"), first)) == (True, True)
    assert store.batch_upsert_tensor(["k", "new"], [first, second]) == [0, 0]
    assert (same(store.get_tensor("k"), first), same(store.get_tensor("new"), second)) == (True, True)
    assert (store.upsert_pub_tensor("k", second), store.batch_upsert_pub_tensor(["new"], [first])) == (0, [0])
    assert (same(store.get_tensor("k"), second), same(store.get_tensor("new"), first)) == (True, True)


def test_into_and_from_memory(store: Store, memory: Memory) -> None:
    tensors = [numbered(10, 10), numbered(7, dtype=torch.int8)]
    keys, places, room = ["a", "b"], [memory.address, memory.address + 4096], [4096, 4096]
    assert store.batch_put_tensor(keys, tensors) == [0, 0]
    into: list[Any] = store.batch_get_tensor_into(keys, places, room)
    assert all(map(same, into, tensors))
    lengths = [store.get_size(key) for key in keys]
    assert store.batch_put_tensor_from(["c", "d"], places, lengths) == [0, 0]
    assert store.upsert_tensor_from("a", places[1], lengths[1]) == 0
    assert store.batch_upsert_tensor_from(["b"], places[:1], lengths[:1]) == [0]
    assert all(map(same, store.batch_get_tensor(["c", "d", "b", "a"]), tensors * 2))
    into[0][0, 0] = 99.0
    assert struct.unpack("<f", memory.read(HEADER_BYTES, 4)) == (99.0,), "the tensor shares the caller's memory"


def test_not_enough_room(store: Store, memory: Memory) -> None:
    assert store.put_tensor("k", numbered(10)) == 0
    memory.write(0, b"\xee" * 1000)
    assert store.get_tensor_into("k", memory.address, 343) is None
    assert store.batch_get_tensor_into(["k", "none"], [memory.address] * 2, [343, 344]) == [None, None]
    assert memory.read(0, 1000) == b"\xee" * 1000
    assert same(store.get_tensor_into("k", memory.address, 344), numbered(10))


NOT_TENSORS = {
    "short": b"x",
    "one byte less": bytes(303),
    "zeros": bytes(304),
    "noise": bytes(range(256)) * 4,
}


def lie(offset: int, form: str, value: int) -> bytes:
    """A stored tensor of 2 x 3 float32 whose header has one wrong value."""
    store = FakeStore()
    assert store.put_tensor("k", numbered(2, 3)) == 0
    raw = bytearray(store.objects["k"])
    struct.pack_into(form, raw, offset, value)
    return bytes(raw)


LIES = {
    "magic": lie(0, "<I", 1),
    "longer than it is": lie(104, "<q", 200),
    "longer, and it says so": lie(32, "<Q", 2400),
    "starts beyond its end": lie(24, "<Q", 1 << 40),
    "another type": lie(8, "<i", 1),
    "nine dimensions": lie(12, "<i", 9),
    "negative rank": lie(12, "<i", -1),
}


@pytest.mark.parametrize("value", [*NOT_TENSORS.values(), *LIES.values()], ids=[*NOT_TENSORS, *LIES])
def test_an_object_that_is_no_tensor(store: Store, memory: Memory, value: bytes) -> None:
    assert store.put("k", value) == 0
    assert store.get_tensor("k") is None
    assert store.batch_get_tensor(["k"]) == [None]
    assert store.get_tensor_into("k", memory.address, memory.size) is None
    assert store.batch_get_tensor_into(["k"], [memory.address], [memory.size]) == [None]
    at = memory.write(0, value)
    assert store.put_tensor_from("new", at, len(value)) == -600
    assert store.upsert_tensor_from("k", at, len(value)) == -600
    assert store.batch_put_tensor_from(["new", "other"], [at, at], [len(value)] * 2) == [-600, -600]
    assert (store.is_exist("new"), store.get("k")) == (0, value)


def test_one_bad_object_in_memory_refuses_the_batch(store: Store, memory: Memory) -> None:
    good = lie(0, "<I", 0x4D4F4F4E)
    at = memory.write(0, good)
    assert store.batch_put_tensor_from(["a", "b"], [at, at + 1000], [len(good)] * 2) == [-600, -600]
    assert store.put_tensor_from("a", at, len(good)) == 0
    assert store.is_exist("b") == 0


def test_null_addresses_and_lists_that_differ(store: Store, memory: Memory) -> None:
    at = memory.address
    assert store.put_tensor_from("k", 0, 400) == -600
    assert store.get_tensor_into("k", 0, 400) is None
    assert store.batch_get_tensor_into(["a", "b"], [at, 0], [400, 400]) == [-600, -600]
    assert store.batch_get_tensor_into(["a", "b"], [at], [400, 400]) == [-600, -600]
    assert store.batch_put_tensor(["a", "b"], [numbered(2)]) == [-600, -600]
    assert store.batch_put_tensor_from(["a"], [at], []) == [-600]
    assert store.batch_pub_tensor(["a"], []) == [-600]
    assert (store.batch_put_tensor([], []), store.batch_get_tensor([])) == ([], [])
    assert store.is_exist("a") == 0


def test_a_contiguous_tensor_is_stored_from_where_it_lies() -> None:
    store, tensor = FakeStore(), numbered(4, 4)
    assert store.batch_put_tensor(["a", "b", "c"], [tensor, tensor[1:], tensor.t()]) == [0, 0, 0]
    places = [pointers[1] for pointers in store.addresses[0]]
    assert places[:2] == [tensor.data_ptr(), tensor.data_ptr() + 16]
    assert not tensor.data_ptr() <= places[2] < tensor.data_ptr() + 64


def test_a_tensor_shares_the_memory_that_it_was_read_into(store: Store) -> None:
    assert store.put_tensor("k", numbered(4)) == 0
    handle: Any = store.get_buffer("k")
    tensor: Any = decode_handle(handle)
    assert tensor.data_ptr() == handle.ptr() + HEADER_BYTES
    tensor[0] = 9.0
    assert bytes(memoryview(handle)[HEADER_BYTES : HEADER_BYTES + 4]) == struct.pack("<f", 9.0)
    gone = weakref.ref(handle)
    del handle
    gc.collect()
    assert gone() is not None, "the tensor keeps it"
    del tensor
    gc.collect()
    assert gone() is None


def test_a_tensor_keeps_its_memory_when_the_object_goes(store: Store) -> None:
    tensor = numbered(1000)
    assert store.put_tensor("k", tensor) == 0
    got = store.get_tensor("k")
    assert store.remove("k", force=True) == 0
    assert store.put_tensor("k", -tensor) == 0
    gc.collect()
    assert same(got, tensor)


def test_a_tensor_is_let_go_after_the_call(store: Store) -> None:
    tensor = numbered(10)
    gone = weakref.ref(tensor)
    assert store.put_tensor("k", tensor) == 0
    del tensor
    gc.collect()
    assert gone() is None


def test_a_configuration_is_handed_on_with_the_group_ids_of_what_is_stored() -> None:
    store, config = FakeStore(), ReplicateConfig()
    config.replica_num, config.with_hard_pin, config.group_ids = 2, True, ["x", "y", "z"]
    assert store.batch_pub_tensor(["a", "b", "c"], [numbered(1), None, numbered(2)], config) == [0, -600, 0]
    (used,) = store.configs
    assert used is not None
    assert (used.replica_num, used.with_hard_pin, used.group_ids) == (2, True, ["x", "z"])
    assert config.group_ids == ["x", "y", "z"]
    assert store.batch_pub_tensor(["d"], [numbered(1)], config) == [-600]


def test_preferred_segments_must_be_one_per_replica(store: Store) -> None:
    config = ReplicateConfig()
    config.preferred_segments = ["a", "b"]
    assert (store.pub_tensor("k", numbered(1), config), store.batch_pub_tensor(["k"], [numbered(1)], config)) == (
        -600,
        [-600],
    )
    assert store.pub_tensor_with_tp("k", numbered(2), config, tp_size=2) == -600
    assert store.put_tensor_with_parallelism("k", numbered(1), None, config) == -600
    config.preferred_segments = ["a"]
    assert store.pub_tensor("k", numbered(1), config) == 0


def test_codes_of_the_store_are_handed_on() -> None:
    store = FakeStore()
    store.codes = {"b": -200}
    assert store.batch_put_tensor(["a", "b"], [numbered(1), numbered(1)]) == [0, -200]
    assert store.put_tensor("b", numbered(1)) == -200


@pytest.mark.parametrize(
    ("method", "arguments", "name"),
    [
        ("put_tensor", (3, None), "key"),
        ("put_tensor", (None, None), "key"),
        ("batch_put_tensor", ("key", []), "keys"),
        ("batch_put_tensor", ([1], [None]), "keys"),
        ("batch_put_tensor", (["k"], "tensor"), "tensors_list"),
        ("batch_put_tensor", (["k"], 3), "tensors_list"),
        ("pub_tensor", ("k", None, 3), "config"),
        ("put_tensor_from", ("k", "0", 1), "buffer_ptr"),
        ("put_tensor_from", ("k", 1, -1), "size"),
        ("batch_put_tensor_from", (["k"], 1, [1]), "buffer_ptrs"),
        ("get_tensor", (3,), "key"),
        ("batch_get_tensor", (3,), "keys"),
        ("get_tensor_into", ("k", 1.5, 1), "buffer_ptr"),
        ("batch_get_tensor_into", (["k"], [1], [1 << 64]), "sizes"),
        ("put_tensor_with_tp", ("k", None, 0, "2"), "tp_size"),
        ("put_tensor_with_tp", ("k", None, 0, 1 << 31), "tp_size"),
        ("get_tensor_with_tp", ("k", None), "tp_rank"),
        ("put_tensor_with_parallelism", (3, None), "key"),
        ("put_tensor_with_parallelism", ("k", None, None, 3), "config"),
        ("get_tensor_with_parallelism", (3,), "key"),
        ("save_tensor_to_safetensor", ("k", 3), "file_name"),
        ("load_tensor_from_safetensor", ("k",), "file_name"),
        ("load_tensor_from_safetensor", (3, "file"), "key"),
        ("get_tensor_into_cuda", (3, None), "key"),
    ],
)
def test_an_argument_of_a_wrong_type(method: str, arguments: tuple[object, ...], name: str) -> None:
    with pytest.raises(TypeError, match=rf"{method}\(\): incompatible function arguments: '{name}' "):
        getattr(Store(), method)(*arguments)


def test_a_store_that_is_not_set_up() -> None:
    store, tensor = Store(), numbered(2)
    memory = Memory(4096)
    at = (memory.address, memory.size)
    assert (store.put_tensor("k", tensor), store.upsert_tensor("k", tensor)) == (-600, -600)
    assert (store.batch_put_tensor(["k"], [tensor]), store.pub_tensor("k", tensor)) == ([-600], -600)
    assert (store.get_tensor("k"), store.batch_get_tensor(["a", "b"])) == (None, [None, None])
    assert (store.get_tensor_into("k", *at), store.batch_get_tensor_into(["k"], [at[0]], [at[1]])) == (None, [-600])
    assert store.batch_get_tensor_with_tp_into(["k"], [at[0]], [at[1]]) == [None]
    assert store.get_tensor_with_tp_into("k", *at, tp_size=2) is None
    assert (store.put_tensor_with_tp("k", tensor, tp_size=2), store.get_tensor_with_tp("k")) == (-600, None)
    assert store.put_tensor_with_parallelism("k", tensor) == -600
    assert (store.get_tensor_with_parallelism("k"), store.get_tensor_with_parallelism_into("k", *at)) == (None, None)
    assert (store.save_tensor_to_safetensor("k"), store.load_tensor_from_safetensor("k", "none")) == (-600, None)


def test_reads_into_a_device_are_refused(store: Store) -> None:
    assert store.put_tensor("k", numbered(2)) == 0
    assert store.get_tensor_into_cuda("k", numbered(2)) == -600
    assert store.batch_get_tensor_into_cuda(["k", "l"], [numbered(2)]) == [-600, -600]


WITHOUT_TORCH = """
import sys
import mooncake.store
assert not {"torch", "numpy", "safetensors"} & set(sys.modules), sorted(sys.modules)
sys.modules["torch"] = None
for call in [lambda s: s.put_tensor("k", 1), lambda s: s.put_tensor_with_tp("k", 1, tp_size=2)]:
    try:
        call(mooncake.store.MooncakeDistributedStore())
    except ImportError as error:
        assert "pip install torch" in str(error), error
    else:
        raise AssertionError("no error")
"""


def test_torch_is_imported_by_calls_alone_and_missed_clearly() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_memory_that_is_no_address_of_a_tensor(store: Store) -> None:
    few = (ctypes.c_ubyte * 10)()
    assert store.put_tensor_from("k", ctypes.addressof(few), 10) == -600
