"""Copies tensors between the store and files in the safetensors format."""

from __future__ import annotations

import importlib
import os
from typing import Any

from mooncake._values.tensor.argument import FILE_NOT_FOUND, INVALID_PARAMS, refuse, text, warn, wrong
from mooncake._values.tensor.dtype import Tensor, torch_module
from mooncake._values.tensor.native import NativeStore, is_set_up
from mooncake._values.tensor.plain import get_many, store_tensor
from mooncake._values.tensor.write import Writer


def _safetensors() -> tuple[Any, type[Exception]]:
    """The module `safetensors.torch`, and the error that it raises for files of another format.

    Raises ImportError that says what to install if it is missing.
    """
    torch_module()
    try:
        return importlib.import_module("safetensors.torch"), importlib.import_module("safetensors").SafetensorError
    except ImportError as error:
        message = "files of tensors need the package safetensors: pip install safetensors"
        raise ImportError(message, name="safetensors") from error


def _path(function: str, value: object) -> str:
    if isinstance(value, os.PathLike):
        return text(function, "file_name", os.fspath(value))
    return text(function, "file_name", value)


class SafetensorsCalls:
    """The methods that copy one tensor between the store and a file."""

    def save_tensor_to_safetensor(self: NativeStore, key: str, file_name: str | None = None) -> int:
        """Writes the tensor under the key to a file, under the key as its name. The file's name is the key by default.

        Returns 0; -1100 if there is no such tensor; -600 if the file cannot be written or the store is not set up.
        Raises ImportError without torch and safetensors.
        """
        name = "save_tensor_to_safetensor"
        key = text(name, "key", key)
        path = key if file_name is None else _path(name, file_name)
        if not is_set_up(self):
            return INVALID_PARAMS
        module, format_error = _safetensors()
        tensor = get_many(self, [key])[0]
        if tensor is None:
            warn("%s: no tensor for %r", name, key)
            return FILE_NOT_FOUND
        try:
            module.save_file({key: tensor}, path)
        except (OSError, ValueError, RuntimeError, KeyError, format_error) as error:
            return refuse(name, str(error))
        return 0

    def load_tensor_from_safetensor(
        self: NativeStore, key: str | None = None, file_name: str | None = None
    ) -> Tensor | None:
        """Stores a tensor from the file under `key`: the tensor named `key` or, if the file has none, its first
        tensor.

        Without `key`, the file's name is the key. `file_name` is required: without it, raises TypeError.

        Returns the tensor; None if the file cannot be read or has no tensor, or the tensor cannot be stored. Raises
        ImportError without torch and safetensors.
        """
        name = "load_tensor_from_safetensor"
        if file_name is None:
            raise wrong(name, "file_name", "a str", file_name)
        path = _path(name, file_name)
        wanted = None if key is None else text(name, "key", key)
        if not is_set_up(self):
            return None
        module, format_error = _safetensors()
        try:
            loaded: dict[str, Tensor] = module.load_file(path)
        except (OSError, ValueError, RuntimeError, KeyError, format_error) as error:
            refuse(name, str(error))
            return None
        if not loaded:
            refuse(name, f"{path!r} holds no tensor")
            return None
        if wanted is not None and wanted not in loaded:
            warn("%s: no tensor %r in %r; its first is taken", name, wanted, path)
        first = next(iter(loaded))
        tensor = loaded[wanted if wanted is not None and wanted in loaded else first]
        return tensor if store_tensor(Writer(self, name), wanted or path, tensor) == 0 else None
