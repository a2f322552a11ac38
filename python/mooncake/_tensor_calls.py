"""`TensorCalls`: all tensor methods of a store. They load when one is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooncake import _first_use

if TYPE_CHECKING:
    from mooncake._values.tensor.parallelism import ParallelismCalls
    from mooncake._values.tensor.plain import PlainCalls
    from mooncake._values.tensor.safetensors import SafetensorsCalls
    from mooncake._values.tensor.tp import TpCalls

    class _Calls(PlainCalls, TpCalls, ParallelismCalls, SafetensorsCalls): ...

else:
    _Calls = object

# By module of `mooncake._values.tensor`: its class, and the names of the methods that the class has.
METHODS = {
    "plain": (
        "PlainCalls",
        "put_tensor batch_put_tensor put_tensor_from batch_put_tensor_from pub_tensor batch_pub_tensor upsert_tensor "
        "batch_upsert_tensor upsert_tensor_from batch_upsert_tensor_from upsert_pub_tensor batch_upsert_pub_tensor "
        "get_tensor batch_get_tensor get_tensor_into batch_get_tensor_into get_tensor_into_cuda "
        "batch_get_tensor_into_cuda",
    ),
    "tp": (
        "TpCalls",
        "put_tensor_with_tp batch_put_tensor_with_tp pub_tensor_with_tp batch_pub_tensor_with_tp "
        "put_tensor_with_tp_from batch_put_tensor_with_tp_from get_tensor_with_tp batch_get_tensor_with_tp "
        "get_tensor_with_tp_into batch_get_tensor_with_tp_into",
    ),
    "parallelism": (
        "ParallelismCalls",
        "put_tensor_with_parallelism batch_put_tensor_with_parallelism put_tensor_with_parallelism_from "
        "batch_put_tensor_with_parallelism_from upsert_tensor_with_parallelism batch_upsert_tensor_with_parallelism "
        "upsert_tensor_with_parallelism_from batch_upsert_tensor_with_parallelism_from get_tensor_with_parallelism "
        "batch_get_tensor_with_parallelism get_tensor_with_parallelism_into batch_get_tensor_with_parallelism_into",
    ),
    "safetensors": ("SafetensorsCalls", "save_tensor_to_safetensor load_tensor_from_safetensor"),
}


class TensorCalls(_Calls):
    """The methods for PyTorch tensors, implemented with a store's methods for memory. Inherit it beside the native
    store.

    The methods import torch when they are called; without torch they raise ImportError.
    """


for _module, (_class, _names) in METHODS.items():
    for _name in _names.split():
        _method = _first_use.Method(f"mooncake._values.tensor.{_module}", _class)
        setattr(TensorCalls, _name, _method)
        _method.__set_name__(TensorCalls, _name)
