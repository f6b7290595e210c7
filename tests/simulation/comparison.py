"""Runs the engine and the stepwise replica side by side, and raises where they part."""

from dataclasses import replace

from oracle import StepwiseReplica
from workload import Workload

from workers.engine import Engine, NeverFits, Progress, Sequence

TOLERANCE = 1e-9  # of the length of the run
AFTER = 1e-7  # two boundaries that are equal but for rounding both lie before a time that much later (s)


class Pair:
    """One engine and its oracle, which are told the same."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.engine = Engine(workload.step, workload.limits, workload.start)
        self.oracle = StepwiseReplica(workload.step, workload.limits, workload.start)
        self.seen: dict[str, Progress] = {}
        self.first: dict[str, float] = {}

    def run(self) -> None:
        """Raises AssertionError at the first difference."""
        for act in self.workload.acts:
            self.observe(act.time)
            if act.cancel is not None:
                self.cancel(act.cancel)
            if act.add is not None:
                boundary = self.engine.next_event() if act.on_boundary else None
                self.add(act.add if boundary is None else replace(act.add, arrival=boundary))
            self.engine.check_conservation()
            self.compare()
        self.drain()

    def add(self, sequence: Sequence) -> None:
        try:
            self.engine.add(sequence)
        except NeverFits:
            return
        self.oracle.add(sequence)

    def cancel(self, name: str) -> None:
        self.engine.cancel(name)
        self.oracle.cancel(name)
        self.seen.pop(name, None)

    def drain(self) -> None:
        """From change to change, until nothing is left."""
        while (time := self.engine.next_event()) is not None:
            self.note(time)
            self.observe(time + AFTER)
        assert all(request.finished for request in self.oracle.requests.values()), "idle with work left"

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
            assert (report.first is not None) == (before is None), "the first token is reported once, at once"
            assert report.time <= time, "no report from the future"
            self.seen[report.id] = report
            if report.first is not None:
                self.first[report.id] = report.first

    def compare(self) -> None:
        for name, request in self.oracle.requests.items():
            seen = self.seen.get(name)
            assert (seen is None) == (request.last is None), f"{name} has begun in one replica only"
            if seen is None or request.last is None or request.first is None:
                continue
            assert seen.tokens == request.tokens, f"{name}: {seen.tokens} tokens, by steps {request.tokens}"
            assert seen.finished == request.finished, f"{name} has finished in one replica only"
            self.same_time(seen.time, request.last, f"the last token of {name}")
            self.same_time(self.first[name], request.first, f"the first token of {name}")
        snapshot = self.engine.snapshot()
        live = [r for r in self.oracle.requests.values() if not r.finished]
        assert snapshot.running == len(self.oracle.running)
        assert snapshot.waiting == sum(r.arrival <= self.oracle.now for r in live) - len(self.oracle.running)
        assert abs(snapshot.kv_held - self.oracle.held()) <= 1e-6
        assert snapshot.preemptions == self.oracle.preemptions
        assert snapshot.steps == self.oracle.steps
        assert (snapshot.drafted, snapshot.accepted) == (self.oracle.drafted, self.oracle.accepted)

    def same_time(self, seen: float, stepped: float, what: str) -> None:
        apart = abs(seen - self.workload.start - stepped)
        assert apart <= TOLERANCE * max(1.0, stepped), f"{what} is {apart} s apart at {stepped}"
