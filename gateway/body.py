"""Reads a request's body, up to a limit."""

from fastapi import Request

from service.errors import BodyTooLarge


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as more than `limit` bytes are announced or have come."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body of the request is larger than {limit} bytes.")
