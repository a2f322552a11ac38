"""The configuration of a store, as the services and the integrations read it: from a JSON file or the environment.

A file wins as a whole: where one is named, by argument or by `MOONCAKE_CONFIG_PATH`, the other variables are not read.
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

# Two letters stand before one, and "b" comes last: the first that fits is the unit.
_UNITS = {
    "kb": 1 << 10,
    "mb": 1 << 20,
    "gb": 1 << 30,
    "tb": 1 << 40,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "b": 1,
}
_TRUE = {"true", "1", "yes", "on", "enable"}
_FALSE = {"false", "0", "no", "off", "disable", ""}

# What callers of the C++ package may ask for. Whether this build has it is for the store to say.
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
    """A whole number of any length, or a decimal one cut down to a whole one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a number") from None


def _parse_segment_size(value: object) -> int:
    """Bytes from a number, or from text with a unit in powers of 1024 such as "512MB", "1.5 gb", "4096".

    Raises ValueError for text that is empty, has no number or is too large, and TypeError for any other type.
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
    """As `_parse_segment_size`, and never negative."""
    size = _parse_segment_size(value)
    if size < 0:
        raise ValueError(f"{value!r} is negative")
    return size


def _parse_bool(value: object) -> bool:
    """A truth value from a bool, a number, or the usual words. Raises ValueError for other words and types."""
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
    """A TCP port from a whole number or its text. Raises ValueError."""
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
    """Text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a non-empty string, got {value!r}")
    return value


def _parse_protocol(value: object) -> str:
    """The name in lower case, as stores compare it; unknown ones too. Raises ValueError if it is blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"Invalid protocol: {value!r}; name one, such as 'tcp' or 'rdma'")
    return value.strip().lower()


@dataclass(frozen=True)
class _Source:
    """Where a field comes from: its environment variable, how its value is read, and what stands for a missing one."""

    variable: str
    parse: Callable[[object], Any]
    default: Any = None
    required: bool = False


# The names are the fields of `MooncakeConfig` and the keys of the file.
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
    """The value of a field; ValueError says where a wrong one stood."""
    try:
        return _SOURCES[name].parse(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}={value!r}: {error}") from error


@dataclass
class MooncakeConfig:
    """What a store is set up with. Sizes are in bytes; `global_segment_size` 0 lends no memory.

    Raises ValueError for a blank name, a blank protocol, a negative size or a port out of range.
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
        """A copy with fields replaced by values, or by text as a file or a variable would hold it.

        `where` stands before the field's name in messages. Raises ValueError for an unknown field or a wrong value.
        """
        unknown = [name for name in overrides if name not in _SOURCES]
        if unknown:
            raise ValueError(f"{where}{unknown[0]}: no such setting; there are {', '.join(_SOURCES)}")
        return replace(self, **{name: _parse(name, value, f"{where}{name}") for name, value in overrides.items()})

    @staticmethod
    def from_file(file_path: str | os.PathLike[str]) -> MooncakeConfig:
        """From a JSON object. Unknown keys change nothing and are warned about; null stands for the default.

        Raises OSError where the file cannot be read, and ValueError with the file and the key where it is wrong.
        """
        path = os.fspath(file_path)
        settings = _read_object(path)
        _warn_of_unknown(path, settings)
        values = {}
        for name, source in _SOURCES.items():
            if source.required and name not in settings:
                raise ValueError(f"{path}: Missing required config field: {name}")
            value = settings.get(name)
            missing = value is None and not source.required
            values[name] = source.default if missing else _parse(name, value, f"{path}: {name}")
        return MooncakeConfig(**values)

    @staticmethod
    def load_from_env() -> MooncakeConfig:
        """From the file that `MOONCAKE_CONFIG_PATH` names, else from the variables; `MOONCAKE_MASTER` is required.

        Raises ValueError with the variable and its value where one is wrong, and what `from_file` raises.
        """
        path = os.environ.get(CONFIG_PATH_VARIABLE)
        if path:
            return MooncakeConfig.from_file(path)
        if not os.environ.get(MASTER_VARIABLE):
            raise ValueError(
                f"Neither the environment variable '{CONFIG_PATH_VARIABLE}' nor '{MASTER_VARIABLE}' is set."
            )
        values = {}
        for name, source in _SOURCES.items():
            value = os.environ.get(source.variable)
            values[name] = source.default if value is None else _parse(name, value, source.variable)
        return MooncakeConfig(**values)


def _warn_of_unknown(path: str, settings: Mapping[str, object]) -> None:
    """Files are shared with other programs, so an unknown key is no error."""
    for name in settings:
        if name not in _SOURCES:
            nearest = difflib.get_close_matches(str(name), _SOURCES, 1, 0.8)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            logger.warning("%s: there is no setting %r, and it changes nothing%s", path, name, hint)


def _read_object(path: str) -> dict[str, Any]:
    """The JSON object in a file. Raises OSError, or ValueError with the file's name."""
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
