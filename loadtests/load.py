"""Two ways to put load on a server: streams that run side by side, and clients that ask again and again.

Both connect before they begin, so that a connection's handshake is in no figure.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from loadtests.client import Address, Connection, Timing, Wrong, check, clock

Cpu = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`streams` of `tokens` each, arriving evenly over `arrivals` seconds, each at `rate` tokens per second."""

    streams: int
    tokens: int
    rate: float
    arrivals: float
    patience: float = 2.0  # streams that take so many times as long as planned are cut off

    @property
    def duration(self) -> float:
        return self.tokens / self.rate

    @property
    def plateau(self) -> tuple[float, float]:
        """From when to when, in seconds from the start, every stream should be running."""
        margin = 0.05 * (self.duration - self.arrivals)
        return self.arrivals + margin, self.duration - margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What came of a plan. `complete` answers have been checked to be what was asked for; `cut` ones took too long.

    The rest is about the plateau: its length in seconds, and tokens, reads and CPU seconds of each process in it.
    """

    complete: Sequence[Timing]
    cut: Sequence[Timing]
    seconds: float
    tokens: int
    reads: int
    cpu: Mapping[str, float]

    @property
    def timings(self) -> list[Timing]:
        """Of all streams that got far enough to have a rate."""
        return [timing for timing in (*self.complete, *self.cut) if timing.response.content > 1]


@dataclass(frozen=True, slots=True)
class Asked:
    """Answers to clients that ask again and again, how long they did, and CPU seconds of each process meanwhile."""

    timings: Sequence[Timing]
    seconds: float
    cpu: Mapping[str, float]

    @property
    def per_second(self) -> float:
        return len(self.timings) / self.seconds


async def sustain(address: Address, request: bytes, plan: Plan, cpu: Cpu) -> Sustained:
    """Run the plan. Raises Wrong, ConnectionError."""
    async with AsyncExitStack() as stack:
        connections = await _connected(stack, address, plan.streams)
        start = clock()
        tasks = [
            asyncio.create_task(_at(start + number * plan.arrivals / plan.streams, connection, request))
            for number, connection in enumerate(connections)
        ]
        begin, end = plan.plateau
        before = await _snapshot(start + begin, connections, cpu)
        after = await _snapshot(start + end, connections, cpu)
        done, late = await asyncio.wait(
            tasks, timeout=plan.arrivals + plan.patience * plan.duration - (clock() - start)
        )
        cut = [connection.timing() for task, connection in zip(tasks, connections, strict=True) if task in late]
        for connection in connections:
            connection.abort()
        await asyncio.gather(*late, return_exceptions=True)
    complete = [task.result() for task in done]
    for timing in complete:
        check(timing, plan.tokens)
    return Sustained(
        complete=complete,
        cut=cut,
        seconds=after.at - before.at,
        tokens=after.tokens - before.tokens,
        reads=after.reads - before.reads,
        cpu=_since(before.cpu, after.cpu),
    )


async def ask_repeatedly(
    address: Address, request: bytes, cpu: Cpu, *, clients: int, seconds: float, tokens: int, stream: bool
) -> Asked:
    """Each client asks as soon as it has its answer, for `seconds`. Raises Wrong, ConnectionError."""
    timings: list[Timing] = []

    async def ask(connection: Connection) -> None:
        while clock() < end:
            timings.append(await connection.ask(request))

    async with AsyncExitStack() as stack:
        connections = await _connected(stack, address, clients)
        start, before = clock(), cpu()
        end = start + seconds
        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                tasks.create_task(ask(connection))
        took, used = clock() - start, _since(before, cpu())
    for timing in timings:
        check(timing, tokens, stream=stream)
    if not timings:
        raise Wrong("no answer came")
    return Asked(timings, took, used)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at: float
    tokens: int
    reads: int
    cpu: Mapping[str, float]


def _since(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds - before[name] for name, seconds in after.items()}


async def _snapshot(due: float, connections: Sequence[Connection], cpu: Cpu) -> _Snapshot:
    await asyncio.sleep(max(0.0, due - clock()))
    responses = [connection.response for connection in connections]
    return _Snapshot(
        clock(),
        sum(response.content for response in responses),
        sum(response.reads for response in responses),
        dict(cpu()),
    )


async def _at(due: float, connection: Connection, request: bytes) -> Timing:
    await asyncio.sleep(max(0.0, due - clock()))
    return await connection.ask(request)


async def _connected(stack: AsyncExitStack, address: Address, count: int) -> list[Connection]:
    connections = [await Connection.connect(address) for _ in range(count)]
    for connection in connections:
        stack.callback(connection.close)
    return connections
