"""Requests to the store's REST service, and a service whose store records its calls."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from typing import Any

from mooncake.mooncake_config import MooncakeConfig
from mooncake.mooncake_store_service import MooncakeStoreService

Answer = tuple[int, Any]
CONFIG = MooncakeConfig("localhost", "P2PHANDSHAKE", 0, 0, "tcp", "", "127.0.0.1:1")


JSON = {"Content-Type": "application/json"}


def ask(
    port: int, method: str, path: str, body: object = None, headers: dict[str, str] = JSON, host: str = "127.0.0.1"
) -> Answer:
    """The status, and the body, parsed if it is JSON. A request body of bytes is sent unchanged, others as JSON."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request(method, path, content, headers)
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, json.loads(text) if reply.headers.get_content_subtype() == "json" else text
    finally:
        connection.close()


class RecordingStore:
    """A store that records its calls and returns the prepared answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {}
        self.gate: threading.Event | None = None

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            if self.gate is not None:
                assert self.gate.wait(20)
            answer = self.answers.get(name, 0)
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return call


class Api:
    """A service on a thread, over a store that records its calls."""

    def __init__(self, auth_token: str = "", host: str = "127.0.0.1") -> None:
        self.store = RecordingStore()
        self.service = MooncakeStoreService.__new__(MooncakeStoreService)
        self.service.auth_token = auth_token
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.run(self.start(host))

    async def start(self, host: str) -> None:
        self.service.store, self.service.config = self.store, CONFIG
        self.service.current_mode, self.service.mounted_segment_ids = "prefill", []
        self.service.last_mount_info, self.service._state_lock = {}, asyncio.Lock()
        assert await self.service.start_http_service(0, host)

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    @property
    def port(self) -> int:
        assert self.service.http_address is not None
        return self.service.http_address[1]

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] = JSON, host: str = "127.0.0.1"
    ) -> Answer:
        return ask(self.port, method, path, body, headers, host)

    def close(self) -> None:
        self.run(self.service.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


OK: Answer = (200, {"status": "success"})


def error(status: int, message: str, **more: object) -> Answer:
    return status, {"error": message, **more}


class HeadOnly:
    """A request whose client sends the head, and then its body only if it has one."""

    def __init__(self, port: int, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.connection.putrequest(method, path)
        for name, value in {**JSON, **headers}.items():
            self.connection.putheader(name, value)
        self.connection.endheaders(body or None)

    def __enter__(self) -> http.client.HTTPResponse:
        return self.connection.getresponse()

    def __exit__(self, *_: object) -> None:
        self.connection.close()
