"""Tensors that are read into a GPU, with a double of the driver."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from cluster import MIB, content
from gpu import DeviceMemory, needs_double
from mooncake.store import MooncakeDistributedStore

Store = MooncakeDistributedStore
# `test_torch_on_gpu.py` tests real tensors.
pytestmark = needs_double


class CudaStorage:
    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory

    def data_ptr(self) -> int:
        return self.memory.address

    def nbytes(self) -> int:
        return self.memory.size


class CudaTensor(torch.Tensor):  # type: ignore[misc]
    """The attributes of a GPU tensor that the calls read. Its first elements lie in the memory from `offset` on."""

    memory: DeviceMemory
    offset: int
    is_gone: bool

    @staticmethod
    def __new__(
        cls: type[CudaTensor], memory: DeviceMemory, shape: tuple[int, ...], dtype: torch.dtype, offset: int = 0
    ) -> CudaTensor:
        tensor: CudaTensor = torch.Tensor._make_subclass(cls, torch.empty(shape, dtype=dtype))
        tensor.memory, tensor.offset, tensor.is_gone = memory, offset, False
        return tensor

    @classmethod
    def filled(cls, memory: DeviceMemory, value: torch.Tensor, offset: int = 0) -> CudaTensor:
        memory.write(offset, value.numpy().tobytes())
        return cls(memory, tuple(value.shape), value.dtype, offset)

    @property
    def is_cuda(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.memory.address + self.offset

    def untyped_storage(self) -> Any:
        return CudaStorage(self.memory)

    def detach(self) -> Any:
        return self

    def resolve_neg(self) -> Any:
        return self

    def contiguous(self, *_: Any, **__: Any) -> Any:
        return self

    def cpu(self, *_: Any, **__: Any) -> torch.Tensor:
        if self.is_gone:
            raise RuntimeError("CUDA error: of a test")
        raw = bytearray(self.memory.read(self.offset, self.nbytes))
        return torch.frombuffer(raw, dtype=self.dtype).reshape(tuple(self.shape))


@pytest.mark.parametrize("is_registered", [False, True])
def test_a_tensor_is_read_into_a_gpu(any_store: Store, gpu: DeviceMemory, is_registered: bool) -> None:
    memory = gpu if is_registered else DeviceMemory(MIB)
    stored = torch.arange(6000, dtype=torch.float32).reshape(60, 100)
    assert any_store.put_tensor("t", stored) == 0
    target: Any = CudaTensor(memory, (60, 100), torch.float32)
    assert any_store.get_tensor_into_cuda("t", target) == 0
    assert memory.read(0, stored.nbytes) == stored.numpy().tobytes()
    wrong: list[Any] = [CudaTensor(memory, (100, 60), torch.float32), CudaTensor(memory, (60, 100), torch.int32)]
    short: Any = CudaTensor(memory, (60, 99), torch.float32)
    keys = ["t", "t", "t", "none", "t"]
    assert any_store.batch_get_tensor_into_cuda(keys, [*wrong, short, target, target]) == [-600, -600, -600, -704, 0]
    assert any_store.put("text", content("text", len(stored.numpy().tobytes()))) == 0
    assert any_store.get_tensor_into_cuda("text", target) == -600


def test_tensors_are_not_shown_in_a_gpu(any_store: Store, gpu: DeviceMemory) -> None:
    assert any_store.put_tensor("t", torch.ones(100)) == 0
    assert any_store.get_tensor_into("t", gpu.address, gpu.size) is None
    assert any_store.batch_get_tensor_into(["t"], [gpu.address], [gpu.size]) == [-600]
    assert any_store.put_tensor_from("other", gpu.address, 1000) == -600
    assert any_store.get_tensor_with_parallelism_into("t", gpu.address, gpu.size) is None


def copies_to_host(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shapes of the tensors that torch copied to the host."""
    copied: list[str] = []
    cpu = CudaTensor.cpu

    def noting(tensor: CudaTensor, *arguments: Any) -> torch.Tensor:
        copied.append(str(tuple(tensor.shape)))
        return cpu(tensor, *arguments)

    monkeypatch.setattr(CudaTensor, "cpu", noting)
    return copied


