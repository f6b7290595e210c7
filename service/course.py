"""What becomes of one job's events when its answer meets a fault: they wait, are cut off, or end with an error.

Pure: events and the time go in, those that may go on come out, with the time at which more may. No token is lost or
doubled, whatever it has to wait for. A delta is split where a step falls into it; the end of a choice (its finish) is
kept back where the step comes after the last token, so that nothing says that the answer is complete.
Knows the steps of `service.faults` and the grammar of `service.messages`; not where events come from and go.
"""

from collections import deque
from collections.abc import Iterable
from math import inf

from service.errors import ServiceError
from service.faults import Step
from service.messages import Delta, Event, Failed, Finished


class Course:
    """Of one job. `due` is when held events may go on (s); `cut` and `error` say how the answer has ended."""

    def __init__(self, steps: Iterable[Step], choices: int) -> None:
        self.cut = False
        self.error: ServiceError | None = None
        self.due = inf
        self._steps = deque(steps)
        self._held: deque[Event] = deque()
        self._until = -inf  # nothing goes on before
        self._passed = 0  # tokens
        self._open = choices

    @property
    def holding(self) -> int:
        """What waits: one for each event, and one for each byte of text; 0: nothing waits."""
        return sum(len(event.text) + 1 if isinstance(event, Delta) else 1 for event in self._held)

    def take(self, events: Iterable[Event], now: float) -> list[Event]:
        """What may go on at `now`, of these events and of those that wait."""
        self._held += events
        gone: list[Event] = []
        while self._held and self._until <= now and self.error is None and not self.cut:
            head = self._held[0]
            step = self._steps[0] if self._steps else None
            if step is not None and isinstance(head, Delta | Finished) and self._come(step, head):
                self._steps.popleft()
                self._do(step, now)
            elif step is not None and isinstance(head, Delta):
                gone += self._pass(head, step.at - self._passed)
            else:
                gone.append(self._held.popleft())
                if isinstance(head, Failed):
                    self._steps.clear()
        self.due = self._until if self._held and self._until > now else inf
        return gone

    def rest(self) -> list[Event]:
        """What a cut has kept back: the client does not get it, but it has been generated."""
        held, self._held = list(self._held), deque()
        return held

    def _come(self, step: Step, head: Delta | Finished) -> bool:
        """It is the step's turn: its tokens have gone on, or there are no more."""
        return step.at <= self._passed or isinstance(head, Finished) or (head.count == 0 and self._is_last(head))

    def _do(self, step: Step, now: float) -> None:
        match step.does:
            case "wait":
                self._until = now + step.seconds
            case "cut":
                self.cut = True
            case "error" if step.refusal is not None:
                self.error = step.refusal.error()
                self._held.clear()

    def _pass(self, delta: Delta, room: int) -> list[Event]:
        """As many tokens as there is room for before the next step; the rest stays first of those held."""
        self._held.popleft()
        if delta.count < room and not self._is_last(delta):
            self._passed += delta.count
            self._open -= delta.finish is not None
            return [delta]
        first, rest = delta.split(min(room, delta.count))
        if rest.count or rest.finish is not None:
            self._held.appendleft(rest)
        self._passed += first.count
        return [first] if first.count else []

    def _is_last(self, delta: Delta) -> bool:
        """It ends the last choice that has not ended."""
        return delta.finish is not None and self._open == 1
