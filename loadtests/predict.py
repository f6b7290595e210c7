"""The same work in virtual time: what the catalog's engines, queues and front ends would make of a run's requests.

The sessions are those of the scenario, and each request is as long as it was when it was measured. It is played several
times, since front ends and drafts are drawn, and one draw of a few dozen is no better than another. What a prediction
does not have is the path: gateway, Redis, sockets, and the client.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf

from loadtests.records import Record
from loadtests.scenario import Closed, Scenario
from loadtests.work import Session, Turn, clients, sessions
from planning.fleet import Fleet
from planning.tally import Row, Tally
from service.errors import ScenarioError
from service.tiers import Catalog, Offer, find

TIMES = 10  # it is played
AFTER = 30.0  # s in which what has begun may end
_PAUSE = 1.0  # s after a refusal

Sizes = dict[tuple[int, int, int], tuple[int, int, int]]  # prompt, output and shown tokens, by session, turn, attempt


def predict(scenario: Scenario, catalog: Catalog, measured: Sequence[Record]) -> list[Record]:
    """The requests of all TIMES. Raises ScenarioError: the catalog does not sell what was asked for."""
    sizes = {(r.session, r.turn, r.attempt): (r.prompt, r.output, r.shown) for r in measured if r.ok}
    served = find(catalog, scenario.model)
    missing = [tier for tier in scenario.mix if tier not in served.offers]
    if missing:
        raise ScenarioError(f"{served.id} is not sold at the tier {missing[0]!r}; it is at: {', '.join(served.offers)}")
    return [record for draw in range(TIMES) for record in _Twin(scenario, catalog, sizes, scenario.seed + draw).play()]


class _Then(list[Row]):
    """Takes a completed request's row, and tells whoever waits for it."""

    def __init__(self, tell: Callable[[Row], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, row: Row) -> None:
        self._tell(row)


class _Twin:
    def __init__(self, scenario: Scenario, catalog: Catalog, sizes: Sizes, seed: int) -> None:
        self._scenario = scenario
        self._sizes = sizes
        self._offers = {tier: catalog.models[find(catalog, scenario.model).id].offers[tier] for tier in scenario.mix}
        pools = {offer.pool for offer in self._offers.values()}
        bands = {pool: [offer.band for offer in self._offers.values() if offer.pool == pool] for pool in pools}
        self._caches = {pool: catalog.pools[pool].prefix_cache for pool in pools}
        self._fleets = {pool: Fleet(catalog.pools[pool], bands[pool], seed, inf) for pool in pools}
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        self._coming = sessions(scenario)
        self._records: list[Record] = []

    def play(self) -> list[Record]:
        load = self._scenario.load
        if isinstance(load, Closed):
            for begin, end in clients(load, self._scenario.seconds):
                self._at(begin, self._client(end))
        else:
            self._come()
        until = self._scenario.seconds + AFTER
        while True:
            now = self._agenda[0][0] if self._agenda else inf
            fleet = min(self._fleets.values(), key=lambda each: each.due)
            if min(now, fleet.due) > until:
                return self._records
            if fleet.due <= now:
                fleet.go_on(fleet.due)
            else:
                _, _, act = heappop(self._agenda)
                act(now)

    def _at(self, time: float, act: Callable[[float], None]) -> None:
        heappush(self._agenda, (time, next(self._numbers), act))

    def _come(self) -> None:
        """The next session of an open load comes, and then the one after it."""
        session = next(self._coming, None)
        if session is None:
            return
        assert session.start is not None

        def come(now: float) -> None:
            self._go_on(session, self._requests(session), now, lambda _now, _refused: None)
            self._come()

        self._at(session.start, come)

    def _client(self, end: float) -> Callable[[float], None]:
        load = self._scenario.load
        assert isinstance(load, Closed)
        think = load.think

        def over(now: float, refused: bool) -> None:
            self._at(now + max(think, _PAUSE if refused else 0.0), begin)

        def begin(now: float) -> None:
            session = next(self._coming, None) if now < end else None
            if session is not None:
                self._go_on(session, self._requests(session), now, over)

        return begin

    def _requests(self, session: Session) -> Iterator[tuple[int, int]]:
        """Turns and attempts, as they were measured."""
        for turn in range(len(session.turns)):
            attempts = [key[2] for key in self._sizes if key[:2] == (session.number, turn)] or [0]
            yield from ((turn, attempt) for attempt in range(max(attempts) + 1))

    def _go_on(
        self,
        session: Session,
        requests: Iterator[tuple[int, int]],
        now: float,
        over: Callable[[float, bool], None],
    ) -> None:
        turn, attempt = next(requests, (None, 0))
        due = now + (session.turns[turn].pause if turn and not attempt else 0.0)
        if turn is None or (turn and not attempt and due >= self._scenario.seconds):
            over(now, False)
            return

        def ask(now: float) -> None:
            record = Record(
                session=session.number, turn=turn, attempt=attempt, tier=session.tier, due=now, sent=now, served=""
            )
            self._records.append(record)
            if not self._arrive(record, session, lambda end: self._go_on(session, requests, end, over)):
                over(now, True)

        self._at(due, ask)

    def _arrive(self, record: Record, session: Session, then: Callable[[float], None]) -> bool:
        """Whether the pool takes it."""
        turn = session.turns[record.turn]
        asked = sum(each.fresh for each in session.turns[: record.turn + 1])
        usual = (asked, max(1, turn.output), max(1, turn.output))
        record.call = not turn.output
        record.prompt, record.output, record.shown = self._sizes.get(
            (record.session, record.turn, record.attempt), usual
        )
        offer = self._offers[record.tier]

        def complete(row: Row) -> None:
            _, claimed, _, output, record.cached, first, record.last = row
            thought = (record.output - record.shown) / max(1, output - 1)
            record.first = first + thought * (record.last - first)
            record.queued, record.ended, record.outcome = claimed - record.due, record.last, "ok"
            record.served = offer.tier
            then(record.last)

        tally = Tally(offer, rows=_Then(complete))
        self._fleets[offer.pool].arrive(
            record.due, record.prompt, record.output, self._blocks(offer, record, turn), 0, tally
        )
        if tally.refused or tally.full:
            record.outcome = "refused"
            return False
        return True

    def _blocks(self, offer: Offer, record: Record, turn: Turn) -> tuple[int, ...]:
        """A session's prompts begin alike, and like no other's but those that name the same blocks."""
        cache = self._caches[offer.pool]
        if cache is None:
            return ()
        ends = [((number + 1) * cache.block, number) for number in range(record.prompt // cache.block)]
        names = turn.blocks
        if not names:
            return tuple(hash((record.session, number)) for _, number in ends)
        return tuple(
            hash((names[: -(-end // turn.block)], number, end > len(names) * turn.block and record.session))
            for end, number in ends
        )
