"""Who may call which endpoint, and which files an endpoint may name.

The API has no users. Endpoints that change this process or name a file are for callers of the same machine, and for
those who have the cluster's token. No web page may change anything.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

from mooncake._rest.request import RequestError, answer

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

TOKEN_VARIABLE = "MOONCAKE_AUTH_TOKEN"
TOKEN_FILE_VARIABLE = "MOONCAKE_AUTH_TOKEN_FILE"
MAX_TOKEN_BYTES = 512
# Proxies of the same machine speak for callers of others, and say so in one of these.
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
_READING = ("GET", "HEAD")

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


def token_of_environment() -> str:
    """The cluster's token, from a variable or from the file that another one names; empty if there is none.

    Raises OSError if the file cannot be read, and ValueError if both variables are set, or if others may write the file
    or it holds no token.
    """
    token, path = os.environ.get(TOKEN_VARIABLE, ""), os.environ.get(TOKEN_FILE_VARIABLE, "")
    if not path:
        return token
    if token:
        raise ValueError(f"{TOKEN_VARIABLE} and {TOKEN_FILE_VARIABLE} are both set: one of them gives the token")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o022:
            raise ValueError(f"{TOKEN_FILE_VARIABLE}={path!r}: other users may write it; take that right from them")
        content = file.read(2 * MAX_TOKEN_BYTES).strip()
    if not 0 < len(content) <= MAX_TOKEN_BYTES:
        raise ValueError(f"{TOKEN_FILE_VARIABLE}={path!r}: it must hold the token, of at most {MAX_TOKEN_BYTES} bytes")
    return content.decode(errors="surrogateescape")


@web.middleware
async def refuse_web_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuses requests that change something and that a page of another site could have made a browser send."""
    if request.method in _READING:
        return await handler(request)
    if not _is_own_origin(request.headers):
        return answer(403, {"error": f"The origin {request.headers['Origin']!r} is foreign: pages may change nothing"})
    # A browser sends other types without asking this server first. It always asks before a DELETE.
    if request.content_type != "application/json" and (request.method != "DELETE" or request.can_read_body):
        return answer(415, {"error": "The body must be JSON: send the header 'Content-Type: application/json'"})
    return await handler(request)


def for_operators(token: str, endpoint: Endpoint) -> Endpoint:
    """The endpoint, for callers of this machine and, unless `token` is empty, for those who send it."""

    @functools.wraps(endpoint)
    async def guarded(request: web.Request) -> web.StreamResponse:
        if _is_local(request) or _has_token(request, token):
            return await endpoint(request)
        how = f"as 'Authorization: Bearer TOKEN'; {TOKEN_VARIABLE} sets it"
        return answer(403, {"error": f"Only callers of this machine may ask this, or those with the token ({how})"})

    return guarded


def path_within(folder: str, path: str) -> str:
    """The file that the path names, with symbolic links resolved. Raises RequestError 403 if it lies elsewhere."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    if os.path.commonpath([real, root]) != root or real == root:
        raise RequestError(403, f"{path} is not a file in {folder}; the flag --mount-folder names another folder")
    return real


def _is_own_origin(headers: Mapping[str, str]) -> bool:
    """Whether no page sent the request, or one of this server. A name could be that of any site, which lets it resolve
    to this machine; so only addresses and `localhost` count.
    """
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        page = urlsplit(origin)
    except ValueError:
        return False
    is_same = page.netloc != "" and page.netloc == headers.get("Host", "")
    return is_same and (page.hostname == "localhost" or _address(page.hostname) is not None)


def _is_local(request: web.Request) -> bool:
    address = _address(request.remote)
    is_forwarded = any(header in request.headers for header in _FORWARDED)
    return address is not None and address.is_loopback and not is_forwarded


def _address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is; for an IPv4 address in the form of IPv6, the IPv4 address."""
    try:
        address = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _has_token(request: web.Request, token: str) -> bool:
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    expected = token.encode(errors="surrogateescape")
    is_same = hmac.compare_digest(sent.strip().encode(errors="surrogateescape"), expected)
    return token != "" and scheme.lower() == "bearer" and is_same
