"""A tensor between the store and a safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mooncake.store import MooncakeDistributedStore

torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")
Store = MooncakeDistributedStore


def same(left: Any, right: Any) -> bool:
    return left is not None and left.dtype == right.dtype and bool(torch.equal(left, right))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_there_and_back(store: Store, tmp_path: Path, dtype: Any) -> None:
    path = str(tmp_path / "file")
    tensor = torch.randint(0, 2, (3, 4)).to(dtype)
    assert store.put_tensor("k", tensor) == 0
    assert store.save_tensor_to_safetensor("k", path) == 0
    assert list(safetensors.load_file(path)) == ["k"]
    assert store.remove("k", force=True) == 0
    loaded: Any = store.load_tensor_from_safetensor("k", path)
    stored: Any = store.get_tensor("k")
    for found in (loaded, stored):
        assert (found.dtype, found.tolist()) == (dtype, tensor.tolist())


def test_the_names_that_are_taken(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = torch.ones(2), torch.zeros(3)
    assert store.put_tensor("k", one) == 0
    assert store.save_tensor_to_safetensor("k") == 0, "the key is the name of the file"
    assert same(store.load_tensor_from_safetensor(file_name="k"), one)
    safetensors.save_file({"a": one, "b": two}, "both")
    assert same(store.load_tensor_from_safetensor("b", "both"), two)
    assert same(store.load_tensor_from_safetensor("c", "both"), one)
    assert same(store.load_tensor_from_safetensor(file_name="both"), one)
    assert [store.is_exist(key) for key in ("a", "b", "c", "both")] == [0, 1, 1, 1]
    assert same(store.load_tensor_from_safetensor("path", tmp_path / "both"), one)  # type: ignore[arg-type]


def test_what_is_not_there(store: Store, tmp_path: Path) -> None:
    assert store.put("bytes", b"no tensor") == 0
    path = tmp_path / "file"
    assert store.save_tensor_to_safetensor("none", str(path)) == -1100
    assert store.save_tensor_to_safetensor("bytes", str(path)) == -1100
    assert not path.exists()
    assert store.put_tensor("k", torch.ones(2)) == 0
    assert store.save_tensor_to_safetensor("k", str(tmp_path / "none" / "file")) == -600
    assert store.load_tensor_from_safetensor("k", str(path)) is None


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}"], ids=["empty", "short", "noise", "none"]
)
def test_a_file_that_holds_no_tensor(store: Store, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert store.load_tensor_from_safetensor("k", str(path)) is None
    assert store.is_exist("k") == 0


def test_a_tensor_that_the_store_cannot_hold(store: Store, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    safetensors.save_file({"k": torch.zeros((1,) * 9)}, path)
    assert store.load_tensor_from_safetensor("k", path) is None
    assert store.is_exist("k") == 0
