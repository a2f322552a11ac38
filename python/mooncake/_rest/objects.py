"""The REST endpoints for objects: put, get, exist, remove, remove_all, and those by regular expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from mooncake._rest.request import RequestError, answer, checked, endpoint, in_thread, read_object, success, text_of
from mooncake._rest.state import RestState, Store

if TYPE_CHECKING:
    from mooncake.store import ReplicaDescriptor

MAX_KEY_BYTES = 4096
# The store's code for a key that is empty or too long.
INVALID_KEY = -400
# The store's code for a regular expression that is refused.
INVALID_PARAMS = -600
# How many objects an answer of /api/query_by_regex has at least, unless no more follow; and at most.
DEFAULT_LIMIT, MAX_LIMIT = 1000, 100_000
MAX_CURSOR = 2**64 - 1


class ObjectEndpoints(RestState):
    """Handlers that read and write objects."""

    @endpoint
    async def handle_put(self, request: web.Request) -> web.Response:
        """Puts the text `value`, as UTF-8, under `key`. A key that exists keeps its value."""
        body = await read_object(request)
        if not body.get("key") or body.get("value") is None:
            raise RequestError(400, "Missing key or value")
        key, value = text_of(body, "key"), text_of(body, "value")
        if not value:
            raise RequestError(400, "The value is empty: an object has at least one byte")
        code = await in_thread(self.store_of(request).put, key, value.encode())
        if code != 0:
            raise _failed("PUT operation failed", code)
        return success()

    @endpoint
    async def handle_get(self, request: web.Request) -> web.Response:
        """Answers with the bytes of an object; 404 if it does not exist."""
        value = await in_thread(_read, self.store_of(request), _key(request))
        return web.Response(body=value, content_type="application/octet-stream")

    @endpoint
    async def handle_exist(self, request: web.Request) -> web.Response:
        """Answers with `{"exists": bool}`."""
        return answer(200, {"exists": await in_thread(_exists, self.store_of(request), _key(request))})

    @endpoint
    async def handle_remove(self, request: web.Request) -> web.Response:
        """Removes an object, unless it has a lease."""
        code = await in_thread(self.store_of(request).remove, _key(request))
        if code != 0:
            raise _failed("Remove operation failed", code)
        return success()

    @endpoint
    async def handle_remove_all(self, request: web.Request) -> web.Response:
        """Removes all objects of the tenant without a lease. Answers with their number."""
        removed = await in_thread(self.store_of(request).remove_all)
        if removed < 0:
            raise _failed("RemoveAll operation failed", removed)
        return answer(200, {"status": f"success removed {removed} keys"})

    @endpoint
    async def handle_remove_by_regex(self, request: web.Request) -> web.Response:
        """Removes the objects without a lease whose keys the regular expression finds. Answers with their number."""
        removed = await in_thread(self.store_of(request).remove_by_regex, _regex(request))
        if removed == INVALID_PARAMS:
            raise RequestError(400, "The regular expression is refused", error_code=removed)
        if removed < 0:
            raise _failed("RemoveByRegex operation failed", removed)
        return answer(200, {"status": f"success removed {removed} keys"})

    @endpoint
    async def handle_query_by_regex(self, request: web.Request) -> web.Response:
        """Answers with the objects whose keys the regular expression finds, and the cursor of the next answer or null.

        An answer ends with the page in which it reaches `limit` objects.
        """
        regex = _regex(request)
        cursor, limit = _number(request, "cursor", 0, MAX_CURSOR), _number(request, "limit", DEFAULT_LIMIT, MAX_LIMIT)
        found, following = await in_thread(_query, self.store_of(request), regex, cursor, limit)
        data = {key: [_described(replica) for replica in replicas] for key, replicas in found.items()}
        return answer(200, {"data": data, "next_cursor": following})


def _regex(request: web.Request) -> str:
    regex = request.query.get("regex", "")
    if not regex:
        raise RequestError(400, "Missing regex query parameter")
    return checked("regex", regex)


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= most):
        raise RequestError(400, f"{name} must be a number from 0 to {most}")
    return int(text)


def _query(store: Store, regex: str, cursor: int, limit: int) -> tuple[dict[str, list[ReplicaDescriptor]], int | None]:
    """Pages until so many objects were found, or no more follow."""
    found: dict[str, list[ReplicaDescriptor]] = {}
    following: int | None = cursor
    while following is not None:
        try:
            page, following = store._query_page_by_regex(regex, following)
        except ValueError as error:
            raise RequestError(400, str(error)) from None
        found.update(page)
        if len(found) >= limit:
            break
    return found, following


def _described(replica: ReplicaDescriptor) -> dict[str, object]:
    """Where a replica lies. A striped one is described by its first range."""
    if replica.is_memory_replica():
        part = replica.get_memory_descriptor().buffer_descriptor
        return {"medium": "memory", "size": part.size, "transport_endpoint": part.transport_endpoint}
    if replica.is_disk_replica():
        disk = replica.get_disk_descriptor()
        return {"medium": "disk", "size": disk.object_size, "file_path": disk.file_path}
    return {"medium": "local_disk" if replica.is_local_disk_replica() else "object_store"}


def _key(request: web.Request) -> str:
    return checked("key", request.match_info["key"])


def _failed(message: str, code: int) -> RequestError:
    if code == INVALID_KEY:
        return RequestError(400, f"The key is empty or longer than {MAX_KEY_BYTES} bytes", error_code=code)
    return RequestError(500, message, error_code=code)


def _exists(store: Store, key: str) -> bool:
    exists = store.is_exist(key)
    if exists < 0:
        raise _failed("Exist check failed", exists)
    return bool(exists)


def _read(store: Store, key: str) -> bytes:
    """The object's bytes. `get` returns no bytes for a miss and for a failure; this raises RequestError 404 and 500."""
    if not _exists(store, key):
        raise RequestError(404, "Key not found")
    value = store.get(key)
    if value is None:
        raise RequestError(500, "GET operation failed")
    if value == b"":
        if not _exists(store, key):
            raise RequestError(404, "Key not found")
        # The object exists and is not empty, so none of its replicas could be read.
        get_size = getattr(store, "get_size", None)
        if get_size is not None and get_size(key) > 0:
            raise RequestError(500, "GET operation failed")
    return value
