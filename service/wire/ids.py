"""Ids of the objects in an answer, as the dialects form them: a prefix and base62 digits.

They are derived from the job's id and the place in its answer, so that whoever encodes the same answer again, whole, as
a stream, or after another worker has taken the job up, calls its parts the same.
"""

from hashlib import blake2b

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BYTES = 64  # 86 digits


def derived(prefix: str, length: int, *of: object) -> str:
    """`prefix` and `length` (at most 80) digits that depend on `of` alone, and on its order."""
    digest = blake2b("\0".join(map(str, of)).encode(), digest_size=_BYTES).digest()
    number = int.from_bytes(digest, "little")
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return prefix + "".join(digits)
