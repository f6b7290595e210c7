"""The same replica, written the obvious way: it takes every step, one after another, and looks at every sequence in it.

No closed form, no heap, no event, no count of references: slow and plain, so that it can be checked by reading. The
engine must agree with it. Only the table of speculative draws is the engine's own; it is read here one step at a time.

- `order`: who arrives sooner goes first; each band below the first counts as arriving `aging` seconds later.
- Waiting and running, prefill and being pre-empted go by that order.
- A block of a prompt is in use by the sequences that name it, or idle in the order in which blocks fell idle.
- Who uses a block wants it kept for some time; a block that has been idle for longer than any of its users wanted since
  it was last computed is not found.
- What holds at a step's beginning holds for the whole step.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf

from oracle_conditions import PlainConditions

from service.roofline import StepTime
from workers.engine import Limits, Sequence
from workers.engine.speculation import Bursts

INSTANT = 1e-9


@dataclass(eq=False)
class Request:
    """What the replica knows of one sequence."""

    sequence: Sequence
    order: tuple[float, int]
    due: float
    tokens: int  # out so far
    computed: int = 0  # context tokens in the cache
    context: int = 0  # tokens of it when it was admitted, with the one that computing them yields
    own: int = 0  # those of them that it has room for by itself
    uses: tuple[int, ...] = ()  # blocks of its prompt that lie in the cache for everybody
    decoded: int = 0  # steps it has decoded since
    drawn: int = 0  # steps it has ever decoded
    decodes: bool = False
    cached: int | None = None  # prompt tokens found when it was first admitted
    first: float | None = None  # when its first token was out
    last: float | None = None  # when its last one was
    finished: bool = False

    @property
    def to_compute(self) -> int:
        return self.sequence.prompt + self.tokens - self.computed


def order(request: Request) -> tuple[float, int]:
    return request.order


class StepwiseReplica:
    """Takes what Engine takes. What came of it stands in `requests`, by id."""

    def __init__(self, step: StepTime, limits: Limits, conditions: PlainConditions, start: float = 0.0) -> None:
        self.step = step
        self.limits = limits
        self.conditions = conditions
        self.start = start
        self.now = 0.0
        self.step_ends: float | None = None  # of the step in flight
        self.requests: dict[str, Request] = {}
        self.coming: list[Request] = []
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.chunks: dict[str, int] = {}
        self.idle: list[int] = []  # blocks nobody uses, the least recently used first
        self.wanted: dict[int, list[float]] = {}  # seconds for which the users of a block wanted it kept
        self.last_use: dict[int, float] = {}  # of the blocks that are idle
        self.ambient = conditions.sequences(0.0)  # other people's sequences
        self.draws = Bursts(step.emission)
        self.added = 0
        self.preemptions = 0
        self.steps = 0
        self.drafted = 0
        self.accepted = 0
        self.prefix_asked = 0
        self.prefix_hit = 0

    # ---- what it is told

    def never_fits(self, sequence: Sequence) -> bool:
        """Not even alone, at the peak of the ambient load, with as many tokens too many as draws can bring."""
        most = sequence.prompt + sequence.output + self.draws.slack(sequence.output)
        return most > self.step.kv_capacity - self.conditions.ambient.peak * self.conditions.ambient.context

    def add(self, sequence: Sequence) -> None:
        due = max(sequence.arrival - self.start, self.now)
        self.added += 1
        request = Request(sequence, (due + sequence.band * self.limits.aging, self.added), due, sequence.generated)
        self.requests[sequence.id] = request
        self.coming.append(request)

    def cancel(self, name: str) -> None:
        request = self.requests.pop(name, None)
        if request in self.running:
            self.leave(request, self.now)
        for place in (self.coming, self.waiting):
            if request in place:
                place.remove(request)

    def evict(self) -> list[Sequence]:
        """The replica is lost, with the step in flight and the cache. Everything leaves with what it has generated."""
        leaving = [request for request in self.requests.values() if not request.finished]
        for request in leaving:
            self.cancel(request.sequence.id)
        self.idle = []
        self.step_ends = None
        return [replace(request.sequence, generated=request.tokens) for request in leaving]

    def advance(self, to_time: float) -> None:
        until = to_time - self.start
        while True:
            if self.step_ends is not None and self.step_ends <= until:
                time = self.step_ends
                self.complete_step(time)
            elif self.step_ends is None and self.coming and min(r.due for r in self.coming) <= until:
                time = min(r.due for r in self.coming)
            else:
                break
            self.schedule(time)
            self.step_ends = time + self.duration(time) if self.running else None
        self.now = until

    # ---- a step ends

    def complete_step(self, time: float) -> None:
        self.steps += 1
        for request in self.running:
            if request.decodes:
                gained = min(self.draw(request), request.sequence.output - request.tokens)
                self.drafted += self.step.drafts
                self.accepted += gained - 1
                request.tokens += gained
                request.decoded += 1
                request.drawn += 1
                request.last = time
        for request in sorted(self.running, key=order):
            if request.sequence.id in self.chunks:
                request.computed += self.chunks[request.sequence.id]
                if not request.to_compute:
                    self.publish(request, time)
                    request.tokens += 1
                    request.decodes = True
                    request.last = time
                    request.first = time if request.first is None else request.first
                    self.running.remove(request)
                    self.running.append(request)  # who has decoded for longer stands, and leaves, before it
        for request in list(self.running):
            if request.tokens == request.sequence.output:
                request.finished = True
                self.leave(request, time)

    def draw(self, request: Request) -> int:
        place = self.draws.place(request.sequence.seed) + request.drawn
        return self.draws.outcomes[place % len(self.draws.outcomes)]

    def publish(self, request: Request, time: float) -> None:
        """Its prompt is computed: all its full blocks are everybody's, and no longer its own."""
        blocks = self.full_blocks(request)
        for number in range(len(request.uses), len(blocks)):
            if blocks[number] not in in_use(self.running) and not self.found_idle(blocks[number], time):
                self.wanted[blocks[number]] = []
            self.wanted[blocks[number]].append(self.wants(request, number))
        request.own -= self.limits.block * (len(blocks) - len(request.uses))
        request.uses = blocks
        self.idle = [block for block in self.idle if block not in blocks]

    def wants(self, request: Request, number: int) -> float:
        """For how many seconds it wants its block of that number kept."""
        for tokens, seconds in request.sequence.keep:
            if (number + 1) * self.limits.block <= tokens:
                return seconds
        return request.sequence.keep[-1][1] if request.sequence.keep else inf

    def found_idle(self, block: int, time: float) -> bool:
        return block in self.idle and time <= self.last_use[block] + max(self.wanted[block])

    def leave(self, request: Request, time: float) -> None:
        self.running.remove(request)
        self.chunks.pop(request.sequence.id, None)
        used = in_use(self.running)
        fallen = [block for block in reversed(request.uses) if block not in used]
        self.idle += fallen
        self.last_use.update(dict.fromkeys(fallen, time))
        request.uses = ()

    # ---- a step begins

    def schedule(self, time: float) -> None:
        self.ambient = self.conditions.sequences(time + INSTANT)
        self.waiting += [request for request in self.coming if request.due - INSTANT <= time]
        self.coming = [request for request in self.coming if request not in self.waiting]
        self.waiting.sort(key=order)
        if self.held(self.running, ahead=1) > self.share():
            while self.held(self.running, ahead=1) > self.share():
                self.preempt(max(self.running, key=order), time)
        else:
            while self.waiting and (leavers := self.who_makes_way(self.waiting[0], time)) is not None:
                head = self.waiting.pop(0)
                for request in leavers:
                    self.preempt(request, time)
                self.admit(head, time)
        self.cut_chunks()
        while self.held(self.running, ahead=1) + self.held_idle() > self.share():
            self.idle.pop(0)

    def share(self) -> float:
        return self.step.kv_capacity - self.ambient * self.conditions.ambient.context

    def who_makes_way(self, head: Request, time: float) -> list[Request] | None:
        """Nobody if `head` fits as it is; else the fewest who may be asked to leave for it; None if that is no use."""
        candidates = [other for other in self.who_may_yield(head.sequence.band) if other.order > head.order]
        for count in range(len(candidates) + 1):
            if self.fits(head, [other for other in self.running if other not in candidates[:count]], time):
                return candidates[:count]
        return None

    def who_may_yield(self, band: int) -> list[Request]:
        """Those of worse bands that have no token yet, the last in order first."""
        last_first = sorted(self.running, key=order, reverse=True)
        return [request for request in last_first if request.sequence.band > band and request.tokens == 0]

    def fits(self, head: Request, others: list[Request], time: float) -> bool:
        """Whether `head` has a slot, and room beside what `others` hold after the next step."""
        hit = self.hit(head, time)
        woken = [block for block in hit if block not in in_use(others)]
        need = room(head) - self.limits.block * len(hit) + self.limits.block * len(woken)
        slots = int(self.limits.max_batch - self.ambient)
        return len(others) < slots and self.held(others, ahead=1, more=need) <= self.share()

    def hit(self, request: Request, time: float) -> tuple[int, ...]:
        """The leading blocks it need not compute. Its last token it has to."""
        found = self.present(self.full_blocks(request)[: self.blocks_asked(request)], time)
        return found if len(found) * self.limits.block >= self.limits.cached_min else ()

    def present(self, blocks: tuple[int, ...], time: float) -> tuple[int, ...]:
        """Those at the beginning of `blocks` that are in the cache."""
        cache = in_use(self.running).union(block for block in self.idle if self.found_idle(block, time))
        return tuple(takewhile(cache.__contains__, blocks))

    def blocks_asked(self, request: Request) -> int:
        """How many of its blocks could be found at best: those that leave it a token of context to compute."""
        if not self.limits.block:
            return 0
        before_last = (request.sequence.prompt + request.tokens - 1) // self.limits.block
        return min(len(self.full_blocks(request)), before_last)

    def full_blocks(self, request: Request) -> tuple[int, ...]:
        if not self.limits.block:
            return ()
        return request.sequence.blocks[: request.sequence.prompt // self.limits.block]

    def admit(self, request: Request, time: float) -> None:
        hit = self.hit(request, time)
        for number, block in enumerate(hit):
            self.wanted[block].append(self.wants(request, number))
        found = self.limits.block * len(hit)
        self.prefix_asked += self.limits.block * self.blocks_asked(request)
        self.prefix_hit += found
        self.idle = [block for block in self.idle if block not in hit]
        request.uses = hit
        request.context = room(request)
        request.own = request.context - found
        request.computed = found
        request.cached = found if request.cached is None else request.cached
        request.decoded = 0
        request.decodes = False
        self.running.append(request)

    def preempt(self, request: Request, time: float) -> None:
        self.leave(request, time)
        self.waiting.append(request)
        self.waiting.sort(key=order)
        self.preemptions += 1

    def held(self, running: list[Request], ahead: int = 0, more: int = 0) -> float:
        """Tokens that `running` hold; `ahead` = 1: after the next step. A block counts once, whoever uses it."""
        whole = sum(request.own for request in running) + self.limits.block * len(in_use(running)) + more
        return whole + self.step.emitted * sum(request.decoded + ahead * request.decodes for request in running)

    def held_idle(self) -> int:
        return self.limits.block * len(self.idle)

    def cut_chunks(self) -> None:
        self.chunks = {}
        budget = self.limits.prefill_chunk
        for request in sorted(self.running, key=order):
            if not request.decodes:
                self.chunks[request.sequence.id] = min(budget, request.to_compute)
                budget -= self.chunks[request.sequence.id]

    def duration(self, time: float) -> float:
        n = min(self.ambient, self.limits.max_batch - len(self.running))
        S = n * self.read(self.conditions.ambient.context)
        p = 0
        A = 0.0
        for request in self.running:
            if request.decodes:
                n += 1
                S += self.read(request.context + self.step.emitted * request.decoded)
            else:
                chunk = self.chunks[request.sequence.id]
                p += chunk
                A += sum(self.read(request.computed + token + 0.5) for token in range(chunk))
        return self.step.seconds(n, S, p, A) * self.conditions.slowdown(time + INSTANT)

    def read(self, context: float) -> float:
        return min(context, self.step.sparse_topk) if self.step.sparse_topk else context


def in_use(running: Iterable[Request]) -> set[int]:
    return {block for request in running for block in request.uses}


def room(request: Request) -> int:
    """Prompt, generated tokens, and the one that computing them yields."""
    return request.sequence.prompt + request.tokens + 1
