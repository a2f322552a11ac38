"""The REST endpoints for segments: mount and unmount memory and files, and switch between prefill and decode."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from mooncake._rest.access import path_within
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

# The store's code if the bytes are part of a mounted segment already.
SEGMENT_ALREADY_EXISTS = -102
# The store's code if it does not lend such a segment.
SEGMENT_NOT_FOUND = -101
SHM_FOLDER = "/dev/shm"
# The arguments of `mount_segment`, in order.
MOUNT_ARGUMENTS = ("path", "size", "offset", "protocol", "location")


def shm_name_to_path(name: object) -> str | None:
    """The path of a shared memory object. The name may start with a slash. None for an invalid name."""
    if not isinstance(name, str):
        return None
    plain = name.removeprefix("/")
    if plain in ("", ".", "..") or "/" in plain or "\0" in plain:
        return None
    return f"{SHM_FOLDER}/{plain}"


class SegmentEndpoints(RestState):
    """Handlers that mount and unmount segments."""

    @endpoint
    async def handle_mount_shm(self, request: web.Request) -> web.Response:
        """Lends `size` bytes of the shared memory object `name`, from `offset` on."""
        body = await read_object(request)
        path = shm_name_to_path(body.get("name"))
        if path is None or body.get("size") is None:
            raise RequestError(400, "Missing or invalid name or size")
        path = path_within(SHM_FOLDER, checked("name", path))
        mounted = await in_thread(self.started().mount_segment, *self._mount_arguments(path, body))
        if mounted["ret"] != 0:
            raise RequestError(500, f"Mount failed, ret={mounted['ret']}")
        return success(segment_ids=list(mounted["segment_ids"]))

    @endpoint
    async def handle_unmount_shm(self, request: web.Request) -> web.Response:
        """Unmounts segments of `/api/mount_shm` and `/api/reconfigure`, one by one."""
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
        """Allocates `size` bytes in this process, and lends them."""
        body = await read_object(request)
        size = size_of(body)
        protocol, location = self._protocol_and_location(body)
        mounted = await in_thread(self.started().allocate_and_mount_segment, size, protocol, location)
        if mounted["ret"] != 0:
            raise RequestError(500, f"Allocate and mount failed, ret={mounted['ret']}")
        return success(segment_ids=list(mounted["segment_ids"]), allocated_size=mounted["allocated_size"])

    @endpoint
    async def handle_unmount(self, request: web.Request) -> web.Response:
        """Unmounts segments of `/api/mount`, and frees their memory."""
        body = await read_object(request)
        ids, grace_seconds = segment_ids_of(body), grace_of(body)
        code = await in_thread(self.started().unmount_and_free_segment, ids, grace_seconds)
        if code != 0:
            raise RequestError(500, f"Unmount and free failed, ret={code}")
        return success()

    @endpoint
    async def handle_unmount_local_disk(self, request: web.Request) -> web.Response:
        """Unmounts the disk that this process lends, and waits for the grace period. Call it before a shutdown."""
        grace_seconds = grace_of(await read_object(request))
        code = await in_thread(self.started().unmount_local_disk_segment, grace_seconds)
        if code == SEGMENT_NOT_FOUND:
            raise RequestError(404, "This store lends no SSD to the pool")
        if code != 0:
            raise RequestError(500, f"Unmount local disk failed, ret={code}")
        return success()

    @endpoint
    async def handle_reconfigure(self, request: web.Request) -> web.Response:
        """Mode "decode" lends a file of `mount_folder`, instead of the segments before. Mode "prefill" lends none."""
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
        arguments = self._mount_arguments(self._lent_file(text_of(body, "path")), body)
        async with self._state_lock:
            # Mounts the new segment first: if that fails, the pool keeps the old ones.
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
            # Segments that cannot be unmounted stay in `mounted_segment_ids`, for a later try.
            await self._unmount(previous, 0)
            return self._decoding()

    def _decoding(self) -> web.Response:
        return success(mode=self.current_mode, segment_ids=list(self.mounted_segment_ids))

    def _is_mounted(self, arguments: tuple[object, ...]) -> bool:
        """Whether the last mount had these arguments and is still mounted. The store does not mount the same bytes
        twice.
        """
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
        """Unmounts one by one, because a batch returns only its first error. Returns the ids that failed, with their
        codes.
        """
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
        """The arguments of `mount_segment`, in the order of `MOUNT_ARGUMENTS`."""
        return (path, size_of(body), offset_of(body), *self._protocol_and_location(body))

    def _lent_file(self, path: str) -> str:
        if "\0" in path or not path.startswith("/"):
            raise RequestError(400, "Invalid path, must be absolute")
        return path_within(self.mount_folder, path)

    def _protocol_and_location(self, body: dict[str, Any]) -> tuple[str, str]:
        """The protocol for transfers, by default the configured one, and the location of the memory."""
        return text_of(body, "protocol", self.config.protocol), text_of(body, "location")
