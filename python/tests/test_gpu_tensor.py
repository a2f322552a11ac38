"""Tensors that are read into a GPU, by the double of its driver."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cluster import MIB, content
from gpu import DeviceMemory
from mooncake.store import MooncakeDistributedStore

Store = MooncakeDistributedStore


class CudaTensor:
    """What the calls look at of a tensor in a GPU."""

    is_cuda = True

    def __init__(self, memory: DeviceMemory, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.memory, self.shape, self.dtype = memory, shape, dtype
        self.nbytes = torch.empty(shape, dtype=dtype).nbytes

    def is_contiguous(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.memory.address


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
