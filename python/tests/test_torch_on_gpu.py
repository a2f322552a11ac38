"""Tensors of torch on a GPU: streams, allocators and graphs, while the store moves their bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cluster import MIB, Cluster, content, wait_until
from gpu import Stream
from mooncake.store import MooncakeDistributedStore
from mooncake.vllm.stream import gate_on, marks_on

Store = MooncakeDistributedStore
CUDA = torch.device("cuda", 0)
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.float8_e4m3fn]
# Multiplications that keep a stream busy for some hundred milliseconds.
SLOW_ROUNDS, SLOW_WIDTH = 200, 8192


def slow(target: Any, value: float) -> None:
    """Makes the current stream compute for long, and then fill the tensor."""
    matrix = torch.ones(SLOW_WIDTH, SLOW_WIDTH, dtype=torch.bfloat16, device=CUDA)
    for _ in range(SLOW_ROUNDS):
        matrix @ matrix
    target.fill_(value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_all_kinds_go_there_and_back(any_store: Store, dtype: torch.dtype) -> None:
    raw = torch.frombuffer(bytearray(content(str(dtype), 64 * 96 * 8)), dtype=torch.uint8)
    shape = (64, 96)
    count = 64 * 96 * dtype.itemsize
    value = (raw[:count] % 2 if dtype == torch.bool else raw[:count]).view(dtype).reshape(shape).to(CUDA)
    apart = value[:, ::3]
    assert any_store.put_tensor("whole", value) == 0
    assert any_store.put_tensor("apart", apart) == 0
    for key, stored in (("whole", value), ("apart", apart.contiguous())):
        target = torch.zeros(stored.shape, dtype=dtype, device=CUDA)
        assert any_store.get_tensor_into_cuda(key, target) == 0
        found = any_store.get_tensor(key)
        assert found is not None
        for tensor in (target.cpu(), found):
            assert torch.equal(tensor.view(torch.uint8), stored.cpu().view(torch.uint8))


def test_a_tensor_is_stored_as_its_stream_will_have_left_it(any_store: Store) -> None:
    tensor = torch.zeros(MIB, device=CUDA)
    with torch.cuda.stream(torch.cuda.Stream()):
        slow(tensor, 7.0)
        assert any_store.put_tensor("late", tensor) == 0
    found = any_store.get_tensor("late")
    assert found is not None
    assert torch.equal(found, torch.full((MIB,), 7.0))


def test_a_stream_that_computes_does_not_hold_the_store_up(any_store: Store) -> None:
    here = torch.full((MIB,), 3, dtype=torch.uint8, device=CUDA)
    other = torch.zeros(MIB, device=CUDA)
    torch.cuda.synchronize()
    assert any_store.register_buffer(here.data_ptr(), MIB) == 0
    # The first copies lock pages and set up staging memory.
    assert any_store.upsert_from("k", here.data_ptr(), MIB) == 0
    assert any_store.get_into("k", here.data_ptr(), MIB) == MIB
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            slow(other, 1.0)
            end = torch.cuda.Event()
            end.record()
        assert any_store.upsert_from("k", here.data_ptr(), MIB) == 0
        assert any_store.get_into("k", here.data_ptr(), MIB) == MIB
        assert not end.query(), "the store waited for a stream that is none of its own"
        torch.cuda.synchronize()
    assert any_store.unregister_buffer(here.data_ptr()) == 0


ALLOCATOR = """
import sys, torch
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", sys.argv[1]) == 0
kept = [torch.full((3 << 20,), i, dtype=torch.uint8, device="cuda") for i in range(12)]
big = torch.arange(40 << 20, dtype=torch.int32, device="cuda").view(torch.uint8)
torch.cuda.synchronize()
size = big.numel()
assert store.register_buffer(big.data_ptr(), size) == 0
places = [(5, 100), (1 << 20, 20 << 20), (size - 7, 7), (0, 60 << 20)]
for at, length in places:
    assert store.upsert_from("k", big.data_ptr() + at, length) == 0, (at, length)
    assert store.get("k") == bytes(big[at : at + length].cpu().numpy()), (at, length)
    target = torch.zeros(length, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    assert store.register_buffer(target.data_ptr(), length) == 0
    assert store.get_into("k", target.data_ptr(), length) == length
    assert torch.equal(target, big[at : at + length])
    assert store.unregister_buffer(target.data_ptr()) == 0
for tensor in kept:
    assert store.put_tensor("t", tensor) == 0
    assert store.get_tensor_into_cuda("t", torch.empty_like(tensor)) == 0
    store.remove("t", True)
# Freed while it is registered: an error, and nothing else is harmed.
# In the middle: nothing else is there.
address = big.data_ptr() + size // 2
start = big.data_ptr()
del big, target, tensor
torch.cuda.empty_cache()
torch.cuda.synchronize()
code = store.upsert_from("gone", address, 1000)
assert code < 0, code
assert store.put_tensor("good", kept[3]) == 0
assert torch.equal(store.get_tensor("good"), kept[3].cpu())
assert store.unregister_buffer(start) == 0
print("all is well")
"""


@pytest.mark.parametrize("allocator", ["backend:native", "expandable_segments:True", "backend:cudaMallocAsync"])
@pytest.mark.parametrize("transports", ["shm", "tcp"])
def test_memory_of_each_allocator(cluster: Cluster, allocator: str, transports: str) -> None:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    environment = {**os.environ, **dict.fromkeys(names, allocator), "MOONCAKE_TRANSPORTS": transports}
    command = [sys.executable, "-c", ALLOCATOR, cluster.master_address]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "all is well\n"), ended.stderr


def test_a_graph_is_captured_while_the_store_works(any_store: Store) -> None:
    memory = torch.full((8 * MIB,), 9, dtype=torch.uint8, device=CUDA)
    torch.cuda.synchronize()
    assert any_store.register_buffer(memory.data_ptr(), 8 * MIB) == 0
    assert any_store.upsert_from("k", memory.data_ptr(), 4 * MIB) == 0
    is_over, codes = threading.Event(), []

    def work() -> None:
        while not is_over.is_set():
            codes.append(any_store.upsert_from("k", memory.data_ptr(), 4 * MIB))
            codes.append(any_store.get_into("k", memory.data_ptr() + 4 * MIB, 4 * MIB) - 4 * MIB)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        static = torch.ones(64, 64, device=CUDA)
        for _ in range(5):
            graph = torch.cuda.CUDAGraph()
            # vLLM uses this mode: the graph does not capture calls of other threads.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                out = static @ static + 1
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, torch.full((64, 64), 65.0, device=CUDA))
    finally:
        is_over.set()
        thread.join()
    assert set(codes) == {0}
    assert any_store.unregister_buffer(memory.data_ptr()) == 0


def test_marks_and_gates_keep_the_order_of_streams(any_store: Store) -> None:
    tensor = torch.zeros(MIB, device=CUDA)
    torch.cuda.synchronize()
    assert any_store.register_buffer(tensor.data_ptr(), tensor.nbytes) == 0
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        slow(tensor, 5.0)
        reached = marks_on(CUDA)()
    reached()
    assert any_store.upsert_from("k", tensor.data_ptr(), tensor.nbytes) == 0
    assert any_store.get("k") == torch.full((MIB,), 5.0).numpy().tobytes()
    gate = gate_on(SimpleNamespace(type="cuda", index=None), 10_000)
    assert gate is not None
    assert gate.open(0)
    with torch.cuda.stream(stream):
        assert gate.wait(1)
        copy = tensor.clone()
        done = torch.cuda.Event()
        done.record()
    assert any_store.upsert("k", torch.full((MIB,), 6.0).numpy().tobytes()) == 0
    assert any_store.get_into("k", tensor.data_ptr(), tensor.nbytes) == tensor.nbytes
    assert not done.query(), "the stream waits for the gate"
    assert gate.open(1)
    wait_until(done.query, 5, "the stream goes on")
    assert torch.equal(copy, torch.full((MIB,), 6.0, device=CUDA))
    assert any_store.unregister_buffer(tensor.data_ptr()) == 0


def test_pages_are_locked_while_a_stream_waits(cluster: Cluster) -> None:
    """The first use of a node, which has locked no pages yet, is a load that a stream waits for."""
    gate = gate_on(SimpleNamespace(type="cuda", index=0), 10_000)
    assert gate is not None
    store = cluster.store(256 * MIB)
    tensor = torch.zeros(64 * MIB, dtype=torch.uint8, device=CUDA)
    torch.cuda.synchronize()
    assert store.register_buffer(tensor.data_ptr(), tensor.nbytes) == 0
    with Stream() as stream:
        assert gate.open(0)
        assert gate.counter.wait(stream.handle, 1)
        assert store.upsert_from("large", tensor.data_ptr(), tensor.nbytes) == 0
        assert gate.open(1), "locking waited for the stream"
        stream.finish()
    assert store.unregister_buffer(tensor.data_ptr()) == 0
    store.close()


def test_a_host_tensor_that_torch_has_pinned(any_store: Store) -> None:
    pinned = torch.arange(MIB, dtype=torch.int32).pin_memory()
    assert any_store.register_buffer(pinned.data_ptr(), pinned.nbytes) == 0
    assert any_store.put_from("k", pinned.data_ptr(), pinned.nbytes) == 0
    expected = pinned.clone()
    pinned.zero_()
    assert any_store.get_into("k", pinned.data_ptr(), pinned.nbytes) == pinned.nbytes
    assert torch.equal(pinned, expected)
    assert any_store.unregister_buffer(pinned.data_ptr()) == 0


def test_objects_of_many_pieces(any_store: Store) -> None:
    """16 objects of 64 pieces each that are not adjacent, as the blocks of a large model."""
    piece, count, objects = 64 << 10, 64, 16
    memory = torch.randint(0, 256, (objects * count * piece,), dtype=torch.uint8, device=CUDA)
    copy = memory.clone()
    torch.cuda.synchronize()
    assert any_store.register_buffer(memory.data_ptr(), memory.nbytes) == 0
    keys = [f"b{i}" for i in range(objects)]
    places = [[memory.data_ptr() + (j * objects + i) * piece for j in range(count)] for i in range(objects)]
    sizes = [[piece] * count] * objects
    for round_ in range(5):
        assert any_store.remove_all(force=True) >= 0, round_
        assert any_store.batch_put_from_multi_buffers(keys, places, sizes) == [0] * objects
        memory.zero_()
        torch.cuda.synchronize()
        assert any_store.batch_get_into_multi_buffers(keys, places, sizes) == [count * piece] * objects
        assert torch.equal(memory, copy)
    assert any_store.unregister_buffer(memory.data_ptr()) == 0


def test_the_doctor_finds_the_gpu(cluster: Cluster) -> None:
    metrics = f"127.0.0.1:{cluster.http_port}"
    command = [str(Path(sys.executable).with_name("mooncake")), "doctor", "--master", cluster.master_address]
    ended = subprocess.run(
        [*command, "--master-http", metrics], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    print(ended.stdout)
    assert f"\nGPU 0: {torch.cuda.get_device_name(0)} (" in ended.stdout
    assert "  way         one copy " in ended.stdout
