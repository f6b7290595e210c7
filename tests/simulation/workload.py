"""Seeded random replicas and what happens to them: arrivals, looks, cancels, late, resumed and evicted sequences.

Made so that rules meet: caches too small for what they are asked to keep, bands a few steps apart, ambient loads and
slowdowns that change while sequences run.
"""

from dataclasses import dataclass, replace
from math import inf
from random import Random

from service.conditions import Ambient, Recurring, Slowdown
from service.roofline import Speculation, StepTime
from workers.engine import Limits, Sequence


@dataclass(frozen=True, kw_only=True)
class Act:
    """At `time` the replica is observed; then, if named, a sequence is added or one is cancelled, or all are evicted.

    `on_boundary` moves the arrival of the added sequence to the end of the replica's next step with tokens. What is
    evicted goes on at once: in the same replica, or in a new one that takes its place if `elsewhere`.
    """

    time: float
    add: Sequence | None = None
    on_boundary: bool = False
    cancel: str | None = None
    evict: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, kw_only=True)
class Workload:
    step: StepTime
    limits: Limits
    ambient: Ambient
    slowdowns: tuple[Slowdown | Recurring, ...]
    conditions_start: float  # what the pool's clock reads at `start`
    day: float  # what the clock of the profile reads then
    start: float
    acts: tuple[Act, ...]


def workload(seed: int) -> Workload:
    """One in four is a contest: bands that want the same room at the same time, for prompts that begin alike."""
    random = Random(seed)
    contest = random.random() < 0.25
    horizon = random.choice((0.3, 1.0, 1.0, 5.0))
    start = random.choice((0.0, 0.0, 12_345.678))
    conditions_start = random.choice((0.0, 0.0, 7.7))
    max_batch = random.choice((4, 8, 16, 64))
    ambient = ambient_load(random, max_batch, horizon)
    slow = slowdowns(random, conditions_start, horizon)
    day = random.choice((0.0, 0.123))
    block = 8 if contest else random.choice((0, 8, 16))
    rooms = (450.0, 600.0) if contest else (450.0, 600.0, 700.5, 1000.0, 2500.0, inf)
    return Workload(
        step=step_time(random, ambient.peak * ambient.context + random.choice(rooms)),
        limits=Limits(
            max_batch=max_batch,
            prefill_chunk=16 if contest else random.choice((16, 64, 256, 8192)),
            block=block,
            cached_min=random.choice((0, 0, 2 * block, 40)),
            aging=10.0 if contest else random.choice((0.0, 0.02, 0.1, 10.0)),
        ),
        ambient=ambient,
        slowdowns=slow,
        conditions_start=conditions_start,
        day=day,
        start=start,
        acts=Acts(random, start, horizon, changes(ambient, slow, conditions_start, day, horizon), contest).draw(
            random.randint(5, 40), Prompts(random, block, families=1 if contest else random.choice((1, 2, 5)))
        ),
    )


# ---- the replica


def step_time(random: Random, kv_capacity: float) -> StepTime:
    """Coefficients of the size of real ones."""
    drafts = random.choice((0, 0, 1, 2, 3))
    speculation = Speculation(drafts, random.choice((0.5, 0.84, 0.95)), random.choice((0.9, 1.0)))
    return replace(
        wafer(random) if random.random() < 0.2 else gpu(random),
        drafts=drafts,
        emitted=speculation.emitted,
        emission=speculation.emission,
        sparse_topk=random.choice((0, 0, 100)),
        kv_capacity=kv_capacity,
    )


def wafer(random: Random) -> StepTime:
    return StepTime(c0=random.uniform(5e-4, 2e-3), cp=1e-6, ca=1e-9, stages=random.choice((3, 10)))


def gpu(random: Random) -> StepTime:
    return StepTime(
        c0=random.uniform(2e-3, 2e-2),
        ce=random.choice((0.0, 1e-2)),
        q=random.choice((0.0, 0.96)),
        cm=random.choice((0.0, 1e-5)),
        cp=random.uniform(1e-6, 1e-4),
        ck=random.choice((0.0, 1e-8, 1e-6)),
        cs=2e-5,
        ca=random.choice((0.0, 1e-9)),
    )


# ---- what it lives under


def ambient_load(random: Random, max_batch: int, horizon: float) -> Ambient:
    """Nobody, always as many, as many as the time of a short day says, or such that come and go."""
    sequences = random.choice((1.0, 2.5, 3.0))
    context = random.choice((0.0, 40.0, 150.5))
    profile = tuple(random.choice((0.0, 0.3, 0.5, 1.0)) for _ in range(random.choice((2, 3, 5))))
    period = horizon * random.choice((0.1, 0.5, 2.0))
    steady = Ambient(sequences=sequences, context=context)
    changing = replace(steady, profile=profile, period=period)
    drawn = replace(
        random.choice((steady, steady, changing)),
        stay=random.choice((0.05, 0.3, 3.0)),
        most=random.choice((3.0, max_batch - 1.0)),
        seed=random.getrandbits(32),
    )
    return random.choice((Ambient(), steady, changing, drawn))


