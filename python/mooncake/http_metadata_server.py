"""The metadata server of transfer engines: an HTTP map from keys to JSON texts, in which engines find each other.

It serves `GET`, `PUT` and `DELETE` on `/metadata?key=KEY`, and `GET /health`. It keeps everything in memory, and loses
it when the process ends. Start it with `mooncake_http_metadata_server --host HOST --port PORT`. With a token in
`MC_METADATA_HTTP_TOKEN`, requests for values must name it: `Authorization: Bearer TOKEN`. With
`MOONCAKE_TLS_CERT` and `MOONCAKE_TLS_KEY` it speaks HTTPS. Needs `aiohttp`.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import logging
import os
import signal
import sys
import threading
from enum import Enum

from aiohttp import web

from mooncake import _flag, _tls
from mooncake._output import Parser

__all__ = ["KVBootstrapServer", "KVPoll", "main", "parse_args"]

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 8080
MAX_KEY_BYTES = 4 << 10
MAX_VALUE_BYTES = 1 << 20
MAX_KEYS = 100_000
MAX_TOTAL_BYTES = 256 << 20
START_SECONDS = 10.0
STOP_SECONDS = 10.0
BODY_SECONDS = 10.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

logger = logging.getLogger(__name__)


class KVPoll(Enum):
    """The results of `KVBootstrapServer.poll`, which returns only `Success` and `Failed`."""

    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


class KVBootstrapServer:
    """The metadata server, on its own thread between `run` and `close`. It can run only once."""

    def __init__(self, port: int, host: str = DEFAULT_HOST) -> None:
        """With port 0 the server takes a free port; once it runs, the attribute `port` has its number. The token and
        the certificates are read here.

        Raises OSError if a certificate cannot be used, and ValueError if one is missing.
        """
        self.port = port
        self.host = host
        self.auth_token = os.environ.get("MC_METADATA_HTTP_TOKEN") or None
        self._ssl = _tls.of_server()
        self.store: dict[str, bytes] = {}
        self.thread: threading.Thread | None = None
        self._total_bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._listening = False

    def run(self) -> threading.Thread:
        """Starts the server. Waits until it listens or has failed, for at most 10 seconds. The log reports a failure,
        and so does `poll`.
        """
        self.thread = threading.Thread(target=self._run, name="metadata server", daemon=True)
        self.thread.start()
        self._started.wait(START_SECONDS)
        return self.thread

    def close(self) -> None:
        """Stops the server and waits for its thread, for at most 10 seconds. Does nothing if it does not run."""
        loop, stopping, thread = self._loop, self._stopping, self.thread
        if loop is not None and stopping is not None:
            try:
                loop.call_soon_threadsafe(stopping.set)
            except RuntimeError:
                logger.debug("the server had ended before it was closed")
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_SECONDS)

    def poll(self) -> KVPoll:
        """`KVPoll.Success` while the server listens, otherwise `KVPoll.Failed`."""
        alive = self.thread is not None and self.thread.is_alive()
        return KVPoll.Success if alive and self._listening else KVPoll.Failed

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        # The last two are for an invalid host name and a port out of range.
        except (OSError, UnicodeError, OverflowError) as error:
            logger.error("The metadata server cannot listen on %s:%s: %s", self.host, self.port, error)
        finally:
            self._listening = False
            self._started.set()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        app = web.Application(client_max_size=MAX_VALUE_BYTES)
        app.add_routes(self._routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port, ssl_context=self._ssl).start()
            self.port = runner.addresses[0][1]
            self._listening = True
            self._started.set()
            logger.info("The metadata server listens on %s:%s", self.host, self.port)
            if self.auth_token is None and self.host not in LOOPBACK:
                logger.warning("every host that reaches it may change what it holds: set MC_METADATA_HTTP_TOKEN")
            await self._stopping.wait()
        finally:
            await runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        return [web.route("*", "/metadata", self._handle_metadata), web.get("/health", self._handle_health)]

    async def _handle_health(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    def _is_admitted(self, request: web.Request) -> bool:
        if self.auth_token is None:
            return True
        scheme, _, named = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            named.strip().encode(errors="surrogateescape"), self.auth_token.encode()
        )

    async def _handle_metadata(self, request: web.Request) -> web.Response:
        if not self._is_admitted(request):
            return _text(401, "unauthorized")
        key = request.query.get("key", "").strip()
        if not key:
            return _text(400, "metadata key is required")
        if len(key.encode(errors="surrogatepass")) > MAX_KEY_BYTES:
            return _text(400, f"metadata key is longer than {MAX_KEY_BYTES} bytes")
        if request.method == "GET":
            return self._get(key)
        if request.method == "PUT":
            try:
                value = await asyncio.wait_for(request.read(), BODY_SECONDS)
            except asyncio.TimeoutError:
                return _text(408, f"the body did not come within {BODY_SECONDS:g} s")
            except (web.RequestPayloadError, ConnectionError):
                return _text(400, "the body cannot be read")
            return self._put(key, value)
        if request.method == "DELETE":
            return self._delete(key)
        return _text(405, "Method not allowed", Allow="DELETE, GET, PUT")

    def _get(self, key: str) -> web.Response:
        value = self.store.get(key)
        if value is None:
            return _text(404, "metadata not found")
        return web.Response(body=value, content_type="application/json")

    def _put(self, key: str, value: bytes) -> web.Response:
        old = self.store.get(key)
        # If two engines used one name, peers of one would connect to the other.
        if "rpc_meta" in key and old is not None:
            if old == value:
                return _text(200, "metadata unchanged")
            return _text(400, "Duplicate rpc_meta key not allowed")
        grown = self._total_bytes + len(value) - len(old or b"")
        if (old is None and len(self.store) >= MAX_KEYS) or grown > MAX_TOTAL_BYTES:
            return _text(507, "the metadata server is full")
        self.store[key] = value
        self._total_bytes = grown
        return _text(200, "metadata updated")

    def _delete(self, key: str) -> web.Response:
        value = self.store.pop(key, None)
        if value is None:
            return _text(404, "metadata not found")
        self._total_bytes -= len(value)
        return _text(200, "metadata deleted")


def _text(status: int, text: str, **headers: str) -> web.Response:
    # Clients of the C++ package's server expect this type, for plain text too.
    return web.Response(status=status, text=text, content_type="application/json", headers=headers)


def parse_args() -> argparse.Namespace:
    """Parses the flags. If one is wrong, prints a message and ends the process with status 2."""
    parser = Parser(description="The metadata server of transfer engines.")
    parser.add_argument("--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=_flag.port, default=DEFAULT_PORT, help="port to listen on (default: %(default)s)"
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="INFO", help="(default: %(default)s)")
    return parser.parse_args()


def main() -> int:
    """The command `mooncake_http_metadata_server`: runs until SIGINT or SIGTERM. Returns the exit status."""
    arguments = parse_args()
    logging.basicConfig(level=arguments.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Blocked before the server's thread starts, because it inherits the mask: only this thread takes the signals, and
    # none is lost.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        server = KVBootstrapServer(arguments.port, arguments.host)
    except (OSError, ValueError) as error:
        logger.error("The certificates cannot be used: %s", error)
        return 1
    server.run()
    if server.poll() is not KVPoll.Success:
        return 1
    logger.info("%s came, stopping", signal.Signals(signal.sigwait(signals)).name)
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
