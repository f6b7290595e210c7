"""A backend for tests of what stands in front of one: it does what its test says."""

import asyncio
from collections.abc import Mapping

from service.messages import Event, Job, Started
from workers.backends import Emit


class ByHand:
    """A backend that emits what it is told to, and notes what is asked of it."""

    slots = 8
    lateness = 0.0

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.emissions: asyncio.Queue[list[Event]] = asyncio.Queue()

    def submit(self, job: Job, epoch: int, queued: float, progress: tuple[int, ...] = ()) -> None:
        self.taken.append(job.id)
        self.emissions.put_nowait([Started(job.id, epoch, queued)])

    def progress(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    def cancel(self, job: str) -> None:
        self.asked.append(("cancel", job))

    def drop(self, job: str) -> None:
        self.asked.append(("drop", job))

    def pause(self, job: str) -> None:
        self.asked.append(("pause", job))

    def resume(self, job: str) -> None:
        self.asked.append(("resume", job))

    def untouched(self) -> list[str]:
        return []

    async def run(self, emit: Emit) -> None:
        while True:
            await emit(await self.emissions.get())
