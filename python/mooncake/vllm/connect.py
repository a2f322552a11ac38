"""Sets up a worker's store, from the file and the variables that vLLM's own connector also reads."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooncake.mooncake_config import DEFAULT_GLOBAL_SEGMENT_SIZE, DEFAULT_LOCAL_BUFFER_SIZE, MooncakeConfig

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore

CONFIG_PATH_VARIABLE = "MOONCAKE_CONFIG_PATH"
HOSTNAME_VARIABLE = "MOONCAKE_REQUESTER_LOCAL_HOSTNAME"
MAX_FILE_BYTES = 1 << 20


def read_config(hostname: str) -> MooncakeConfig:
    """Reads the configuration from the file that `MOONCAKE_CONFIG_PATH` names, or as `MooncakeConfig.load_from_env`
    does.

    With a file, the local hostname is the file's; without one there, `MOONCAKE_REQUESTER_LOCAL_HOSTNAME`; without
    that, `hostname`. Keys that only vLLM knows are ignored. Raises OSError, or ValueError that names the wrong
    variable, or the file and the wrong key.
    """
    path = os.environ.get(CONFIG_PATH_VARIABLE)
    if not path:
        return MooncakeConfig.load_from_env()
    known = {field.name for field in fields(MooncakeConfig)}
    settings = {name: value for name, value in _read_object(path).items() if name in known and value is not None}
    if "master_server_address" not in settings:
        raise ValueError(f"{path}: Missing required config field: master_server_address")
    default = MooncakeConfig(
        local_hostname=os.environ.get(HOSTNAME_VARIABLE) or hostname,
        metadata_server="P2PHANDSHAKE",
        global_segment_size=DEFAULT_GLOBAL_SEGMENT_SIZE,
        local_buffer_size=DEFAULT_LOCAL_BUFFER_SIZE,
        protocol="tcp",
        device_name="",
        master_server_address="localhost",
    )
    return default.with_overrides(settings, f"{path}: ")


def connect(config: MooncakeConfig) -> MooncakeDistributedStore:
    """Sets up a store. Raises RuntimeError with the code of `setup` if that fails."""
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    arguments: dict[str, Any] = {} if config.tenant_id == "default" else {"tenant_id": config.tenant_id}
    code = store.setup(
        config.local_hostname,
        config.metadata_server,
        config.global_segment_size,
        config.local_buffer_size,
        config.protocol,
        config.device_name or "",
        config.master_server_address,
        **arguments,
    )
    if code != 0:
        raise RuntimeError(f"the store at {config.master_server_address} could not be set up: {code}")
    return store


def _read_object(path: str) -> dict[str, Any]:
    with Path(path).open("rb") as file:
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
