"""The configuration of a store, from a JSON file or from environment variables. Services and integrations read it.

If a file is named, by argument or by `MOONCAKE_CONFIG_PATH`, the other variables are not read.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["DEFAULT_GLOBAL_SEGMENT_SIZE", "DEFAULT_LOCAL_BUFFER_SIZE", "MooncakeConfig"]

logger = logging.getLogger(__name__)

DEFAULT_GLOBAL_SEGMENT_SIZE = 3_355_443_200
DEFAULT_LOCAL_BUFFER_SIZE = 1 << 30
DEFAULT_CLIENT_HTTP_PORT = 9300

MAX_FILE_BYTES = 1 << 20
MAX_SIZE_BYTES = (1 << 63) - 1
CONFIG_PATH_VARIABLE = "MOONCAKE_CONFIG_PATH"
MASTER_VARIABLE = "MOONCAKE_MASTER"

# The first unit with which a text ends is its unit. Longer units therefore come first, and "b" last.
_UNITS = {
    **{
        letter + end: 1 << shift
        for end in ("ib", "b", "i", "")
        for letter, shift in (("k", 10), ("m", 20), ("g", 30), ("t", 40))
    },
    "b": 1,
}
_TRUE = {"true", "1", "yes", "on", "enable"}
_FALSE = {"false", "0", "no", "off", "disable", ""}

# Protocols of the C++ package. The store decides which of them this build serves.
_KNOWN_PROTOCOLS = frozenset(
    {
        "ascend",
        "barex",
        "cxl",
        "efa",
        "hip",
        "maca",
        "musa",
        "nvlink",
        "nvlink_intra",
        "nvmeof",
        "rdma",
        "rpc_only",
        "sunrise_link",
        "tcp",
        "ub",
        "ubshmem",
    }
)


def _parse_number(text: str) -> int:
    """A whole number of any length, or a decimal number without its fraction."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a number") from None


def _parse_segment_size(value: object) -> int:
    """A number of bytes, from a number or a text like "512MB", "1.5 gb", "4GiB" or "4096". Units are powers of 1024.

    Raises ValueError for a text that is empty, has no number or is too large, and TypeError for any other type.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"Invalid segment size: {value!r} is neither a number nor text")
    if not isinstance(value, str):
        return _bounded(_parse_number(str(value)), value)
    text = value.strip().lower()
    if not text:
        raise ValueError("Invalid segment size: the text is empty")
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    number = text.removesuffix(unit).strip()
    if not number:
        raise ValueError(f"Invalid segment size: {value!r} has a unit and no number")
    scale = _UNITS.get(unit, 1)
    try:
        return _bounded(int(number) * scale, value)
    except ValueError:
        pass
    try:
        return _bounded(int(float(number) * scale), value)
    except (ValueError, OverflowError):
        raise ValueError(f"Invalid segment size: {value!r}") from None


def _bounded(size: int, value: object) -> int:
    if abs(size) > MAX_SIZE_BYTES:
        raise ValueError(f"Invalid segment size: {value!r} is too large")
    return size


def _parse_size(value: object) -> int:
    """As `_parse_segment_size`; also raises ValueError for a negative size."""
    size = _parse_segment_size(value)
    if size < 0:
        raise ValueError(f"{value!r} is negative")
    return size


def _parse_bool(value: object) -> bool:
    """A bool, from a bool, a number, None, or a word like "yes" or "off". Raises ValueError for anything else."""
    if value is None:
        return False
    if isinstance(value, (bool, int, float)):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"Invalid boolean value: {value!r}")


def _parse_port(value: object) -> int:
    """A TCP port from 0 to 65535, from a whole number or its text. Raises ValueError for anything else."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            port = int(value)
        except ValueError:
            port = -1
        if 0 <= port <= 65_535:
            return port
    raise ValueError(f"{value!r} is not a port from 0 to 65535")


def _parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be text, got {value!r}")
    return value


def _parse_name(value: object) -> str:
    """A text. Raises ValueError if it is blank or not a text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a non-empty string, got {value!r}")
    return value


def _parse_protocol(value: object) -> str:
    """The protocol's name in lower case, as stores compare it. Accepts unknown names; raises ValueError for a blank
    one.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"Invalid protocol: {value!r}; name one, such as 'tcp' or 'rdma'")
    return value.strip().lower()


@dataclass(frozen=True)
class _Source:
    """The source of a field: its environment variable, the parser of its value, and the default for a missing value."""

    variable: str
    parse: Callable[[object], Any]
    default: Any = None
    required: bool = False


# The keys are the fields of `MooncakeConfig`, and the keys of the file.
_SOURCES = {
    "local_hostname": _Source("MOONCAKE_LOCAL_HOSTNAME", _parse_name, "localhost", required=True),
    "metadata_server": _Source("MOONCAKE_TE_META_DATA_SERVER", _parse_name, "P2PHANDSHAKE", required=True),
    "global_segment_size": _Source("MOONCAKE_GLOBAL_SEGMENT_SIZE", _parse_size, DEFAULT_GLOBAL_SEGMENT_SIZE),
    "local_buffer_size": _Source("MOONCAKE_LOCAL_BUFFER_SIZE", _parse_size, DEFAULT_LOCAL_BUFFER_SIZE),
    "protocol": _Source("MOONCAKE_PROTOCOL", _parse_protocol, "tcp"),
    "device_name": _Source("MOONCAKE_DEVICE", _parse_text, ""),
    "master_server_address": _Source(MASTER_VARIABLE, _parse_name, required=True),
    "enable_ssd_offload": _Source("MOONCAKE_OFFLOAD_ENABLED", _parse_bool, False),
    "ssd_offload_path": _Source("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH", _parse_text, ""),
    "tenant_id": _Source("MOONCAKE_TENANT_ID", _parse_text, "default"),
    "enable_client_http_server": _Source("MOONCAKE_ENABLE_CLIENT_HTTP_SERVER", _parse_bool, False),
    "client_http_port": _Source("MOONCAKE_CLIENT_HTTP_PORT", _parse_port, DEFAULT_CLIENT_HTTP_PORT),
    "segment_path": _Source("MOONCAKE_SEGMENT_PATH", _parse_text, ""),
    "segment_reset": _Source("MOONCAKE_SEGMENT_RESET", _parse_bool, False),
    "domain": _Source("MOONCAKE_DOMAIN", _parse_text, ""),
}


