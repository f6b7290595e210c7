"""Keys and the accounts behind them, in Redis. What it promises:

- A key is shown once, when it is made. What is kept is a SHA-256 of its secret, which is random and has 256 bits: there
  is nothing to guess, so nothing has to be slow.
- Whoever follows the keys knows every change within `LOOK_EVERY` seconds, and a key that it has not heard of at once:
  it asks. A known key costs no round trip.
- As long as Redis is away, the keys known last go on to hold.

    fm:{keys}:records   HASH    public id -> record
    fm:{keys}:changes   STRING  how often that was changed
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from contextlib import suppress
from typing import Any

import msgspec

from service.accounts import Account
from service.connection import Client
from service.errors import InvalidRequest, NotFound, Unavailable

PREFIX = "sk-fastmode-"
LOOK_EVERY = 0.5  # s
KEYS_MAX = 10_000
_RECORDS, _CHANGES = "fm:{keys}:records", "fm:{keys}:changes"
_KEY = re.compile(r"sk-fastmode-([0-9a-f]{12})-([0-9a-f]{64})")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is of the secret; `created` in Unix seconds."""

    account: Account
    digest: bytes
    created: int


class Keys:
    """Every method but `known` asks Redis, and raises Unavailable when that does not answer in time."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._records: dict[str, Record] = {}
        self._changes: bytes | None = None
        self.heard = False  # of what keys there are

    @property
    def any(self) -> bool:
        """There is a key, as far as is known."""
        return bool(self._records)

    def known(self, key: str) -> Account | None:
        """Whose key that is, if it is one that has been heard of."""
        return _owner(self._records, key)

    async def find(self, key: str) -> Account | None:
        """Whose key that is, also if it is too new to have been heard of."""
        match = _KEY.fullmatch(key)
        if match is None:
            return None
        if match[1] not in self._records:
            async with self._redis.answered():
                text = await self._redis.hget(_RECORDS, match[1])
            if text is None:
                return None
            await self.refresh()
        return _owner(self._records, key)

    async def create(self, account: Account, now: float) -> tuple[str, Record]:
        """A new key, and what is kept of it; the account gets the key's public id. Raises InvalidRequest: too many."""
        if len(self._records) >= KEYS_MAX:
            raise InvalidRequest(f"There are {KEYS_MAX} keys already; delete some.", code="too_many_keys")
        name, secret = secrets.token_hex(6), secrets.token_hex(32)
        record = Record(account=msgspec.structs.replace(account, id=name), digest=_digest(secret), created=int(now))
        await self._put(record)
        return f"{PREFIX}{name}-{secret}", record

    async def change(self, account: Account) -> Record:
        """Another account in the place of that with its id. Raises NotFound."""
        before = await self._get(account.id)
        record = msgspec.structs.replace(before, account=account)
        await self._put(record)
        return record

    async def delete(self, name: str) -> None:
        """Raises NotFound."""
        await self._get(name)
        async with self._redis.answered(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(_RECORDS, name)
            pipe.incr(_CHANGES)
            await pipe.execute()
        await self.refresh()

    async def list(self) -> list[Record]:
        """In the order in which they were made."""
        await self.refresh()
        return sorted(self._records.values(), key=lambda record: record.created)

    async def refresh(self) -> None:
        """Know what there is."""
        async with self._redis.answered(), self._redis.pipeline(transaction=True) as pipe:
            pipe.get(_CHANGES)
            pipe.hgetall(_RECORDS)
            changes, records = await pipe.execute()
        self._records = {name.decode(): _decoder.decode(text) for name, text in records.items()}
        self._changes, self.heard = changes, True

    async def follow(self) -> None:
        """Hear of changes, for as long as it runs."""
        while True:
            with suppress(Unavailable):
                async with self._redis.answered():
                    changes = await self._redis.get(_CHANGES)
                if changes != self._changes:
                    await self.refresh()
            await asyncio.sleep(LOOK_EVERY)

    async def _get(self, name: str) -> Record:
        async with self._redis.answered():
            text: Any = await self._redis.hget(_RECORDS, name)
        if text is None:
            raise NotFound(f"There is no key with the id {name[:64]!r}.")
        return _decoder.decode(text)

    async def _put(self, record: Record) -> None:
        async with self._redis.answered(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(_RECORDS, record.account.id, _encoder.encode(record))
            pipe.incr(_CHANGES)
            await pipe.execute()
        await self.refresh()


def _owner(records: dict[str, Record], key: str) -> Account | None:
    match = _KEY.fullmatch(key)
    record = records.get(match[1]) if match is not None else None
    if match is None or record is None or not hmac.compare_digest(record.digest, _digest(match[2])):
        return None
    return record.account


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)
