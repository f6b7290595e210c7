"""Reads a request's body: JSON by its own account, whole, up to a size, and without a long silence."""

import asyncio

from fastapi import Request

from service.errors import BodyTooLarge, RequestTimeout, UnsupportedMedia

_SILENCE_MAX = 30.0  # s without a byte of a body that is not complete


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises UnsupportedMedia, RequestTimeout, and BodyTooLarge as soon as more than `limit` bytes are announced or have
    come; starlette.requests.ClientDisconnect when the client leaves before the end.
    """
    _check_kind(request)
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(_SILENCE_MAX) as patience:
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                patience.reschedule(clock() + _SILENCE_MAX)
    except TimeoutError:
        raise RequestTimeout(f"No more of the request's body came for {_SILENCE_MAX:.0f} seconds.") from None
    return b"".join(parts)


def _check_kind(request: Request) -> None:
    """Other types are refused, not guessed at: web pages of anybody may send them here without asking first."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedMedia(
            f"Unsupported content type: '{kind[:64]}'. Send the body as JSON, with the header 'Content-Type: "
            "application/json'."
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise UnsupportedMedia(f"Unsupported content encoding: '{coding[:64]}'. Send the body as it is.")


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body of the request is larger than {limit} bytes.")
