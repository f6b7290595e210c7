"""Which web pages may use this service from a browser (WHATWG Fetch, section 3.2): cross-origin resource sharing.

A page of anybody that a developer happens to open could otherwise ask a service on his machine, which wants no key, for
whatever it likes. The vendors' APIs let every page in, since a key guards them. Here, unless told otherwise, only pages
that come from the same machine are let in, and applications that are no web sites at all: their origins have schemes of
their own. `null`, which any page can make of itself, is nobody.

Who sends no `Origin` is no browser, or asks for nothing that its page could read; requests that do something always
have one. WebSockets are not subject to these rules, and so are held to them here.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.dialects import spoken
from service.errors import Forbidden
from service.hosts import loopback

_OPEN = "/v1/"  # what vendors offer; what operators and tests ask for is not for pages
_SAFE = ("GET", "HEAD", "OPTIONS")
_WEB = ("http", "https")
_REMEMBERED = b"7200"  # s a browser may keep the answer: the most that Chromium keeps

Allowed = Callable[[str], bool]


def sharing(app: ASGIApp, origins: str) -> ASGIApp:
    """`app`, behind the rules. `origins` as in the settings."""
    allowed = _allowed(origins)

    async def shared(scope: Scope, receive: Receive, send: Send) -> None:
        origin = _header(scope, b"origin") if scope["type"] in ("http", "websocket") else None
        if origin is None:
            await app(scope, receive, send)
            return
        welcome = scope["path"].startswith(_OPEN) and allowed(origin.decode("latin-1"))
        if scope["type"] == "websocket":
            await (app(scope, receive, send) if welcome else send({"type": "websocket.close"}))
        elif _asks_beforehand(scope):
            await _answer(scope, origin if welcome else None, receive, send)
        elif welcome:
            await app(scope, receive, _with(_shown(origin), send))
        elif scope["method"] in _SAFE or not scope["path"].startswith(_OPEN):
            await app(scope, receive, send)  # the browser keeps the answer from the page
        else:
            await spoken(scope).refuse(_not_welcome())(scope, receive, send)

    return shared


def _allowed(origins: str) -> Allowed:
    if origins == "*":
        return lambda _: True
    if origins == "loopback":
        return _from_here
    named = frozenset(filter(None, origins.split(",")))
    return lambda origin: origin in named


def _from_here(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in _WEB:
        return "://" in origin
    return host.endswith(".localhost") or loopback(host)


def _asks_beforehand(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method") is not None


async def _answer(scope: Scope, origin: bytes | None, receive: Receive, send: Send) -> None:
    """To a browser that asks whether its page may ask. Everything may be asked for: routes refuse what they must."""
    if origin is None:
        await spoken(scope).refuse(_not_welcome())(scope, receive, send)
        return
    headers = [
        *_shown(origin),
        (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE, OPTIONS"),
        (b"access-control-max-age", _REMEMBERED),
    ]
    wanted = _header(scope, b"access-control-request-headers")
    if wanted is not None:
        headers.append((b"access-control-allow-headers", wanted))
    if _header(scope, b"access-control-request-private-network") is not None:
        headers.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _shown(origin: bytes) -> list[tuple[bytes, bytes]]:
    """Credentials are not allowed for: there are no cookies, and a page that has a key may send it as a header."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    ]


def _with(more: list[tuple[bytes, bytes]], send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((text for known, text in scope["headers"] if known == name), None)


def _not_welcome() -> Forbidden:
    return Forbidden(
        "Web pages of this origin may not use this service. Its operator can allow it with FASTMODE_CORS_ORIGINS.",
        code="origin_not_allowed",
    )