def _parse(name: str, value: object, where: str) -> Any:
    """The parsed value of a field. Raises ValueError that starts with `where`, the place of the value."""
    try:
        return _SOURCES[name].parse(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}={value!r}: {error}") from error


@dataclass
class MooncakeConfig:
    """The arguments of a store's `setup`. Sizes are in bytes; with `global_segment_size` 0 the store lends no memory.

    Raises ValueError for a blank name or protocol, a negative size, or a port out of range.
    """

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: str | None
    master_server_address: str
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"
    enable_client_http_server: bool = False
    client_http_port: int = DEFAULT_CLIENT_HTTP_PORT
    segment_path: str = ""
    segment_reset: bool = False
    domain: str = ""

    def __post_init__(self) -> None:
        for name in ("local_hostname", "metadata_server", "master_server_address", "client_http_port"):
            _parse(name, getattr(self, name), name)
        for name in ("global_segment_size", "local_buffer_size"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise ValueError(f"Invalid {name}: {size!r} is not a non-negative number of bytes")
        self.protocol = _parse_protocol(self.protocol)
        if self.protocol not in _KNOWN_PROTOCOLS:
            known = ", ".join(sorted(_KNOWN_PROTOCOLS))
            logger.warning("Unrecognised protocol %r is left to the store; known are %s", self.protocol, known)

    def with_overrides(self, overrides: Mapping[str, object], where: str = "") -> MooncakeConfig:
        """A copy with some fields replaced. Values may be texts, as in a file or a variable.

        Messages put `where` before the field's name. Raises ValueError for an unknown field or a wrong value.
        """
        return replace(self, **_parse_overrides(overrides, where))

    @staticmethod
    def from_file(
        file_path: str | os.PathLike[str], overrides: Mapping[str, object] | None = None, where: str = ""
    ) -> MooncakeConfig:
        """Reads the configuration from a file with a JSON object. A null value means the default, except for required
        keys. An unknown key is ignored, with a warning in the log. A path may begin with `~/`.

        Fields in `overrides` replace those of the file. Their values may be texts, as in a file. Messages about them
        put `where` before the field's name.

        Raises OSError if the file cannot be read, and ValueError that names the file and the wrong or missing key, or
        the wrong override.
        """
        path = os.path.expanduser(os.fspath(file_path))
        settings = _read_object(path)
        _warn_of_unknown(path, settings)
        values = _parse_overrides(overrides, where)
        for name, source in _SOURCES.items():
            if name in values:
                continue
            if source.required and name not in settings:
                raise ValueError(f"{path}: Missing required config field: {name}")
            value = settings.get(name)
            missing = value is None and not source.required
            values[name] = source.default if missing else _parse(name, value, f"{path}: {name}")
        return MooncakeConfig(**values)

    @staticmethod
    def load_from_env(overrides: Mapping[str, object] | None = None, where: str = "") -> MooncakeConfig:
        """Reads the configuration from the file that `MOONCAKE_CONFIG_PATH` names. If it is not set, reads it from
        environment variables, of which `MOONCAKE_MASTER` is required. `overrides` and `where` are those of `from_file`.

        Raises ValueError that names the wrong variable and its value, or the exceptions of `from_file`.
        """
        path = os.environ.get(CONFIG_PATH_VARIABLE)
        if path:
            return MooncakeConfig.from_file(path, overrides, where)
        values = _parse_overrides(overrides, where)
        if not os.environ.get(MASTER_VARIABLE) and "master_server_address" not in values:
            raise ValueError(
                f"Neither the environment variable '{CONFIG_PATH_VARIABLE}' nor '{MASTER_VARIABLE}' is set."
            )
        for name, source in _SOURCES.items():
            if name in values:
                continue
            value = os.environ.get(source.variable)
            values[name] = source.default if value is None else _parse(name, value, source.variable)
        return MooncakeConfig(**values)


def _parse_overrides(overrides: Mapping[str, object] | None, where: str) -> dict[str, Any]:
    values = {}
    for name, value in (overrides or {}).items():
        if name not in _SOURCES:
            raise ValueError(f"{where}{name}: no such setting; there are {', '.join(_SOURCES)}")
        values[name] = _parse(name, value, f"{where}{name}")
    return values


def _warn_of_unknown(path: str, settings: Mapping[str, object]) -> None:
    """Logs a warning for each unknown key. It is no error, because other programs use the same files."""
    for name in settings:
        if name not in _SOURCES:
            nearest = difflib.get_close_matches(str(name), _SOURCES, 1, 0.8)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            logger.warning("%s: there is no setting %r, and it changes nothing%s", path, name, hint)


def _read_object(path: str) -> dict[str, Any]:
    """The JSON object in a file. Raises OSError, or ValueError that names the file."""
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"{path}: longer than {MAX_FILE_BYTES} bytes")
    try:
        settings = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: must hold a JSON object, holds {type(settings).__name__}")
    return settings
