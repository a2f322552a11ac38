"""Names that load their module when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


class Method:
    """A method that a class of another module has. On its first use, that method takes its place.

    `inspect`, `help()` and `super()` use it, too, and see the method itself.
    """

    def __init__(self, module: str, cls: str) -> None:
        self._module = module
        self._class = cls

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = vars(getattr(importlib.import_module(self._module), self._class))[self._name]
        setattr(self._owner, self._name, method)
        return method.__get__(instance, owner)


def names(module: dict[str, Any], places: Mapping[str, tuple[str, str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a module with these globals: `places` has the module, and the name there, of each name."""

    def attribute(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        place, original = places[name]
        module[name] = getattr(importlib.import_module(place), original)
        return module[name]

    return attribute
