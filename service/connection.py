"""Connections to Redis: one for commands, with a deadline on each, and one for reads that block.

Commands are not retried here: a claim or an enqueue that was carried out but not answered must not be carried out
twice. Who calls them knows whether to try again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from service import metrics
from service.errors import FastmodeError, Unavailable


class UnfitRedis(FastmodeError):
    """The server at REDIS_URL must not be used: it could silently throw jobs away."""


class Unanswered(Unavailable):
    """Redis did not answer in time, or cannot be reached: a command may have been carried out or not."""

    def __init__(self) -> None:
        super().__init__(
            "The queue cannot be reached right now. Please try again shortly.", reason="redis", retry_after=1
        )


_CONNECTIONS_MAX = 32  # of one client; further commands wait their turn, within the deadline


class Client(Redis):
    """A client whose commands are given inside `async with client.answered()`."""

    def __init__(self, pool: ConnectionPool, deadline: float) -> None:
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._deadline = deadline
        self._turns = asyncio.Semaphore(_CONNECTIONS_MAX)

    @asynccontextmanager
    async def answered(self) -> AsyncIterator[None]:
        """The one seam where Redis trouble becomes ours: raises Unanswered, at the latest when the deadline passes.

        The library's own deadline makes a task of every command, which costs more than the command.
        """
        try:
            async with asyncio.timeout(self._deadline), self._turns:
                yield
        except (RedisError, OSError, TimeoutError) as error:
            metrics.redis_error()
            raise Unanswered from error


def connect(url: str, timeout: float, *, blocking: float = 0.0) -> Client:
    """A client whose every command fails after `timeout` seconds, plus `blocking` for reads that wait on purpose."""
    pool: ConnectionPool = ConnectionPool.from_url(
        url,
        protocol=2,
        decode_responses=False,
        max_connections=2 * _CONNECTIONS_MAX,  # those of commands given up are replaced while they are taken down
        socket_timeout=None,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )
    return Client(pool, timeout + blocking)


async def verify(redis: Client) -> None:
    """Raises UnfitRedis if the server evicts keys under memory pressure, Unanswered if it cannot be asked."""
    async with redis.answered():
        memory = await redis.info("memory")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnfitRedis(
            f"Redis has maxmemory-policy {policy}: it would throw queued jobs away when memory runs low; "
            "set it to noeviction (CONFIG SET maxmemory-policy noeviction) or point REDIS_URL at another server"
        )
