"""The configuration of a write, when one structured object has many keys. All keys join the one group of the object."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from typing import Any

from mooncake._native import ReplicateConfig

_ONE_GROUP = (
    "structured object store config.group_ids must contain exactly one logical group id; "
    "it is expanded across internal Mooncake keys"
)


def config_for_keys(config: Any, key_count: int) -> Any:
    """The configuration for a write of `key_count` keys: its `group_ids` repeats the group once per key.

    Never changes the caller's configuration. Raises ValueError if it names several groups.
    """
    raw = getattr(config, "group_ids", None)
    if config is None or key_count <= 0 or raw is None:
        return config
    group_ids = [raw] if isinstance(raw, str) else list(raw)
    if len(group_ids) > 1:
        raise ValueError(_ONE_GROUP)
    if key_count == 1 and group_ids and not isinstance(raw, str):
        return config
    expanded = _copied(config)
    expanded.group_ids = group_ids * key_count or None
    return expanded


def config_in_group(config: Any, group_id: str | None) -> Any:
    """The configuration for a write into `group_id`; for None, the configuration itself.

    Raises ValueError if the configuration names another group.
    """
    if group_id is None:
        return config
    configured = getattr(config_for_keys(config, 1), "group_ids", None)
    if configured and configured[0] and configured[0] != group_id:
        raise ValueError("config.group_ids conflicts with the DataProto storage group")
    grouped = ReplicateConfig() if config is None else _copied(config)
    grouped.group_ids = [group_id]
    return grouped


def new_group_id(config: Any) -> str | None:
    """The group id for a new object: the group that the configuration names, otherwise a new id.

    None if the configuration names the empty group, which means no group. Raises ValueError if it names several
    groups, or a group that is no text.
    """
    raw = getattr(config, "group_ids", None)
    if raw is None:
        return _fresh_group_id()
    try:
        group_ids = [raw] if isinstance(raw, str) else list(raw)
    except TypeError as error:
        raise ValueError("structured object store config.group_ids must contain strings") from error
    if len(group_ids) > 1:
        raise ValueError(_ONE_GROUP)
    if not group_ids or group_ids[0] is None:
        return _fresh_group_id()
    if not isinstance(group_ids[0], str):
        raise ValueError("structured object store config.group_ids must contain strings")
    return group_ids[0] or None


def call_write(write: Callable[..., Any], *arguments: Any, config: Any) -> Any:
    """Calls `write`. Passes `config` only if it is not None, because some stores do not take it."""
    return write(*arguments) if config is None else write(*arguments, config=config)


def _fresh_group_id() -> str:
    return f"structured-{uuid.uuid4().hex}"


def _copied(config: Any) -> Any:
    try:
        return copy.copy(config)
    except TypeError:
        pass
    try:
        copied = type(config)()
    except Exception as error:
        raise TypeError("structured object store config must be copyable or default-constructible") from error
    for name in _settable(config):
        try:
            setattr(copied, name, getattr(config, name))
        except (AttributeError, TypeError, ValueError) as error:
            raise TypeError(f"structured object store config field {name!r} is not writable") from error
    return copied


def _settable(config: Any) -> list[str]:
    """The attributes of a configuration that cannot be copied: instance attributes, and properties with a setter."""
    names = [name for name in dir(type(config)) if hasattr(getattr(type(config), name, None), "__set__")]
    return [name for name in dict.fromkeys([*names, *getattr(config, "__dict__", {})]) if not name.startswith("_")]
