"""`import mooncake.store` loads the store. Tensors, structured objects and tables load when they are first used."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest
from mooncake import _tensor_calls, store
from mooncake._values.tensor.parallelism import ParallelismCalls
from mooncake._values.tensor.plain import PlainCalls
from mooncake._values.tensor.safetensors import SafetensorsCalls
from mooncake._values.tensor.tp import TpCalls

STORE = {
    "mooncake",
    "mooncake._enums",
    "mooncake._first_use",
    "mooncake._native",
    "mooncake._tensor_calls",
    "mooncake.buffer_pool",
    "mooncake.store",
}
VALUES = "mooncake._values"


def loaded_by(code: str) -> set[str]:
    """The modules of the package that a new interpreter has after this code."""
    shown = (
        f"{code}\nimport json, sys\nprint(json.dumps([name for name in sys.modules if name.startswith('mooncake')]))"
    )
    run = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_an_import_of_the_store_loads_the_store_alone() -> None:
    assert loaded_by("import mooncake.store") == STORE


def test_the_names_of_the_store_are_there_without_loading_what_few_need() -> None:
    code = "import mooncake.store as s; assert {'get_tensor', 'put'} <= set(dir(s.MooncakeDistributedStore)); dir(s)"
    assert loaded_by(code) == STORE


def test_a_table_loads_no_tensors() -> None:
    assert loaded_by("from mooncake.store import EngramStore") == STORE | {VALUES, f"{VALUES}.engram"}


@pytest.mark.parametrize(
    ("use", "module"),
    [
        ("from mooncake.store import *", "tensor.target"),
        ("import mooncake.store as s; s.TensorParallelism()", "tensor.target"),
        ("import mooncake.store as s; s.MooncakeDistributedStore().get_tensor('key')", "tensor.plain"),
        ("import mooncake.store as s; s.MooncakeDistributedStore.put_tensor_with_tp", "tensor.tp"),
        ("import mooncake.structured_object_store", "structured.transfer"),
        ("from mooncake.dataproto_catalog import DataProtoCatalog", "structured.catalog"),
    ],
)
def test_what_is_used_is_loaded(use: str, module: str) -> None:
    assert f"{VALUES}.{module}" in loaded_by(use)


def test_each_tensor_method_is_in_the_table_and_found_by_subclasses() -> None:
    class Subclass(store.MooncakeDistributedStore):
        def get_tensor(self, key: str) -> object:
            return super().get_tensor(key)

    for cls in (PlainCalls, TpCalls, ParallelismCalls, SafetensorsCalls):
        module = cls.__module__.rpartition(".")[2]
        names = [name for name in vars(cls) if not name.startswith("_")]
        named = _tensor_calls.METHODS[module]
        assert (named[0], sorted(named[1].split())) == (cls.__name__, sorted(names))
        for name in names:
            assert getattr(_tensor_calls.TensorCalls, name) is vars(cls)[name]
    assert Subclass().get_tensor("key") is None


def test_a_name_that_the_store_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'mooncake\.store' has no attribute 'EngramStor'"):
        store.EngramStor  # type: ignore[attr-defined]  # noqa: B018
    assert set(store.__all__) <= set(dir(store))


def test_callers_replace_the_copy_into_leased_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    objects = importlib.import_module("mooncake.structured_object_store")
    monkeypatch.setattr(objects, "_concat_arrays_into", lambda *_: 7)
    with pytest.raises(RuntimeError, match="wrote 7 bytes, expected 9"):
        objects._STEPS.concat_into([], 0, 9)
