"""The code that the REST endpoints share: JSON in, JSON errors out, limits, blocking calls beside the event loop."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

MAX_BODY_BYTES = 100 << 20
MAX_REQUESTS = 64
MAX_SEGMENT_IDS = 1024
MAX_GRACE_SECONDS = 3600
BODY_SECONDS = 60.0

logger = logging.getLogger("mooncake.mooncake_store_service")

Result = TypeVar("Result")
Service = TypeVar("Service")


class RequestError(Exception):
    """An error that the endpoint answers with `status` (400 or more) and `{"error": message, ...}`."""

    def __init__(self, status: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


def success(**fields: object) -> web.Response:
    """An answer 200 with `{"status": "success", ...}`."""
    return answer(200, {"status": "success", **fields})


def answer(status: int, body: object) -> web.Response:
    """An answer with `body` as JSON."""
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")


def endpoint(
    handler: Callable[[Service, web.Request], Awaitable[web.Response]],
) -> Callable[[Service, web.Request], Awaitable[web.Response]]:
    """Wraps a handler: answers a RequestError as it says, and any other exception with 500 and its text."""

    @functools.wraps(handler)
    async def handle(service: Service, request: web.Request) -> web.Response:
        try:
            return await handler(service, request)
        except RequestError as error:
            return answer(error.status, {"error": str(error), **error.more})
        except web.HTTPException:
            raise
        except Exception as error:
            logger.exception("%s failed", handler.__name__)
            return answer(500, {"error": str(error)})

    return handle


def limit_requests(most: int) -> Middleware:
    """A middleware that answers 503 while `most` requests run: each request may hold a body and a thread."""
    working = 0

    @web.middleware
    async def limited(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal working
        if working >= most:
            return answer(503, {"error": f"{most} requests are being worked on; try again later"})
        working += 1
        try:
            return await handler(request)
        finally:
            working -= 1

    return limited


@web.middleware
async def json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors of the web library (unknown path, wrong method, body too long) into JSON."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        return answer(413, {"error": f"The body is longer than {MAX_BODY_BYTES} bytes"})
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        return answer(413, {"error": f"The body is longer than {MAX_BODY_BYTES} bytes"})
    except web.HTTPException as error:
        if error.status < 400:
            raise
        refusal = answer(error.status, {"error": error.reason})
        if "Allow" in error.headers:
            refusal.headers["Allow"] = error.headers["Allow"]
        return refusal


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body. Raises RequestError 400 for any other body, and 408 if the body does not arrive in
    time.
    """
    try:
        body = await asyncio.wait_for(request.json(), BODY_SECONDS)
    except asyncio.TimeoutError:
        raise RequestError(408, f"The body did not come within {BODY_SECONDS:g} s") from None
    # Malformed chunks or compression, or a broken connection.
    except (web.RequestPayloadError, ConnectionError):
        raise RequestError(400, "The body cannot be read") from None
    # Text that is not JSON, bytes that are not text, an unknown charset, or brackets nested too deep.
    except (ValueError, LookupError, RecursionError):
        raise RequestError(400, "Malformed JSON body") from None
    if not isinstance(body, dict):
        raise RequestError(400, "Request body must be a JSON object")
    return body


def text_of(body: dict[str, Any], name: str, default: str = "") -> str:
    """A field of the body that is a text, valid in UTF-8. Raises RequestError 400 for anything else."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise RequestError(400, f"Invalid {name}, must be a string")
    return checked(name, value)


def checked(name: str, value: str) -> str:
    """The text. Raises RequestError 400 if it has a lone surrogate, which JSON can express and UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RequestError(400, f"Invalid {name}, must be valid Unicode") from None
    return value


def size_of(body: dict[str, Any]) -> int:
    """The field `size`, in bytes. Raises RequestError 400 unless it is a positive integer."""
    size = body.get("size")
    if type(size) is not int or not 0 < size < 1 << 63:
        raise RequestError(400, "Invalid size, must be a positive integer")
    return size


def offset_of(body: dict[str, Any]) -> int:
    """The field `offset`, in bytes; 0 if missing. Raises RequestError 400 unless it is a non-negative integer."""
    offset = body.get("offset", 0)
    if type(offset) is not int or not 0 <= offset < 1 << 63:
        raise RequestError(400, "Invalid offset, must be a non-negative integer")
    return offset


def grace_of(body: dict[str, Any]) -> int:
    """The field `grace_period_seconds`; 0 if missing. Raises RequestError 400 unless it is an integer in 0..3600."""
    grace = body.get("grace_period_seconds", 0)
    if type(grace) is not int or not 0 <= grace <= MAX_GRACE_SECONDS:
        bounds = f"must be a non-negative integer no greater than {MAX_GRACE_SECONDS}"
        raise RequestError(400, f"Invalid grace_period_seconds, {bounds}")
    return grace


def segment_ids_of(body: dict[str, Any]) -> list[str]:
    """The field `segment_ids`: one id or a list of ids. Raises RequestError 400 if it is missing or holds anything but
    texts.
    """
    ids = body.get("segment_ids", [])
    if isinstance(ids, str):
        ids = [ids] if ids else []
    if not ids:
        raise RequestError(400, "Missing segment_ids")
    if not isinstance(ids, list) or len(ids) > MAX_SEGMENT_IDS or not all(isinstance(one, str) for one in ids):
        raise RequestError(400, f"Invalid segment_ids, must be at most {MAX_SEGMENT_IDS} strings")
    return [checked("segment_ids", one) for one in ids]


async def in_thread(call: Callable[..., Result], *arguments: object) -> Result:
    """Runs a blocking call in a new thread, and waits for it. Returns or raises what the call does.

    The threads are not from a pool. Some calls block for a whole grace period, and must not delay other calls or the
    end of the process.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((result, error))

    def run() -> None:
        result, error = None, None
        try:
            result = call(*arguments)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            logger.debug("the service ended before a call did")

    threading.Thread(target=run, name=getattr(call, "__name__", "call"), daemon=True).start()
    result, error = await outcome
    if error is not None:
        raise error
    return cast(Result, result)
