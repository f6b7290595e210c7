"""Runs a scenario against an endpoint: who comes, asks, waits for his tool, asks again, and leaves.

Nobody new comes when the time is over; who is in the middle of an answer gets some more to end it. What was not over by
then is recorded as unfinished. The client watches itself: how late it sends what is due, and how late its timers are.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from secrets import token_hex

import orjson

from loadtests import prompts
from loadtests.client import Address, Connection, clock
from loadtests.dialects import Call, Dialect, Exchanged, Heard, Wanted
from loadtests.records import Gaps, Record
from loadtests.scenario import Agent, Closed, Scenario
from loadtests.wire import Malformed, Response
from loadtests.work import Session, Turn, clients, sessions

PATIENCE = 30.0  # s for answers that are under way when the time is over
_WATCH_EVERY = 0.02  # s
_REFUSALS = (429, 503, 529)
_PAUSE = 1.0  # s after a refusal, before a closed client's next session


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go: `path` is that of the API, such as /v1. `cost` prices what an answer says it used."""

    address: Address
    path: str
    dialect: Dialect
    model: str
    key: str | None = None
    exact: bool = True  # the endpoint can be asked for no fewer tokens than are allowed
    patience: float = PATIENCE


@dataclass(slots=True)
class Run:
    """What came of a scenario. `late`: how late the client was with what was due, and with its own timers (s)."""

    scenario: Scenario
    records: list[Record] = field(default_factory=list)
    gaps: dict[str, Gaps] = field(default_factory=dict)
    heard: dict[int, Heard] = field(default_factory=dict)  # by place in `records`
    whole: set[int] = field(default_factory=set)  # sessions that came to an end of their own, good or bad
    late: list[float] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


Watch = Callable[[Run, float], None]  # what is seen while it runs, and how many seconds have passed


