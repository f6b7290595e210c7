"""Content codings of request bodies: what a client has compressed is unpacked, up to a bound. Sans-IO.

Some clients compress long conversations (RFC 9110, section 8.4; gzip is RFC 1952, zstd is RFC 8878). A few kilobytes
can unpack to gigabytes: nothing here grows beyond the bound, nor takes more memory than the RFC asks of a decoder.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

import zstandard

from service.errors import InvalidRequest

_WINDOW_MAX = 8 * 1024 * 1024  # RFC 8878, section 3.1.1.1.2: what a decoder should support at least


class Torn(InvalidRequest):
    """The body is not what its coding says."""


class TooLong(Exception):
    """There is more than the bound."""


def _gunzip(body: bytes, limit: int) -> bytes:
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = unpacking.decompress(body, limit + 1)
    except zlib.error:
        raise _torn("gzip") from None
    if len(plain) > limit:
        raise TooLong
    if not unpacking.eof or unpacking.unused_data:
        raise _torn("gzip")
    return plain


def _unzstd(body: bytes, limit: int) -> bytes:
    unpacking = zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX)
    try:
        with unpacking.stream_reader(body, read_across_frames=True) as reader:
            plain = reader.read(limit + 1)
    except zstandard.ZstdError:
        raise _torn("zstd") from None
    if len(plain) > limit:
        raise TooLong
    if not plain:
        raise _torn("zstd")
    return plain


CODINGS: Mapping[str, Callable[[bytes, int], bytes]] = MappingProxyType(
    {"gzip": _gunzip, "x-gzip": _gunzip, "zstd": _unzstd}
)


def unpacked(coding: str, body: bytes, limit: int) -> bytes:
    """The plain body, of at most `limit` bytes; `coding` is one of CODINGS. Raises Torn, TooLong."""
    return CODINGS[coding](body, limit)


def _torn(coding: str) -> Torn:
    return Torn(f"The body of the request is not valid {coding}, or not all of it.", code="invalid_encoding")
