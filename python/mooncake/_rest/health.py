"""The REST endpoints about the service itself: how it is, and what it is."""

from __future__ import annotations

from aiohttp import web

import mooncake
from mooncake._rest.request import answer, endpoint, in_thread
from mooncake._rest.state import RestState

# The words of `/health` for the numbers of `health_check`, as in the HTTP server of a client.
_WORDS = {0: "healthy", 1: "not_initialized", 2: "master_unreachable", 3: "broken"}
_NOT_INITIALIZED = 1


class HealthEndpoints(RestState):
    """Handlers for probes and operators."""

    @endpoint
    async def handle_health(self, _: web.Request) -> web.Response:
        """Answers 200 if the store works, and 503 with a word if not; both with the versions."""
        store = self.store
        code = _NOT_INITIALIZED if store is None else await in_thread(store.health_check)
        return answer(200 if code == 0 else 503, {"status": _WORDS[code], "code": code, **_versions()})

    @endpoint
    async def handle_version(self, _: web.Request) -> web.Response:
        """Answers with the versions of this package and of its protocol."""
        return answer(200, _versions())


def _versions() -> dict[str, object]:
    return {"version": mooncake.__version__, "protocol_version": mooncake.__protocol_version__}
