"""The same replica, written the obvious way: it takes every step, one after another, and looks at every sequence in it.

No closed form, no heap, no event: slow and plain, so that it can be checked by reading. The engine must agree with it.
Only the table of speculative draws is the engine's own; it is read here one step at a time.
"""

from dataclasses import dataclass

from service.roofline import StepTime
from workers.engine import Limits, Sequence
from workers.engine.speculation import Bursts

INSTANT = 1e-9


@dataclass(eq=False)
class Request:
    """What the replica knows of one sequence."""

    sequence: Sequence
    arrival: float
    tokens: int  # out so far
    computed: int = 0  # context tokens in the cache
    room: int = 0  # context tokens it was admitted with
    decoded: int = 0  # steps it has decoded since
    drawn: int = 0  # steps it has ever decoded
    decodes: bool = False
    first: float | None = None  # when its first token was out
    last: float | None = None  # when its last one was
    finished: bool = False


class StepwiseReplica:
    """Takes what Engine takes. What came of it stands in `requests`, by id."""

    def __init__(self, step: StepTime, limits: Limits, start: float = 0.0) -> None:
        self.step = step
        self.limits = limits
        self.start = start
        self.now = 0.0
        self.step_ends: float | None = None  # of the step in flight
        self.requests: dict[str, Request] = {}
        self.coming: list[Request] = []
        self.waiting: list[Request] = []
        self.running: list[Request] = []  # in order of admission
        self.chunks: dict[str, int] = {}
        self.share = step.kv_capacity - limits.ambient_sequences * limits.ambient_context
        self.draws = Bursts(step.emission)
        self.preemptions = 0
        self.steps = 0
        self.drafted = 0
        self.accepted = 0

    def add(self, sequence: Sequence) -> None:
        request = Request(sequence, max(sequence.arrival - self.start, self.now), sequence.generated)
        self.requests[sequence.id] = request
        self.coming.append(request)
        self.coming.sort(key=lambda other: other.arrival)  # stable: first come, first served

    def cancel(self, name: str) -> None:
        request = self.requests.pop(name, None)
        for place in (self.coming, self.waiting, self.running):
            if request in place:
                place.remove(request)
        self.chunks.pop(name, None)

    def advance(self, to_time: float) -> None:
        until = to_time - self.start
        while True:
            if self.step_ends is not None and self.step_ends <= until:
                time = self.step_ends
                self.complete_step(time)
            elif self.step_ends is None and self.coming and self.coming[0].arrival <= until:
                time = self.coming[0].arrival
            else:
                break
            self.schedule(time)
            self.step_ends = time + self.duration() if self.running else None
        self.now = until

    def complete_step(self, time: float) -> None:
        self.steps += 1
        for request in list(self.running):
            if request.decodes:
                gained = min(self.draw(request), request.sequence.output - request.tokens)
                self.drafted += self.step.drafts
                self.accepted += gained - 1
                request.tokens += gained
                request.decoded += 1
                request.drawn += 1
                request.last = time
            elif request.sequence.id in self.chunks:
                request.computed += self.chunks[request.sequence.id]
                if request.computed == request.sequence.prompt + request.tokens:
                    request.tokens += 1
                    request.decodes = True
                    request.last = time
                    request.first = request.first or time
            if request.tokens == request.sequence.output:
                request.finished = True
                self.running.remove(request)

    def draw(self, request: Request) -> int:
        place = self.draws.place(request.sequence.seed) + request.drawn
        return self.draws.outcomes[place % len(self.draws.outcomes)]

    def schedule(self, time: float) -> None:
        while self.coming and self.coming[0].arrival - INSTANT <= time:
            self.waiting.append(self.coming.pop(0))
        if self.held_after_step() > self.share:
            while self.held_after_step() > self.share:
                self.preempt(self.running[-1])
        else:
            while self.waiting and self.has_slot() and self.held_after_step() + room(self.waiting[0]) <= self.share:
                self.admit(self.waiting.pop(0))
        self.cut_chunks()

    def has_slot(self) -> bool:
        return len(self.running) + 1 + self.limits.ambient_sequences <= self.limits.max_batch

    def admit(self, request: Request) -> None:
        request.room = room(request)
        request.computed = request.decoded = 0
        request.decodes = False
        self.running.append(request)

    def preempt(self, request: Request) -> None:
        self.running.remove(request)
        self.waiting.insert(0, request)
        self.preemptions += 1

    def held(self) -> float:
        whole = sum(request.room for request in self.running)
        return whole + self.step.emitted * sum(request.decoded for request in self.running)

    def held_after_step(self) -> float:
        whole = sum(request.room for request in self.running)
        return whole + self.step.emitted * sum(request.decoded + request.decodes for request in self.running)

    def cut_chunks(self) -> None:
        self.chunks = {}
        budget = self.limits.prefill_chunk
        for request in self.running:
            if not request.decodes:
                missing = request.sequence.prompt + request.tokens - request.computed
                self.chunks[request.sequence.id] = min(budget, missing)
                budget -= self.chunks[request.sequence.id]

    def duration(self) -> float:
        n = self.limits.ambient_sequences
        S = self.limits.ambient_sequences * self.read(self.limits.ambient_context)
        p = 0
        A = 0.0
        for request in self.running:
            if request.decodes:
                n += 1
                S += self.read(request.room + self.step.emitted * request.decoded)
            else:
                chunk = self.chunks[request.sequence.id]
                p += chunk
                A += sum(self.read(request.computed + token + 0.5) for token in range(chunk))
        return self.step.seconds(n, S, p, A)

    def read(self, context: float) -> float:
        return min(context, self.step.sparse_topk) if self.step.sparse_topk else context


def room(request: Request) -> int:
    """Prompt, generated tokens, and the one that computing them yields."""
    return request.sequence.prompt + request.tokens + 1
