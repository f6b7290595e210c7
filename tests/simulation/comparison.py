"""Runs the engine and the stepwise replica side by side, and raises where they part.

A second engine is told the same and asked for endings alone: it has to end what the first one reports, and as it does.
"""

from dataclasses import replace

from oracle import Request, StepwiseReplica
from oracle_conditions import PlainConditions
from workload import Act, Workload

from workers.engine import Conditions, Ending, Engine, NeverFits, Progress, Sequence

TOLERANCE = 1e-9  # of the length of the run
AFTER = 1e-7  # two boundaries that are equal but for rounding both lie before a time that much later (s)


class Pair:
    """Two engines and their oracle, which are told the same."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.begin(workload.start)

    def begin(self, start: float) -> None:
        """Replicas that have served nobody, from the time `start` on."""
        w, passed = self.workload, start - self.workload.start
        self.start = start
        clocks = {"start": w.conditions_start + passed, "day": w.day + passed}
        self.engine = Engine(w.step, w.limits, Conditions(w.ambient, w.slowdowns, **clocks), start)
        self.ending_engine = Engine(w.step, w.limits, Conditions(w.ambient, w.slowdowns, **clocks), start)
        self.oracle = StepwiseReplica(w.step, w.limits, PlainConditions(w.ambient, w.slowdowns, **clocks), start)
        self.seen: dict[str, Progress] = {}
        self.first: dict[str, float] = {}
        self.ended: dict[str, Ending] = {}

    def run(self) -> None:
        """Raises AssertionError at the first difference."""
        for act in self.workload.acts:
            self.observe(act.time)
            self.tell(act)
            self.engine.check_conservation()
            self.compare()
        self.drain()

    # ---- what they are told

    def tell(self, act: Act) -> None:
        changes = act.add is not None or act.cancel is not None or act.evict
        if changes:
            self.end(act.time)
        if act.cancel is not None:
            self.cancel(act.cancel)
        if act.add is not None:
            boundary = self.engine.next_event(not_before=act.time) if act.on_boundary else None
            self.add(act.add if boundary is None else replace(act.add, arrival=boundary))
        if act.evict:
            self.evict(act.time, act.elsewhere)

    def add(self, sequence: Sequence) -> None:
        try:
            self.engine.add(sequence)
        except NeverFits:
            assert self.oracle.never_fits(sequence), f"{sequence.id} would fit"
            return
        assert not self.oracle.never_fits(sequence), f"{sequence.id} never fits"
        self.ending_engine.add(sequence)
        self.oracle.add(sequence)

    def cancel(self, name: str) -> None:
        self.engine.cancel(name)
        self.ending_engine.cancel(name)
        self.oracle.cancel(name)
        self.forget(name)

    def forget(self, name: str) -> None:
        for known in (self.seen, self.first, self.ended):
            known.pop(name, None)

    def evict(self, time: float, elsewhere: bool) -> None:
        """What leaves is the same, and goes on."""
        evicted = {sequence.id: sequence for sequence in self.engine.evict()}
        by_steps = self.oracle.evict()
        assert {s.id: s.generated for s in by_steps} == {name: s.generated for name, s in evicted.items()}
        assert self.ending_engine.evict() == list(evicted.values()), "whoever evicts is told the same"
        self.engine.check_conservation()
        self.compare()
        assert not self.live(), "nothing is left"
        assert self.engine.next_event() is None, "nothing is left to happen"
        if elsewhere:
            self.begin(time)
        for sequence in by_steps:
            self.forget(sequence.id)
            self.add(evicted[sequence.id])

    # ---- what they are seen to do

    def drain(self) -> None:
        """From change to change, until nothing is left."""
        while (time := self.engine.next_event()) is not None:
            self.note(time)
            self.observe(time + AFTER)
        assert not self.live(), "idle with work left"
        self.end(self.start + self.oracle.now)

    def observe(self, time: float) -> None:
        self.note(time)
        self.oracle.advance(time)
        self.compare()

    def note(self, time: float) -> None:
        """Advances the engine and takes down what it reports."""
        reports = self.engine.advance(time)
        self.engine.check_conservation()
        assert len({report.id for report in reports}) == len(reports), "one report for each sequence"
        for report in reports:
            before = self.seen.get(report.id)
            assert before is None or (before.tokens < report.tokens and before.time < report.time), "progress"
            assert before is None or not before.finished, "nothing follows the end"
            assert before is None or before.cached == report.cached, "what was cached at first stays so"
            assert (report.first is not None) == (before is None), "the first token is reported once, at once"
            assert report.time <= time, "no report from the future"
            self.seen[report.id] = report
            if report.first is not None:
                self.first[report.id] = report.first

    def end(self, time: float) -> None:
        """Advances the engine that is asked for endings alone: it tells those that the other has reported."""
        for ending in self.ending_engine.endings(time):
            assert ending.id not in self.ended, "a sequence ends once"
            self.ended[ending.id] = ending
        finished = {name: report for name, report in self.seen.items() if report.finished}
        assert self.ended.keys() == finished.keys(), "endings are those reported"
        for name, (_, tokens, first, last, cached) in self.ended.items():
            report = finished[name]
            assert (tokens, first, last, cached) == (report.tokens, self.first[name], report.time, report.cached)

    # ---- what must be the same

    def compare(self) -> None:
        for name, request in self.oracle.requests.items():
            seen = self.seen.get(name)
            assert (seen is None) == (request.last is None), f"{name} has begun in one replica only"
            if seen is not None:
                self.compare_reports(seen, request)
        for request in self.live():
            gained = self.first.get(request.sequence.id), request.cached or 0
            assert self.engine.gained(request.sequence.id) == gained, "what was gained is what was reported"
        self.compare_totals()

    def compare_reports(self, seen: Progress, request: Request) -> None:
        name = seen.id
        assert request.first is not None
        assert request.last is not None
        assert seen.tokens == request.tokens, f"{name}: {seen.tokens} tokens, by steps {request.tokens}"
        assert seen.cached == request.cached, f"{name}: {seen.cached} tokens cached, by steps {request.cached}"
        assert seen.finished == request.finished, f"{name} has finished in one replica only"
        self.same_time(seen.time, request.last, f"the last token of {name}")
        self.same_time(self.first[name], request.first, f"the first token of {name}")

    def compare_totals(self) -> None:
        snapshot, oracle = self.engine.snapshot(), self.oracle
        arrived = [request for request in self.live() if request.due <= oracle.now]
        by_steps = {
            "running": len(oracle.running),
            "waiting": len(arrived) - len(oracle.running),
            "kv_idle": oracle.held_idle(),
            "kv_capacity": oracle.share(),
            "preemptions": oracle.preemptions,
            "steps": oracle.steps,
            "drafted": oracle.drafted,
            "accepted": oracle.accepted,
            "prefix_asked": oracle.prefix_asked,
            "prefix_hit": oracle.prefix_hit,
        }
        for what, number in by_steps.items():
            seen = getattr(snapshot, what)
            assert seen == number, f"{what} is {seen}, by steps {number}"
        for blocks in {oracle.full_blocks(request) for request in oracle.requests.values()}:
            found, present = (
                self.engine.cached(blocks),
                self.workload.limits.block * len(oracle.present(blocks, oracle.now)),
            )
            assert found == present, f"{found} tokens of a prompt are cached, by steps {present}"
        for band in range(3):
            assert self.engine.yielding(band) == len(oracle.who_may_yield(band)), "as many would make way"
        held = oracle.held(oracle.running)
        assert abs(snapshot.kv_held - held) <= 1e-6, f"{snapshot.kv_held} tokens held, by steps {held}"

    def live(self) -> list[Request]:
        return [request for request in self.oracle.requests.values() if not request.finished]

    def same_time(self, seen: float, stepped: float, what: str) -> None:
        apart = abs(seen - self.start - stepped)
        assert apart <= TOLERANCE * max(1.0, stepped), f"{what} is {apart} s apart at {stepped}"