@pytest.mark.parametrize("is_registered", [False, True])
def test_a_tensor_is_stored_from_a_gpu(
    any_store: Store, gpu: DeviceMemory, is_registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copies_to_host(monkeypatch)
    memory = gpu if is_registered else DeviceMemory(MIB)
    values = [torch.arange(6000, dtype=torch.float32).reshape(60, 100) + number for number in range(4)]
    tensors: list[Any] = [CudaTensor.filled(memory, value, i * 30_000) for i, value in enumerate(values)]
    assert any_store.put_tensor("one", tensors[0]) == 0
    # One tensor of the batch appears twice, one is on the host, and one item is no tensor.
    keys = ["a", "b", "c", "d", "e"]
    batch: list[Any] = [tensors[1], tensors[1], values[2], None, tensors[3]]
    assert any_store.batch_put_tensor(keys, batch) == [0, 0, 0, -600, 0]
    assert any_store.upsert_tensor("one", tensors[3]) == 0
    assert any_store.batch_upsert_tensor(["a"], [tensors[2]]) == [0]
    found = any_store.batch_get_tensor(["one", "a", "b", "c", "e"])
    for tensor, number in zip(found, (3, 2, 1, 2, 3), strict=True):
        assert tensor is not None
        assert torch.equal(tensor, values[number])
    assert copied == []
    if not is_registered:
        assert any_store.register_buffer(memory.address, memory.size) == 0, "nothing stays registered"
        assert any_store.unregister_buffer(memory.address) == 0


def test_a_tensor_that_cannot_be_registered_is_copied_first(
    any_store: Store, gpu: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copies_to_host(monkeypatch)
    memory = DeviceMemory(MIB)
    value = torch.arange(300, dtype=torch.int64)
    tensor: Any = CudaTensor.filled(memory, value)
    # Part of the tensor's storage is registered already, so the whole of it cannot be.
    assert any_store.register_buffer(memory.address, 8) == 0
    assert any_store.put_tensor("t", tensor) == 0
    assert copied == ["(300,)"]
    stored = any_store.get_tensor("t")
    assert stored is not None
    assert torch.equal(stored, value)
    tensor.is_gone = True
    assert any_store.batch_put_tensor(["gone", "good"], [tensor, value]) == [-600, 0]
    assert any_store.unregister_buffer(memory.address) == 0


def test_a_tensor_beside_a_part_that_is_registered_needs_no_copy(
    any_store: Store, gpu: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copies_to_host(monkeypatch)
    memory = DeviceMemory(MIB)
    assert any_store.register_buffer(memory.address, MIB // 2) == 0
    value = torch.arange(300, dtype=torch.int64)
    tensor: Any = CudaTensor.filled(memory, value, MIB // 2)
    assert any_store.put_tensor("t", tensor) == 0
    assert copied == []
    target: Any = CudaTensor(memory, (300,), torch.int64, MIB // 2 + 8192)
    assert any_store.get_tensor_into_cuda("t", target) == 0
    assert memory.read(MIB // 2 + 8192, value.nbytes) == value.numpy().tobytes()
    assert any_store.register_buffer(memory.address + MIB // 2, MIB // 2) == 0, "nothing stays registered"
    assert any_store.unregister_buffer(memory.address + MIB // 2) == 0
    assert any_store.unregister_buffer(memory.address) == 0


def test_threads_store_one_tensor_of_a_gpu_at_once(any_store: Store, gpu: DeviceMemory) -> None:
    memory = DeviceMemory(MIB)
    value = torch.arange(6000, dtype=torch.float32)
    tensor: Any = CudaTensor.filled(memory, value)
    codes: list[int] = []

    def work(number: int) -> None:
        for round_ in range(20):
            codes.append(any_store.upsert_tensor(f"t{number}-{round_ % 2}", tensor))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 80
    assert any_store.register_buffer(memory.address, memory.size) == 0, "nothing stays registered"
    assert any_store.unregister_buffer(memory.address) == 0
