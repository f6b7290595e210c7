"""Lets each token of one job pass once and in order, whatever workers died, froze or started again. Pure."""

import msgspec

from service.messages import Delta, Event


class Gap(Exception):
    """Tokens are missing: the stream cannot be completed truthfully."""


class Fence:
    """State of one job. `epoch` never falls; of choice c exactly `passed[c]` tokens have been let through."""

    __slots__ = ("_ended", "epoch", "passed")

    def __init__(self, choices: int) -> None:
        self.epoch = 0
        self.passed = [0] * choices
        self._ended = [False] * choices

    def admit(self, event: Event) -> Event | None:
        """What of the event is news, or None. Raises Gap when tokens before it never came."""
        if event.epoch < self.epoch:
            return None
        self.epoch = event.epoch
        return self._news(event) if isinstance(event, Delta) else event

    def _news(self, delta: Delta) -> Delta | None:
        choice, passed = delta.choice, self.passed[delta.choice]
        if self._ended[choice]:
            return None
        if delta.offset > passed:
            raise Gap(f"choice {choice} continues at token {delta.offset}, and {passed} have come")
        end = delta.offset + delta.count
        if end <= passed and delta.finish is None:
            return None
        if delta.offset < passed:
            known = passed - delta.offset
            rest = delta.text.split(b"\n")[known:]
            delta = msgspec.structs.replace(delta, offset=passed, count=end - passed, text=b"\n".join(rest))
        self.passed[choice] = end
        self._ended[choice] = delta.finish is not None
        return delta
