"""Lets each token of one job pass once and in order, whatever workers died, froze or started again. Pure."""

from service.messages import Delta, Event, Failed, Finished


class Gap(Exception):
    """Tokens are missing: the stream cannot be completed truthfully."""


class Fence:
    """State of one job. `epoch` never falls; of choice c exactly `passed[c]` tokens have been let through.

    Nothing passes after the event that ends the job.
    """

    __slots__ = ("_ended", "_over", "epoch", "passed")

    def __init__(self, choices: int) -> None:
        self.epoch = 0
        self.passed = [0] * choices
        self._ended = [False] * choices
        self._over = False

    def admit(self, event: Event) -> Event | None:
        """What of the event is news, or None. Raises Gap when tokens before it never came."""
        if event.epoch < self.epoch or self._over:
            return None
        self.epoch = event.epoch
        if isinstance(event, Delta):
            return self._news(event)
        if isinstance(event, Finished) and not event.cancelled and not all(self._ended):
            raise Gap(f"it is said to have finished, and only {sum(self._ended)} of its choices have ended")
        self._over = isinstance(event, Finished | Failed)
        return event

    def _news(self, delta: Delta) -> Delta | None:
        choice, passed = delta.choice, self.passed[delta.choice]
        if self._ended[choice]:
            return None
        if delta.offset > passed:
            raise Gap(f"choice {choice} continues at token {delta.offset}, and {passed} have come")
        end = delta.offset + delta.count
        if end <= passed and delta.finish is None:
            return None
        if end < passed:
            raise Gap(f"choice {choice} ends at token {end}, and {passed} have come")
        if delta.offset < passed:
            _, delta = delta.split(passed - delta.offset)
        self.passed[choice] = end
        self._ended[choice] = delta.finish is not None
        return delta
