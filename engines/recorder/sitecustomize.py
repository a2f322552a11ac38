"""Records each call on the store, in any process that has this folder on its PYTHONPATH.

With MOONCAKE_RECORD=PREFIX each process appends a line per call to PREFIX.<pid>.jsonl, after the call has returned.
Fields: begin (seconds of the clock), pid, store, method, args, kwargs, result, error, thread, ms. Bytes are recorded
as their length, a ReplicateConfig as its fields that differ from the defaults.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
import threading
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

MODULE, CLASS = "mooncake.store", "MooncakeDistributedStore"
PREFIX = os.environ.get("MOONCAKE_RECORD")
LOCK = threading.Lock()


def fields(config: Any) -> dict[str, Any]:
    new = type(config)()
    names = [name for name in dir(config) if not name.startswith("_") and not callable(getattr(config, name))]
    return {name: plain(getattr(config, name)) for name in names if getattr(config, name) != getattr(new, name)}


def plain(value: Any) -> Any:
    """The value as JSON types."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": memoryview(value).nbytes}
    if type(value).__name__ == "ReplicateConfig":
        return {"ReplicateConfig": fields(value)}
    return {type(value).__name__: None}


def write(call: dict[str, Any]) -> None:
    with LOCK, open(f"{PREFIX}.{os.getpid()}.jsonl", "a") as file:
        file.write(json.dumps(call) + "\n")


def recorded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Recorded before the call: callers change one configuration and use it for many puts.
        call: dict[str, Any] = {"begin": time.time(), "pid": os.getpid(), "store": id(self)}
        call.update(method=name, args=plain(args), kwargs=plain(kwargs))
        begin = time.perf_counter()
        try:
            result = method(self, *args, **kwargs)
            call["result"] = plain(result)
            return result
        except BaseException as error:
            call["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            call["ms"] = round((time.perf_counter() - begin) * 1e3, 3)
            call["thread"] = threading.current_thread().name
            write(call)

    record.__doc__, record.__name__ = method.__doc__, name
    return record


def recording(store: type) -> type:
    methods = {
        name: recorded(name, getattr(store, name))
        for name in dir(store)
        if not name.startswith("_") and callable(getattr(store, name))
    }
    return type(store.__name__, (store,), methods)


class Finder:
    """Finds the store's module as Python does, and replaces the store's class by the recording class."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_wrap(module: types.ModuleType) -> None:
            execute(module)
            setattr(module, CLASS, recording(getattr(module, CLASS)))

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


if PREFIX:
    sys.meta_path.insert(0, Finder())
