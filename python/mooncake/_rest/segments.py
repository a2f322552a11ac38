"""The REST endpoints for segments: mount and unmount memory of the process, shared memory and files; prefill/decode."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from mooncake._rest.request import (
    RequestError,
    answer,
    checked,
    endpoint,
    grace_of,
    in_thread,
    logger,
    offset_of,
    read_object,
    segment_ids_of,
    size_of,
    success,
    text_of,
)
from mooncake._rest.state import RestState

# What the store answers where a segment of it lies over the same bytes.
SEGMENT_ALREADY_EXISTS = -102
# What it answers where no such segment is lent.
SEGMENT_NOT_FOUND = -101
# What `mount_segment` takes, in its order.
MOUNT_ARGUMENTS = ("path", "size", "offset", "protocol", "location")


def shm_name_to_path(name: object) -> str | None:
    """Where the shared memory object with this name lies; a leading slash is allowed. None if it is no such name."""
    if not isinstance(name, str):
        return None
    plain = name.removeprefix("/")
    if plain in ("", ".", "..") or "/" in plain or "\0" in plain:
        return None
    return f"/dev/shm/{plain}"


class SegmentEndpoints(RestState):
    """Handlers that lend memory to the pool and take it back."""

    @endpoint
    async def handle_mount_shm(self, request: web.Request) -> web.Response:
        """Lends `size` bytes of the shared memory object `name` from `offset` on."""
        body = await read_object(request)
        path = shm_name_to_path(body.get("name"))
        if path is None or body.get("size") is None:
            raise RequestError(400, "Missing or invalid name or size")
        mounted = await in_thread(self.started().mount_segment, *self._mount_arguments(checked("name", path), body))
        if mounted["ret"] != 0:
            raise RequestError(500, f"Mount failed, ret={mounted['ret']}")
        return success(segment_ids=list(mounted["segment_ids"]))

    @endpoint
    async def handle_unmount_shm(self, request: web.Request) -> web.Response:
        """Takes back segments that `/api/mount_shm` or `/api/reconfigure` mounted, each on its own."""
        body = await read_object(request)
        ids, grace_seconds = segment_ids_of(body), grace_of(body)
        async with self._state_lock:
            failed = await self._unmount(ids, grace_seconds)
            if not self.mounted_segment_ids:
                self.current_mode = "prefill"
        if failed:
            raise RequestError(500, "Unmount failed for one or more segments", failed_segment_ids=list(failed))
        return success()

    @endpoint
    async def handle_mount(self, request: web.Request) -> web.Response:
        """Allocates `size` bytes in this process and lends them."""
        body = await read_object(request)
        size = size_of(body)
        protocol, location = self._protocol_and_location(body)
        mounted = await in_thread(self.started().allocate_and_mount_segment, size, protocol, location)
        if mounted["ret"] != 0:
            raise RequestError(500, f"Allocate and mount failed, ret={mounted['ret']}")
        return success(segment_ids=list(mounted["segment_ids"]), allocated_size=mounted["allocated_size"])

    @endpoint
    async def handle_unmount(self, request: web.Request) -> web.Response:
        """Takes back and frees segments that `/api/mount` mounted."""
        body = await read_object(request)
        ids, grace_seconds = segment_ids_of(body), grace_of(body)
        code = await in_thread(self.started().unmount_and_free_segment, ids, grace_seconds)
        if code != 0:
            raise RequestError(500, f"Unmount and free failed, ret={code}")
        return success()

    @endpoint
    async def handle_unmount_local_disk(self, request: web.Request) -> web.Response:
        """Takes this process's SSD out of the pool and waits for the grace period, before the process ends."""
        grace_seconds = grace_of(await read_object(request))
        code = await in_thread(self.started().unmount_local_disk_segment, grace_seconds)
        if code == SEGMENT_NOT_FOUND:
            raise RequestError(404, "This store lends no SSD to the pool")
        if code != 0:
            raise RequestError(500, f"Unmount local disk failed, ret={code}")
        return success()

    @endpoint
    async def handle_reconfigure(self, request: web.Request) -> web.Response:
        """Mode "decode" lends a file or shared memory instead of what it lent before; "prefill" lends none."""
        body = await read_object(request)
        mode = body.get("mode")
        mode = mode.lower() if isinstance(mode, str) else None
        if mode == "decode":
            return await self._to_decode(body)
        if mode == "prefill":
            return await self._to_prefill()
        raise RequestError(400, "Invalid mode. Use 'decode' or 'prefill'")

    async def _to_decode(self, body: dict[str, Any]) -> web.Response:
        if not body.get("path") or body.get("size") is None:
            raise RequestError(400, "Missing path or size for decode mode")
        arguments = self._mount_arguments(text_of(body, "path"), body)
        async with self._state_lock:
            # The new segment first: if it cannot be mounted, the pool keeps the old ones.
            mounted = await in_thread(self.started().mount_segment, *arguments)
            if mounted["ret"] == SEGMENT_ALREADY_EXISTS and self._is_mounted(arguments):
                return self._decoding()
            if mounted["ret"] != 0:
                raise self._mount_refused(mounted["ret"])
            previous = self.mounted_segment_ids
            self.mounted_segment_ids = [*mounted["segment_ids"], *previous]
            self.current_mode = "decode"
            self.last_mount_info = {
                **dict(zip(MOUNT_ARGUMENTS, arguments, strict=True)),
                "segment_ids": list(mounted["segment_ids"]),
            }
            # Those that cannot be unmounted stay among the mounted ones, for a later try.
            await self._unmount(previous, 0)
            return self._decoding()

    def _decoding(self) -> web.Response:
        return success(mode=self.current_mode, segment_ids=list(self.mounted_segment_ids))

    def _is_mounted(self, arguments: tuple[object, ...]) -> bool:
        """Whether the last mount was this one, and still is: the store mounts no bytes twice."""
        last = self.last_mount_info
        same = all(last.get(name) == value for name, value in zip(MOUNT_ARGUMENTS, arguments, strict=True))
        return same and set(last.get("segment_ids", [])) <= set(self.mounted_segment_ids)

    def _mount_refused(self, code: int) -> RequestError:
        if self.mounted_segment_ids:
            kept = "keeping previous decode segments"
        else:
            kept = "rolled back to prefill"
            self.current_mode = "prefill"
            self.last_mount_info.clear()
        return RequestError(500, f"Mount failed, ret={code}; {kept}", mode=self.current_mode)

    async def _to_prefill(self) -> web.Response:
        async with self._state_lock:
            failed = await self._unmount(list(self.mounted_segment_ids), 0)
            if failed:
                message = f"Unmount failed, ret={next(iter(failed.values()))}"
                raise RequestError(500, message, failed_segment_ids=list(failed))
            self.current_mode = "prefill"
            self.last_mount_info.clear()
        return answer(200, {"status": "success", "mode": "prefill"})

    async def _unmount(self, ids: list[str], grace_seconds: int) -> dict[str, int]:
        """Unmounts one by one, for a batch tells only its first error. Returns the ids that failed, and their codes."""
        failed = {}
        for segment_id in ids:
            code = await in_thread(self.started().unmount_segment, [segment_id], grace_seconds)
            if code != 0:
                logger.warning("segment %s could not be unmounted, ret=%s", segment_id, code)
                failed[segment_id] = code
            elif segment_id in self.mounted_segment_ids:
                self.mounted_segment_ids.remove(segment_id)
        return failed

    def _mount_arguments(self, path: str, body: dict[str, Any]) -> tuple[str, int, int, str, str]:
        """The `MOUNT_ARGUMENTS`."""
        return (path, size_of(body), offset_of(body), *self._protocol_and_location(body))

    def _protocol_and_location(self, body: dict[str, Any]) -> tuple[str, str]:
        """The protocol that data travels by, the configured one if missing, and where the memory lies."""
        return text_of(body, "protocol", self.config.protocol), text_of(body, "location")
