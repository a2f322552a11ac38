"""The pages of the Python API: what `help()` says, by module and class.

Signatures come from the installed package. The groups of the store's methods are the comments of `_native.pyi`.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reference.page import page

GROUP = re.compile(r"^    # (\w[\w ]*)$|^    def (\w+)\(", re.MULTILINE)
# By file: the title of the page, and the groups of methods that it has.
PAGES = {
    "python_opening.md": ("Python: open, close, memory", ("Lifecycle", "Memory")),
    "python_writing.md": ("Python: write", ("Writing",)),
    "python_reading.md": ("Python: read", ("Reading",)),
    "python_looking.md": ("Python: look, remove, tasks", ("Looking", "Removing", "Background tasks")),
    "python_segments.md": ("Python: segments", ("Segments",)),
    "python_tensors.md": ("Python: tensors", ("Tensors",)),
    "python_sharded_tensors.md": ("Python: sharded tensors", ("Sharded tensors",)),
}
# What the native part names as its modules, and the enumerations beside it.
NATIVE = ("mooncake.store", "mooncake._native", "mooncake._enums")
# Methods that read no bytes of objects.
LOOKING = re.compile(r"exist|probe|prefix|replica_desc|get_size|query|prefetch")
SHARDED = re.compile(r"_tp\b|_tp_|parallelism")


def signature(name: str, call: Any) -> str:
    """How a function or method is called, without types, which `help()` and editors show."""
    try:
        found = inspect.signature(call)
    except ValueError:
        return f"{name}(...)"
    parts = [it.replace(annotation=inspect.Parameter.empty) for it in found.parameters.values() if it.name != "self"]
    return f"{name}{found.replace(parameters=parts, return_annotation=inspect.Signature.empty)}".replace("(/, ", "(")


def text(value: Any) -> str:
    """The documentation of an object. Headings are marked down, since a page has its own."""
    return inspect.cleandoc(value.__doc__ or "")


def groups(stub: str, cls: str) -> dict[str, str]:
    """The group of each method of a class of the stub."""
    body = stub.split(f"class {cls}:\n", 1)[1].split("\nclass ", 1)[0]
    found, group = {}, ""
    for title, method in GROUP.findall(body):
        group = title or group
        if method and not method.startswith("_"):
            found[method] = group
    return found


def public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def member(cls: type, name: str) -> str:
    """A method or an attribute of a class, with what it does."""
    value = inspect.getattr_static(cls, name)
    if isinstance(value, property) or inspect.isgetsetdescriptor(value):
        return f"### `{name}`\n\n{text(value) or 'An attribute.'}"
    called = getattr(cls, name)
    return f"### `{name}`\n\n```python\n{signature(name, called)}\n```\n\n{text(called)}"


def members(cls: type, names: Iterable[str]) -> str:
    return "\n\n".join(member(cls, name) for name in names)


def attributes(cls: type) -> str:
    """The attributes and methods of a small class, or the values of an enumeration, as a list."""
    if issubclass(cls, enum.Enum):
        return "\n".join(f"- `{it.name}` = {it.value}" for it in cls)
    lines = []
    for name in public(cls):
        value = inspect.getattr_static(cls, name)
        is_attribute = isinstance(value, property) or inspect.isgetsetdescriptor(value)
        shown = name if is_attribute or not callable(getattr(cls, name)) else signature(name, getattr(cls, name))
        about = " ".join(text(value if is_attribute else getattr(cls, name)).split("\n\n")[0].split())
        lines.append(f"- `{shown}`" + (f": {about}" if about else ""))
    return "\n".join(lines)


def by_page(stub: str, store: type) -> dict[str, dict[str, list[str]]]:
    """The methods of the store: by the file of their page, and by their group."""
    of = groups(stub, "MooncakeDistributedStore")
    found: dict[str, dict[str, list[str]]] = {file: {} for file in PAGES}
    for name in public(store):
        group = of.get(name, "Lifecycle")
        if "tensor" in name:
            group = "Sharded tensors" if SHARDED.search(name) else "Tensors"
        elif group == "Reading" and LOOKING.search(name):
            group = "Looking"
        file = next(file for file, (_, names) in PAGES.items() if group in names)
        found[file].setdefault(group, []).append(name)
    return found


def store_pages(root: Path) -> dict[str, str]:
    """The methods of the store, on a page for each subject."""
    store = importlib.import_module("mooncake.store").MooncakeDistributedStore
    pages = {}
    for file, by_group in by_page((root / "python/mooncake/_native.pyi").read_text(), store).items():
        title, names = PAGES[file]
        parts = ["Methods of `mooncake.store.MooncakeDistributedStore`. `help()` says the same."]
        for group in names:
            parts += [f"## {group}", members(store, by_group[group])]
        pages[file] = page(title, *parts)
    return pages


def types() -> dict[str, str]:
    """Two pages of the other classes and functions of `mooncake.store`: the native ones, and those in Python."""
    store = importlib.import_module("mooncake.store")
    # `dir` has the names that load on first use, too.
    named = (getattr(store, name) for name in dir(store) if not name.startswith("__"))
    values = {id(value): value for value in named if is_shown(value)}
    pages = {}
    for file, title, is_native in (
        ("python_types.md", "Python: types of the store", True),
        ("python_more_types.md", "Python: pools of buffers, tensors, tables", False),
    ):
        parts = ["Classes and functions of `mooncake.store`."]
        for value in sorted(values.values(), key=lambda it: str(it.__name__)):
            if (value.__module__ in NATIVE) == is_native:
                parts += entry(value)
        pages[file] = page(title, *parts)
    return pages


def is_shown(value: Any) -> bool:
    """Whether the pages of types have it: the store and the methods that it inherits have pages of their own."""
    name = getattr(value, "__name__", "_")
    return callable(value) and not name.startswith("_") and name not in ("MooncakeDistributedStore", "TensorCalls")


def entry(value: Any) -> list[str]:
    """A class with its attributes, or a function."""
    name = str(value.__name__)
    if inspect.isclass(value):
        return [f"## {name}", text(value), attributes(value)]
    return [f"## {name}", f"`{signature(name, value)}`", text(value)]


def engine() -> str:
    """The page of `mooncake.engine`."""
    cls = importlib.import_module("mooncake.engine").TransferEngine
    return page(
        "Python: mooncake.engine",
        "`TransferEngine` moves bytes between registered memory, without a master. `help()` has more.",
        text(cls),
        "## Methods",
        attributes(cls),
    )
