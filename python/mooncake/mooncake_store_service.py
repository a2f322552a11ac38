"""A store with a REST API, in a process of its own.

It lends memory to the pool. HTTP clients put, get and remove objects, and mount segments.

Start it with `python -m mooncake.mooncake_store_service --config FILE --port 8080`, or `mc_store_rest_server`. Needs
`aiohttp`. Anyone who reaches the API may read and change objects. Requests that mount, unmount or name a file are for
callers of the same machine, or for those with the cluster's token.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import ssl
import sys
import threading
from collections.abc import Mapping
from typing import cast

from aiohttp import web

from mooncake import _flag, _tls
from mooncake._output import Parser
from mooncake._rest.access import for_operators, refuse_web_pages, token_of_environment
from mooncake._rest.health import HealthEndpoints
from mooncake._rest.master import RETRY_SECONDS, await_master, wait
from mooncake._rest.objects import ObjectEndpoints
from mooncake._rest.request import MAX_BODY_BYTES, MAX_REQUESTS, json_errors, limit_requests
from mooncake._rest.segments import SegmentEndpoints
from mooncake._rest.segments import shm_name_to_path as _shm_name_to_path
from mooncake._rest.state import DEFAULT_MOUNT_FOLDER, Store
from mooncake.mooncake_config import MooncakeConfig
from mooncake.store import MooncakeDistributedStore

__all__ = ["MooncakeStoreService", "_shm_name_to_path", "main", "parse_arguments", "sync_main"]

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 8080
DEFAULT_WAIT_SECONDS = 60.0
# The time that running requests get to end when the service stops.
FAREWELL_SECONDS = 5.0
# The time that other nodes get to take over the objects here, after SIGTERM; also the default of `mooncake_client`.
DEFAULT_DRAIN_SECONDS = 20
DRAIN_VARIABLE = "MOONCAKE_DRAIN_TIMEOUT_SEC"
# The time that the service gets to end after a second signal.
LAST_SECONDS = 1.0
# Client address, request line, status, bytes of the answer, seconds.
ACCESS_LINE = '%a "%r" %s %b %Tf'
# The code of the store for a wrong configuration: another try would fail too.
INVALID_PARAMS = -600

# From a key of the store's `setup` to the field of `MooncakeConfig` with its value.
_SETTINGS = {
    "local_hostname": "local_hostname",
    "metadata_server": "metadata_server",
    "global_segment_size": "global_segment_size",
    "local_buffer_size": "local_buffer_size",
    "protocol": "protocol",
    "rdma_devices": "device_name",
    "master_server_addr": "master_server_address",
    "enable_ssd_offload": "enable_ssd_offload",
    "ssd_offload_path": "ssd_offload_path",
    "tenant_id": "tenant_id",
    "enable_client_http_server": "enable_client_http_server",
    "client_http_port": "client_http_port",
    "segment_path": "segment_path",
    "segment_reset": "segment_reset",
    "domain": "domain",
}

logger = logging.getLogger("mooncake.mooncake_store_service")


class MooncakeStoreService(HealthEndpoints, ObjectEndpoints, SegmentEndpoints):
    """A store and its REST API. Start the store first, then HTTP. `stop` ends both."""

    _runner: web.AppRunner | None = None
    # The address of the API, once it listens: with the real port, even if port 0 was requested.
    http_address: tuple[str, int] | None = None
    # What callers of other machines send to change this process. Empty: none of them may.
    auth_token = ""
    # What HTTPS is spoken with; None: HTTP.
    _ssl: ssl.SSLContext | None = None

    def __init__(
        self,
        config_path: str | None = None,
        cli_config: Mapping[str, object] | None = None,
        mount_folder: str = DEFAULT_MOUNT_FOLDER,
    ) -> None:
        """Reads the configuration from the file, or as `MooncakeConfig.load_from_env` does. `cli_config` overrides
        single settings, and may give those that are missing. Only files in `mount_folder` are lent on request.

        Raises OSError if a file cannot be read, and ValueError for a wrong or unknown setting.
        """
        self.store = None
        self.current_mode = "prefill"
        self.mounted_segment_ids = []
        self.last_mount_info = {}
        self._state_lock = asyncio.Lock()
        self.mount_folder = mount_folder
        self.auth_token = token_of_environment()
        self._ssl = _tls.of_server()
        overrides, where = cli_config or {}, "-D "
        if config_path:
            self.config = MooncakeConfig.from_file(config_path, overrides, where)
        else:
            self.config = MooncakeConfig.load_from_env(overrides, where)

    async def start_store_service(
        self, max_wait_time: float = DEFAULT_WAIT_SECONDS, shutdown_event: asyncio.Event | None = None
    ) -> bool:
        """Sets the store up. Tries again until that succeeds, at least once and for at most `max_wait_time` seconds.

        Returns False if the time was too short, if the store refused the configuration, or once `shutdown_event` is
        set.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_time
        stopping = shutdown_event or asyncio.Event()
        while True:
            # Runs the handlers of signals that arrived during the last setup, which blocks the event loop.
            await asyncio.sleep(0)
            if stopping.is_set():
                return False
            reason, final = self._try_setup()
            if reason is None:
                await asyncio.sleep(0)
                if stopping.is_set():
                    await self.stop()
                    return False
                logger.info("The store runs as %s", self.config.local_hostname)
                return True
            left = deadline - loop.time()
            if final or left <= 0:
                logger.error("The store did not start: %s", reason)
                return False
            logger.warning("The store did not start: %s. Trying for another %.1f s", reason, left)
            await wait(stopping, min(RETRY_SECONDS, left))

    def _try_setup(self) -> tuple[str | None, bool]:
        """Tries to set a store up. Returns the reason of a failure or None, and whether further tries are pointless."""
        # A configuration object of a caller may lack fields. The store has defaults for those.
        settings = {key: getattr(self.config, field) for key, field in _SETTINGS.items() if hasattr(self.config, field)}
        if os.environ.get(DRAIN_VARIABLE):
            # `stop` drains, and not the store: `stop` knows which signal arrived, and whether there is time.
            settings["drain_timeout_sec"] = 0
        try:
            store = cast(Store, MooncakeDistributedStore())
            code = store.setup(settings)
        except Exception as error:
            return str(error) or type(error).__name__, False
        if code != 0:
            return f"setup returned {code}", code == INVALID_PARAMS
        self.store = store
        return None, True

    async def start_http_service(self, port: int = DEFAULT_PORT, host: str = DEFAULT_HOST) -> bool:
        """Serves the API on this address only. Returns True.

        Raises OSError if the address cannot be used, and UnicodeError for an invalid host name.
        """
        middlewares = [limit_requests(MAX_REQUESTS), json_errors, refuse_web_pages]
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
        app.add_routes(self._routes())
        self._runner = web.AppRunner(app, access_log_format=ACCESS_LINE, shutdown_timeout=FAREWELL_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=self._ssl).start()
        bound = self._runner.addresses[0]
        self.http_address = (bound[0], bound[1])
        logger.info("The REST API listens on %s:%s", *self.http_address)
        return True

    def _routes(self) -> list[web.RouteDef]:
        removals_of_many = {
            "/api/remove_all": self.handle_remove_all,
            "/api/remove_by_regex": self.handle_remove_by_regex,
        }
        changes_of_the_process = {
            "/api/mount_shm": self.handle_mount_shm,
            "/api/unmount_shm": self.handle_unmount_shm,
            "/api/mount": self.handle_mount,
            "/api/unmount": self.handle_unmount,
            "/api/unmount_local_disk": self.handle_unmount_local_disk,
            "/api/reconfigure": self.handle_reconfigure,
        }
        return [
            web.get("/health", self.handle_health),
            web.get("/version", self.handle_version),
            web.put("/api/put", self.handle_put),
            web.get("/api/get/{key:[^/]+}", self.handle_get),
            web.get("/api/exist/{key:[^/]+}", self.handle_exist),
            web.delete("/api/remove/{key:[^/]+}", self.handle_remove),
            web.get("/api/query_by_regex", self.handle_query_by_regex),
            *(web.delete(path, for_operators(self.auth_token, call)) for path, call in removals_of_many.items()),
            *(web.post(path, for_operators(self.auth_token, call)) for path, call in changes_of_the_process.items()),
        ]

    async def stop(self, drain_seconds: int = 0, told_again: asyncio.Event | None = None) -> None:
        """Stops HTTP, drains the store, then closes it: its memory leaves the pool. A second call does nothing.

        Other nodes take over the objects here for at most `drain_seconds`, or until `told_again` is set.
        """
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        store, self.store = self.store, None
        if store is None:
            return
        if drain_seconds > 0:
            await _drain(store, drain_seconds, told_again or asyncio.Event())
        # This also ends a drain that still runs.
        code = store.close()
        if code != 0:
            logger.warning("The store's close returned %s", code)
        else:
            logger.info("The store is closed")