def slowdowns(random: Random, start: float, horizon: float) -> tuple[Slowdown | Recurring, ...]:
    """Up to three windows, which may overlap, on a clock that reads `start` in the beginning; some come again."""
    drawn: list[Slowdown | Recurring] = []
    for _ in range(random.choice((0, 0, 1, 3))):
        begin = start + random.uniform(-0.2, horizon)
        lasting = random.choice((0.003, horizon / 4))
        window = Slowdown(start=begin, end=begin + lasting, factor=random.choice((1.5, 4.0)))
        again = Recurring(example=window, every=horizon / 4, lasting=lasting, seed=random.getrandbits(32))
        drawn.append(random.choice((window, window, again)))
    return tuple(drawn)


def changes(
    ambient: Ambient, slowdowns: tuple[Slowdown | Recurring, ...], start: float, day: float, horizon: float
) -> list[float]:
    """Some of the times, in seconds since the replica's start, at which the conditions change."""
    part = ambient.period / max(1, len(ambient.profile))
    times = [slowdown.start - start for slowdown in slowdowns if isinstance(slowdown, Slowdown)]
    times += [part * number - day for number in (1, 2, 3)] + [1.0, 2.0]
    return [time for time in times if 0 < time < horizon]


# ---- what happens to it


class Prompts:
    """Prompts that begin alike: some families, each of which parts into branches; and exact repeats.

    A block is named by the way that leads to it, as a chained hash would.
    """

    def __init__(self, random: Random, block: int, families: int) -> None:
        self.random = random
        self.block = block
        self.families = families
        self.before: list[tuple[int, tuple[int, ...]]] = []

    def draw(self) -> tuple[int, tuple[int, ...]]:
        """Its length and its blocks; now and then one more than are full."""
        random = self.random
        if self.before and random.random() < 0.2:
            return random.choice(self.before)
        length = random.choice((1, random.randint(2, 60), random.randint(60, 350), random.randint(60, 350)))
        if not self.block:
            return length, ()
        if random.random() < 0.2:
            length = self.block * (1 + length // self.block)
        family, branch = random.randrange(self.families), random.randrange(3)
        trunk = random.choice((0, 2, 5, 20))
        count = length // self.block + random.choice((0, 0, 0, 1))
        blocks = tuple(
            hash((family, place, branch * (place >= trunk), trunk * (place >= trunk))) for place in range(count)
        )
        self.before.append((length, blocks))
        return length, blocks


@dataclass(frozen=True)
class Acts:
    """`changes` are when the conditions change (s since the start)."""

    random: Random
    start: float
    horizon: float
    changes: list[float]
    contest: bool

    def draw(self, sequences: int, prompts: Prompts) -> tuple[Act, ...]:
        """So many sequences come within the horizon, or in a few rushes; in the order of time."""
        random, start, horizon = self.random, self.start, self.horizon
        result = []
        bands = (0, 1, 2) if self.contest else random.choice(((1,), (0, 1), (0, 1, 2), (0, 2)))
        rushes = [random.uniform(0, horizon) for _ in range(3 if self.contest else random.choice((0, 0, 1)))]
        for number in range(sequences):
            known = random.choice(rushes) + random.uniform(0, 0.05) if rushes else random.uniform(0, horizon)
            arrival = self.arrival(known)
            sequence = self.sequence(str(number), arrival, random.choice(bands), prompts)
            result.append(Act(time=start + known, add=sequence, on_boundary=random.random() < 0.2))
            if random.random() < 0.25:
                left = max(known, arrival) + random.uniform(-0.2, horizon / 3)
                result.append(Act(time=start + max(known, left), cancel=sequence.id))
        result += [Act(time=start + random.uniform(0, 1.5 * horizon)) for _ in range(20)]
        if random.random() < 0.2:
            evicted = random.uniform(0, horizon)
            result.append(Act(time=start + evicted, evict=True, elsewhere=random.random() < 0.5))
        return tuple(sorted(result, key=lambda act: act.time))

    def arrival(self, known: float) -> float:
        """Before it is known, at once, later, or together with a change of the conditions."""
        random = self.random
        if self.changes and random.random() < 0.1:
            return random.choice(self.changes)
        return known + random.choice((-0.5, 0.0, random.uniform(0, self.horizon / 4)))

    def sequence(self, name: str, arrival: float, band: int, prompts: Prompts) -> Sequence:
        random = self.random
        short, long = random.randint(2, 60), random.randint(60, 250)
        output = random.choice((1, short) if self.contest else (1, short, long, long))
        prompt, blocks = prompts.draw()
        return Sequence(
            id=name,
            arrival=self.start + arrival,
            prompt=prompt,
            output=output,
            generated=random.choice((0, 0, 0, random.randrange(output))),
            seed=random.getrandbits(63),
            band=band,
            blocks=blocks,
            keep=self.keep(prompt),
        )

    def keep(self, prompt: int) -> tuple[tuple[int, float], ...]:
        """For ever, or for times that are over before or after others come; not always all of it."""
        if self.contest:
            return ()
        lives = sorted((self.horizon * self.random.choice((0.01, 0.1, 0.5)) for _ in range(2)), reverse=True)
        ends = sorted(self.random.randint(0, prompt) for _ in range(2))
        return self.random.choice(((), (), tuple(zip(ends, lives, strict=True)), ((prompt, lives[0]),)))