class Driver:
    def __init__(self, scenario: Scenario, target: Target, *, spread: bool = True, watch: Watch | None = None) -> None:
        self.run = Run(scenario)
        self._scenario = scenario
        self._target = target
        self._effort = scenario.work.effort if isinstance(scenario.work, Agent) else ""
        self._spread = spread
        self._watch = watch
        self._nonce = token_hex(8)  # what an earlier run said may still be in a cache of the endpoint's
        self._idle: list[Connection] = []
        self._began = 0.0
        self._over = asyncio.Event()

    async def drive(self) -> Run:
        """Raises ConnectionError and OSError: the endpoint cannot be reached at all."""
        self._idle.append(await Connection.connect(self._target.address))
        self._began = clock()
        watching = asyncio.create_task(self._look())
        working = asyncio.create_task(self._work())
        ended = asyncio.create_task(self._over.wait())
        try:
            limit = self._scenario.seconds + self._target.patience
            await asyncio.wait({working, ended}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, watching, ended):
                task.cancel()
            results = await asyncio.gather(working, watching, ended, return_exceptions=True)
            for connection in self._idle:
                connection.abort()
            self.run.seconds = min(self._now, self._scenario.seconds)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return self.run

    def stop(self) -> None:
        """What has come so far is what there is."""
        self.run.interrupted = True
        self._over.set()

    @property
    def _now(self) -> float:
        return clock() - self._began

    async def _look(self) -> None:
        for number in count(1):
            due = number * _WATCH_EVERY
            await asyncio.sleep(max(0.0, due - self._now))
            self.run.late.append(max(0.0, self._now - due))
            if self._watch is not None and number % 10 == 0:
                self._watch(self.run, self._now)

    async def _work(self) -> None:
        load, coming = self._scenario.load, sessions(self._scenario)
        async with asyncio.TaskGroup() as tasks:
            if isinstance(load, Closed):
                for there in clients(load, self._scenario.seconds):
                    tasks.create_task(self._client(coming, load.think, *there))
                return
            for session in coming:
                assert session.start is not None
                await asyncio.sleep(max(0.0, session.start - self._now))
                tasks.create_task(self._session(session, session.start))

    async def _client(self, coming: Iterator[Session], think: float, begin: float, end: float) -> None:
        await asyncio.sleep(max(0.0, begin - self._now))
        while self._now < end:
            session = next(coming, None)
            if session is None:
                return
            refused = await self._session(session, self._now)
            await asyncio.sleep(max(think, _PAUSE if refused else 0.0))

    async def _session(self, session: Session, due: float) -> bool:
        """Whether its last request was refused or failed: then it goes on no further."""
        before: list[Exchanged] = []
        for number, turn in enumerate(session.turns):
            if number:
                due += turn.pause
                await asyncio.sleep(max(0.0, due - self._now))
                if self._now >= self._scenario.seconds:
                    return False
            said = self._said(session, number)
            exchanged, record = await self._turn(session, number, turn, before, said, due)
            if exchanged is None:
                self.run.whole.add(session.number)
                return True
            before.append(exchanged)
            due = record.ended
        self.run.whole.add(session.number)
        return False

    def _said(self, session: Session, number: int) -> str:
        own = (self._scenario.seed, session.number, number)
        parts = session.turns[number].parts()
        return "".join(prompts.text(size, (self._nonce, own if name is None else name)) for size, name in parts)

    async def _turn(
        self, session: Session, number: int, turn: Turn, before: list[Exchanged], said: str, due: float
    ) -> tuple[Exchanged | None, Record]:
        """What goes on the record of the conversation; None: the session is over."""
        work = self._scenario.work
        for attempt in count():
            record = Record(
                session=session.number, turn=number, attempt=attempt, tier=session.tier, due=due, sent=self._now
            )
            place = len(self.run.records)
            self.run.records.append(record)
            heard = await self._ask(record, place, before, said, turn.output or None)
            if not record.ok:
                return None, record
            if not isinstance(work, Agent):
                goes_on = number + 1 < len(session.turns)
                answered = prompts.text(max(1, record.output), (session.number, number)) if goes_on else ""
                return Exchanged(said, answered), record
            call = heard.calls[0] if heard.calls else Call("", "", "")
            if call.fault is None:
                return Exchanged(said, "", call), record
            record.seen, record.mistake = True, record.mistake or call.fault
            if attempt >= work.retries:
                return None, record
            due = record.ended
        raise AssertionError

    async def _ask(self, record: Record, place: int, before: list[Exchanged], said: str, output: int | None) -> Heard:
        target, heard = self._target, Heard()
        wanted = Wanted(output, target.exact, self._effort)
        body = target.dialect.body(target.model, record.tier, before, said, wanted)
        keys = target.dialect.calls if output is None else target.dialect.texts
        response = Response.of(keys, keep=output is None)
        response.steps = []
        try:
            request = self._request(body)
            while True:
                connection, used = await self._connection()
                record.sent = self._now
                try:
                    await connection.ask(request, response)
                except ConnectionError:
                    if used and not response.status:  # the server gave up an idle connection as it was taken
                        continue
                    raise
                break
            self.run.late.append(max(0.0, record.sent - record.due))
            if connection.open:
                self._idle.append(connection)
        except (ConnectionError, OSError, Malformed) as error:
            record.outcome, record.error = "failed", type(error).__name__
            return heard
        finally:
            self._take_down(record, response)
        if response.status != 200:
            record.outcome = "refused" if response.status in _REFUSALS else "failed"
            record.error = _reason(response)
            return heard
        self._listen(record, place, response, heard, output)
        return heard

    def _listen(self, record: Record, place: int, response: Response, heard: Heard, output: int | None) -> None:
        if response.events is None:
            record.outcome, record.error = "failed", "no stream"
            return
        try:
            self._target.dialect.hear(response.events.payloads(), heard)
        except Malformed:
            record.outcome, record.error = "failed", "Malformed"
            return
        record.outcome = "ok" if heard.done and not heard.error else "failed"
        record.error = heard.error or ("" if heard.done else "cut off")
        record.prompt, record.cached = heard.prompt or 0, heard.cached
        record.output = heard.output if heard.output is not None else (output or response.content)
        record.shown, record.call = max(record.output - heard.reasoning, 0), output is None
        record.served = heard.served or ""
        self.run.heard[place] = heard
        assert response.steps is not None
        self.run.gaps.setdefault(record.tier, Gaps(spread=self._spread)).add(response.steps, record.shown)

    def _take_down(self, record: Record, response: Response) -> None:
        """Also of an answer that was cut off."""
        began = self._began
        for name, at in (("first", response.first), ("last", response.last), ("ended", response.ended)):
            if at is not None:
                setattr(record, name, at - began)
        record.status = response.status
        record.shown = record.output = response.content
        wait = response.headers.get(b"x-fastmode-queue-wait-ms")
        record.queued = float(wait) / 1e3 if wait is not None else None
        record.mistake = response.headers.get(b"x-fastmode-mistake", b"").decode()

    async def _connection(self) -> tuple[Connection, bool]:
        """One, and whether it has been used before."""
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection, True
        return await Connection.connect(self._target.address), False

    def _request(self, body: dict[str, object]) -> bytes:
        target, payload = self._target, orjson.dumps(body)
        headers = {
            "host": f"{target.address.host}:{target.address.port}",
            "content-type": "application/json",
            "content-length": str(len(payload)),
            "x-fastmode-debug": "1",
            **target.dialect.headers(target.key),
        }
        lines = [f"POST {target.path}{target.dialect.path} HTTP/1.1", *(f"{name}: {v}" for name, v in headers.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload


def _reason(response: Response) -> str:
    """Why there is no answer, in a word or two."""
    given = response.headers.get(b"x-fastmode-reason")
    if given:
        return given.decode()
    try:
        error = orjson.loads(response.body)["error"]
        return str(error.get("code") or error.get("type") or response.status)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return f"status {response.status}"
