"""Reads request bodies: JSON by their own account, whole, up to a size each and a size together, and within a time.

The size of a compressed body is what it unpacks to. A byte order mark before the JSON is ignored (RFC 8259, section
8.1, lets a reader do so: some of Windows' editors write one).

A gateway whose bodies have no room together would die of what many clients send at once; one that parsed them all
where they come would hold up every stream meanwhile.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Self, TypeVar

from fastapi import Request

from gateway.codings import CODINGS, TooLong, unpacked
from service.errors import BodyTooLarge, Contended, RequestTimeout, UnsupportedMedia

_PATIENCE = 60.0  # s from a request's head to the end of its body, however the body comes
_LARGE = 256 * 1024  # bytes; a larger body takes milliseconds to parse and to count, during which no token would go out

_PLAIN = ("", "identity")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_Parsed = TypeVar("_Parsed")


class Bodies:
    """What one gateway holds of bodies. Invariant: `held` is the sum of the rooms in use, and at most `together`."""

    def __init__(self, each: int, together: int) -> None:
        self.each = each
        self.held = 0
        self._together = together
        self._large = asyncio.Lock()
        self._unpacking = asyncio.Lock()
        self._laborious = asyncio.Lock()

    def room(self) -> "Room":
        """For one body, from its first byte until nothing made of it is kept here any more."""
        return Room(self)

    def take(self, size: int) -> None:
        """Raises Contended when others hold too much."""
        if self.held + size > self._together:
            raise Contended(
                "This server is receiving as many large requests as it can hold. Please try again in 1s.",
                reason="bodies",
                retry_after=1,
            )
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size

    async def unpack(self, coding: str, body: bytes) -> bytes:
        """Beside the event loop and one at a time. Raises BodyTooLarge, codings.Torn."""
        async with self._unpacking:
            try:
                return await asyncio.to_thread(unpacked, coding, body, self.each)
            except TooLong:
                raise _too_large(self.each) from None

    def turn(self, body: bytes, laborious: bool = False) -> AbstractAsyncContextManager[None]:
        """To be held while a body is parsed and counted: large ones go one at a time, small ones at once.

        So do `laborious` ones, of which more is made than that, however small they are.
        """
        if laborious:
            return self._laborious
        return self._large if len(body) > _LARGE else nullcontext()


class Room:
    """What one body takes. Leaving it gives all of it back."""

    __slots__ = ("_bodies", "_size")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bodies.give_back(self._size)
        self._size = 0

    async def read(self, request: Request) -> bytes:
        """The whole body.

        Raises UnsupportedMedia, RequestTimeout, Contended, and BodyTooLarge as soon as more bytes are announced or have
        come than one body may have; codings.Torn; starlette.requests.ClientDisconnect when the client leaves before
        the end.
        """
        coding = _coding(request)
        limit = self._bodies.each
        announced = request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        parts = []
        try:
            async with asyncio.timeout(_PATIENCE):
                async for part in request.stream():
                    if self._size + len(part) > limit:
                        raise _too_large(limit)
                    self.hold(len(part))
                    parts.append(part)
        except TimeoutError:
            raise RequestTimeout(f"The request's body was not complete after {_PATIENCE:.0f} seconds.") from None
        body = b"".join(parts)
        parts.clear()
        if coding not in _PLAIN:
            body = await self._bodies.unpack(coding, body)
            self.hold(len(body))
        return body.removeprefix(_BYTE_ORDER_MARK)

    def hold(self, size: int) -> None:
        """Take room for so many bytes more. Raises Contended."""
        self._bodies.take(size)
        self._size += size


async def parsed(body: bytes, parse: Callable[[bytes], _Parsed], laborious: bool = False) -> _Parsed:
    """What `parse` makes of a body; of a large one, or where it is `laborious`, beside the event loop."""
    return await asyncio.to_thread(parse, body) if laborious or len(body) > _LARGE else parse(body)


def _coding(request: Request) -> str:
    """How a body of JSON is compressed.

    Other types are refused, not guessed at: web pages of anybody may send them here without asking first.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedMedia(
            f"Unsupported content type: '{kind[:64]}'. Send the body as JSON, with the header 'Content-Type: "
            "application/json'."
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in _PLAIN and coding not in CODINGS:
        known = ", ".join(CODINGS)
        raise UnsupportedMedia(
            f"Unsupported content encoding: '{coding[:64]}'. Send the body as it is, or in one of: {known}."
        )
    return coding


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body of the request is larger than {limit} bytes.")
