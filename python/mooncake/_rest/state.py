"""The state that the endpoints of the REST service share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from mooncake._rest.request import RequestError
from mooncake.mooncake_config import MooncakeConfig

if TYPE_CHECKING:
    from mooncake.store import ReplicaDescriptor

# Requests name their tenant in this header.
TENANT_HEADER = "X-Mooncake-Tenant"

# The folder of shared memory objects, which belong to nobody once their programs are gone.
DEFAULT_MOUNT_FOLDER = "/dev/shm"


class Store(Protocol):
    """The methods of `MooncakeDistributedStore` that the service calls."""

    def setup(self, config: dict[str, Any], /) -> int: ...
    def for_tenant(self, tenant_id: str, /) -> Store: ...
    def drain(self, timeout_sec: int, /) -> int: ...
    def close(self) -> int: ...
    def health_check(self) -> int: ...
    def put(self, key: str, value: bytes, /) -> int: ...
    def get(self, key: str, /) -> bytes | None: ...
    def is_exist(self, key: str, /) -> int: ...
    def remove(self, key: str, /) -> int: ...
    def remove_all(self) -> int: ...
    def remove_by_regex(self, regex_pattern: str, /) -> int: ...
    def _query_page_by_regex(
        self, regex_pattern: str, cursor: int, /
    ) -> tuple[dict[str, list[ReplicaDescriptor]], int | None]: ...
    def mount_segment(self, path: str, size: int, offset: int, protocol: str, location: str, /) -> dict[str, Any]: ...
    def unmount_segment(self, segment_ids: list[str], grace_period_seconds: int = 0, /) -> int: ...
    def allocate_and_mount_segment(self, size: int, protocol: str, location: str, /) -> dict[str, Any]: ...
    def unmount_and_free_segment(self, segment_ids: list[str], grace_period_seconds: int = 0, /) -> int: ...
    def unmount_local_disk_segment(self, grace_period_seconds: int = 0, /) -> int: ...


class RestState:
    """The store, its configuration, and the record of the segments that `/api/reconfigure` has mounted."""

    store: Store | None
    config: MooncakeConfig
    # The folder of the files that /api/reconfigure may lend.
    mount_folder: str = DEFAULT_MOUNT_FOLDER
    # "prefill": /api/reconfigure has mounted no segment. "decode": it has mounted `mounted_segment_ids`.
    current_mode: str
    mounted_segment_ids: list[str]
    # The arguments and the `segment_ids` of the last mount of /api/reconfigure.
    last_mount_info: dict[str, Any]
    # Held while the mode and the mounted segments change.
    _state_lock: asyncio.Lock

    def started(self) -> Store:
        """The store. Raises RequestError 503 before it is set up and after it is closed."""
        if self.store is None:
            raise RequestError(503, "The store is not running")
        return self.store

    def store_of(self, request: web.Request) -> Store:
        """The store for the tenant that the request's header names; the service's own tenant without that header."""
        store = self.started()
        tenant_id = request.headers.get(TENANT_HEADER, "")
        if not tenant_id:
            return store
        try:
            return store.for_tenant(tenant_id)
        except ValueError as error:
            raise RequestError(400, f"{TENANT_HEADER}: {error}") from None
