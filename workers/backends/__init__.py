"""What serves a pool's jobs. A worker hosts one backend."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from service.messages import Event, Job

Emit = Callable[[list[Event]], Awaitable[None]]


class Backend(Protocol):
    """Takes jobs up, and reports what becomes of them as events in the grammar of service.messages.

    All methods but `run` return at once; what they cause is emitted by `run`. An id that is not here is ignored.
    """

    @property
    def slots(self) -> int:
        """How many choices of jobs it runs at once."""
        ...

    @property
    def lateness(self) -> float:
        """How late events have been emitted since this was last asked, on average (s)."""
        ...

    def submit(self, job: Job, epoch: int, queued: float, progress: tuple[int, ...] = ()) -> None:
        """Take up a job that waited `queued` seconds. A Started event follows, or a Failed one if it cannot be.

        Of a job that another worker had before, at least `progress` tokens of each choice have been relayed. The same
        tokens may be emitted again; others in their place may not.
        """
        ...

    def progress(self) -> Mapping[str, Collection[int]]:
        """Of each job, how many tokens of each choice have been emitted for certain."""
        ...

    def cancel(self, job: str) -> None:
        """Stop the job; a Finished event that says so follows, with what was generated."""
        ...

    def drop(self, job: str) -> None:
        """Stop the job without a word: it is another worker's, or nobody listens."""
        ...

    def pause(self, job: str) -> None:
        """Generate nothing for the job until it is resumed."""
        ...

    def resume(self, job: str) -> None: ...

    def untouched(self) -> list[str]:
        """Jobs none of whose tokens has been generated: another worker can take them at no loss."""
        ...

    async def run(self, emit: Emit) -> None:
        """Serve until cancelled. Awaits each emission before the next."""
        ...
