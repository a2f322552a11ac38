"""Waits for the master without blocking the event loop. A store's `setup` would block it, and with it signals."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from mooncake._rest.request import logger

RETRY_SECONDS = 1.0
CONNECT_SECONDS = 2.0


async def wait(event: asyncio.Event, seconds: float) -> None:
    """Waits for the event, for at most `seconds`."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        return


async def await_master(address: str, seconds: float, stopping: asyncio.Event) -> bool:
    """Waits until a process listens at one of the master's addresses, for at most `seconds`, or until `stopping` is
    set.

    `address` may have several addresses, separated by commas. Returns True if a process listens, and at once for an
    address that is not `host:port`: the setup has to check it. Otherwise returns False.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        places = [urlsplit(f"//{one.strip()}") for one in address.split(",")]
        masters = [(place.hostname, place.port) for place in places]
    except ValueError:
        return True
    if not all(host and port for host, port in masters):
        return True
    while not stopping.is_set():
        for host, port in masters:
            if await _listens(host, port):
                return True
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        logger.info("No master listens at %s; waiting for another %.0f s", address, left)
        await wait(stopping, min(RETRY_SECONDS, left))
    return False


async def _listens(host: str | None, port: int | None) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_SECONDS)
    except (OSError, asyncio.TimeoutError, UnicodeError):
        return False
    writer.close()
    return True