async def _drain(store: Store, seconds: int, told_again: asyncio.Event) -> None:
    logger.info("Other nodes take over what lies here, for %d s at most", seconds)
    draining = asyncio.ensure_future(asyncio.to_thread(store.drain, seconds))
    telling = asyncio.ensure_future(told_again.wait())
    await asyncio.wait({draining, telling}, return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()
    if not draining.done():
        logger.warning("Told to end at once: what was not taken over is lost")
    elif (code := draining.result()) != 0:
        logger.warning("Not everything was taken over: drain returned %s; the rest is lost", code)
    else:
        logger.info("Other nodes have what lay here")


def _unblock_shutdown_signals() -> None:
    """Unblocks SIGINT and SIGTERM, because a parent process may have blocked them."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


class _Shutdown(asyncio.Event):
    """Set by the first signal. It also knows which signals came, and tells of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[int] = []
        self.told_again = asyncio.Event()

    def note(self, number: int) -> None:
        """A second signal sets `told_again`, and ends the process after a second."""
        self.came.append(number)
        if len(self.came) == 2:
            self.told_again.set()
            # The status that a shell reports for a process ended by this signal.
            end = threading.Timer(LAST_SECONDS, os._exit, (128 + number,))
            end.daemon = True
            end.start()


def _install_shutdown_signal_handlers(loop: asyncio.AbstractEventLoop, shutdown_event: asyncio.Event) -> None:
    """Installs handlers that set `shutdown_event` on SIGINT, SIGTERM and SIGHUP. A `_Shutdown` also notes the signal.

    A SIGHUP that the process ignores from the start, as under `nohup`, stays ignored.
    """

    def stop(number: int) -> None:
        logger.info("%s came, stopping", signal.Signals(number).name)
        shutdown_event.set()
        if isinstance(shutdown_event, _Shutdown):
            shutdown_event.note(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)


def parse_arguments() -> argparse.Namespace:
    """Parses the flags. If one is wrong, prints a message and ends the process with status 2."""
    parser = Parser(description="A store in a process of its own, with a REST API.")
    parser.add_argument("--config", metavar="FILE", help="JSON configuration; without it, the environment is read")
    parser.add_argument(
        "-D", "--define", metavar="KEY=VALUE", action="append", type=_flag.definition, default=[], help="one setting"
    )
    parser.add_argument("--host", default=DEFAULT_HOST, help="address of the API (default: %(default)s)")
    parser.add_argument("--port", type=_flag.port, default=DEFAULT_PORT, help="port of the API (default: %(default)s)")
    parser.add_argument(
        "--mount-folder",
        "--mount_folder",
        metavar="FOLDER",
        default=DEFAULT_MOUNT_FOLDER,
        help="folder of the files that POST /api/reconfigure may lend (default: %(default)s)",
    )
    parser.add_argument(
        "--max-wait-time",
        metavar="SECONDS",
        type=_flag.seconds,
        default=DEFAULT_WAIT_SECONDS,
        help="how long to wait for the master (default: %(default)g)",
    )
    parser.add_argument(
        "--drain-timeout-sec",
        "--drain_timeout_sec",
        metavar="SECONDS",
        type=_flag.whole_seconds,
        default=os.environ.get(DRAIN_VARIABLE) or DEFAULT_DRAIN_SECONDS,
        help="how long others may take over what lies here after SIGTERM; 0: not at all (default: %(default)s)",
    )
    return parser.parse_args()


async def main() -> int:
    """Runs the service until a signal arrives. Returns the exit status: 0 after a signal, 1 if it could not start."""
    arguments = parse_arguments()
    try:
        folder = getattr(arguments, "mount_folder", DEFAULT_MOUNT_FOLDER)
        service = MooncakeStoreService(arguments.config, dict(arguments.define), folder)
    except (OSError, ValueError) as error:
        logger.error("The configuration is wrong: %s", error)
        return 1
    stopping = _Shutdown()
    loop = asyncio.get_running_loop()
    _install_shutdown_signal_handlers(loop, stopping)
    _unblock_shutdown_signals()
    try:
        deadline = loop.time() + arguments.max_wait_time
        if not stopping.is_set():
            address = service.config.master_server_address
            is_there = await await_master(address, arguments.max_wait_time, stopping)
            if not is_there and not stopping.is_set():
                # A setup would search for the master for a while longer, and block signals meanwhile.
                logger.error("The store did not start: no master listens at %s", address)
                return 1
        if not await service.start_store_service(max(0.0, deadline - loop.time()), stopping):
            return 0 if stopping.is_set() else 1
        host = getattr(arguments, "host", DEFAULT_HOST)
        try:
            await service.start_http_service(arguments.port, host)
        # UnicodeError is for an invalid host name.
        except (OSError, UnicodeError) as error:
            logger.error("The REST API cannot listen on %s:%s: %s", host, arguments.port, error)
            return 1
        await stopping.wait()
        return 0
    finally:
        # SIGINT comes from a terminal, where the user wants the program to end now. SIGTERM and SIGHUP come from a
        # manager of nodes, which waits.
        is_taken_away = stopping.came[:1] in ([signal.SIGTERM], [signal.SIGHUP])
        seconds = getattr(arguments, "drain_timeout_sec", DEFAULT_DRAIN_SECONDS)
        await service.stop(seconds if is_taken_away else 0, stopping.told_again)


def sync_main() -> int:
    """The command `mc_store_rest_server`. Returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    return asyncio.run(main())


if __name__ == "__main__":
    sys.exit(sync_main())
