"""Connections to Redis: one for commands, with a deadline on each, and one for reads that block.

Commands are not retried here: a claim or an enqueue that was carried out but not answered must not be carried out
twice. Who calls them knows whether to try again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from redis.asyncio import BlockingConnectionPool, Redis
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


def connect(url: str, timeout: float, *, blocking: float = 0.0) -> Redis:
    """A client whose every command fails after `timeout` seconds, plus `blocking` for reads that wait on purpose."""
    pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS_MAX,
        timeout=timeout,
        protocol=2,
        decode_responses=False,
        socket_timeout=timeout + blocking,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )
    return Redis.from_pool(pool)


async def verify(redis: Redis) -> None:
    """Raises UnfitRedis if the server evicts keys under memory pressure, Unanswered if it cannot be asked."""
    with translated():
        memory = await redis.info("memory")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnfitRedis(
            f"Redis has maxmemory-policy {policy}: it would throw queued jobs away when memory runs low; "
            "set it to noeviction (CONFIG SET maxmemory-policy noeviction) or point REDIS_URL at another server"
        )


@contextmanager
def translated() -> Iterator[None]:
    """The one seam where Redis trouble becomes ours."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        metrics.redis_error()
        raise Unanswered from error
