"""Which requests get a reply that was written beforehand, and which meet a fault: by rules, at random, or on demand.

The rules are those of a file, which is read again when it has changed, or those put in their place while the service
runs. A file that cannot be used changes nothing and is reported, but for the first one: with that, a gateway does not
start. What a request's own header asks for goes before what its rule says, and that before what is drawn for its tier.
Knows no dialect; what becomes of an answer is done elsewhere.
"""

import hashlib
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import HTTPConnection

from gateway.admission import Ask, Ticket
from service import faults, rules
from service.errors import InvalidRequest, RulesError, ServiceError
from service.faults import Fault, Step
from service.messages import Job, Scripted
from service.scripts import Reply, Rule, Rules, Seen
from service.settings import BOOLEANS, Settings

log = logging.getLogger(__name__)

FAULT = "x-fastmode-fault"
DEBUG = "x-fastmode-debug"

_NOT_FOR_HEADERS = re.compile(r"[^\x20-\x7e]")
_LOOK_EVERY = 0.25  # s
_CONVERSATIONS_MAX = 10_000  # that rules count their replies to; the one longest unheard of begins anew

# Beginnings of paths; the longer one first where one begins another.
_SURFACES = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/embeddings": "embeddings",
}


@dataclass(frozen=True, slots=True)
class Direction:
    """What is special about one request. `reveals`: its answer says so in headers."""

    rule: str = ""
    fault: Fault | None = None
    scripted: Scripted | None = None
    delay: float = 0.0
    reveals: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        steps = self.fault.steps if self.fault is not None else ()
        return faults.ordered((faults.slowed(self.delay), *steps)) if self.delay else steps

    @property
    def corrupts(self) -> int | None:
        """Tokens after which an event is not JSON."""
        return next((step.at for step in self.steps if step.does == "corrupt"), None)

    def refusal(self, ticket: Ticket) -> ServiceError | None:
        """What the request is told instead of an answer."""
        if self.fault is None or self.fault.refusal is None:
            return None
        error = self.fault.refusal.error()
        error.headers = revealed(self, ticket) if self.reveals else {}
        return error

    def job(self, job: Job) -> Job:
        """The job, with what it has to say."""
        if self.scripted is None:
            return job
        return msgspec.structs.replace(job, wish=msgspec.structs.replace(job.wish, scripted=self.scripted))


PLAIN = Direction()


class Director:
    """One for all surfaces of a gateway. `trouble` says why the file of rules is not in use; empty: it is, or is none.

    `clock` gives seconds. Raises RulesError when the file cannot be used.
    """

    def __init__(self, settings: Settings, tiers: Collection[str], clock: Callable[[], float]) -> None:
        self.trouble = ""
        self._path = settings.rules
        self._tiers = tiers
        self._on_demand = settings.faults
        self._reveals = settings.debug_headers
        self._clock = clock
        self._looked = clock()
        self._signature = _signature(self._path)
        self._answered: OrderedDict[tuple[int, bytes], int] = OrderedDict()  # by rule and conversation
        self._seen: Counter[str] = Counter()  # requests of each tier
        self._rules = rules.load(self._path, tiers) if self._path is not None else Rules()

    def put(self, new: Rules) -> None:
        """From now on these. A rule that stays as and where it was goes on counting, and so do unchanged rates."""
        pairs = enumerate(zip(self._rules.rules, new.rules, strict=False))
        kept = {number for number, (before, after) in pairs if before == after}
        for whose in [whose for whose in self._answered if whose[0] not in kept]:
            del self._answered[whose]
        if new.rates != self._rules.rates:
            self._seen.clear()
        self._rules = new

    def replace(self, values: dict[str, Any]) -> int:
        """Rules in the place of those of the file, until that changes; how many there are. Raises RulesError."""
        self.put(rules.of(values, self._tiers))
        return len(self._rules.rules)

    def look(self) -> None:
        """Read the file again if it has changed; it is looked at a few times a second at most."""
        now = self._clock()
        if self._path is None or now - self._looked < _LOOK_EVERY:
            return
        self._looked = now
        signature = _signature(self._path)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self.put(rules.load(self._path, self._tiers))
            self.trouble = ""
            log.info("%s: %d rules are in use", self._path, len(self._rules.rules))
        except RulesError as error:
            self.trouble = str(error)
            log.warning("the rules are kept as they were: %s", error)

    def direct(self, ask: Ask, ticket: Ticket, connection: HTTPConnection) -> Direction:
        """What is special about an admitted request. Raises InvalidRequest."""
        self.look()
        tier, number = ticket.offer.tier, 0
        if self._rules.rates:
            number = self._seen[tier]
            self._seen[tier] += 1
        rule, reply, facts = self._find(ask, ticket, connection) if self._rules.rules else (None, None, {})
        fault = self._demanded(connection) or (reply.fault if reply else None)
        if fault is None and tier in self._rules.rates:
            fault = self._rules.rates[tier].draw(number)
        return Direction(
            rule=rule.name if rule else "",
            fault=fault,
            scripted=reply.scripted(facts) if reply else None,
            delay=reply.delay if reply else 0.0,
            reveals=self._reveals or BOOLEANS.get(connection.headers.get(DEBUG, "0").lower(), False),
        )

    def refuse(self, connection: HTTPConnection) -> None:
        """For requests that nothing is generated for. Raises the refusal that is asked for, and InvalidRequest."""
        fault = self._demanded(connection)
        if fault is not None and fault.refusal is not None:
            raise fault.refusal.error()

    def _demanded(self, connection: HTTPConnection) -> Fault | None:
        words = connection.headers.get(FAULT) if self._on_demand else None
        if words is None:
            return None
        try:
            return faults.parse(words)
        except ValueError as error:
            raise InvalidRequest(f"Invalid header {FAULT}: {error}.", param=FAULT) from None

    def _find(
        self, ask: Ask, ticket: Ticket, connection: HTTPConnection
    ) -> tuple[Rule | None, Reply | None, Mapping[str, str]]:
        """The first rule that fits and is not used up, its reply, and what that may quote."""
        seen = Seen(
            model=ticket.offer.model,
            asked=ask.model,
            tier=ticket.offer.tier,
            surface=surface(connection),
            turns=ask.turns,
            tools=frozenset(tool.name for tool in ask.wish.tools),
            headers=connection.headers,
        )
        for number, rule in enumerate(self._rules.rules):
            facts = rule.match.facts(seen)
            if facts is None:
                continue
            whose = (number, _known_by(seen, ask.account.id) if rule.per == "conversation" else b"")
            reply = rule.reply(self._answered.get(whose, 0))
            if reply is not None:
                self._count(whose)
                return rule, reply, facts
        return None, None, {}

    def _count(self, whose: tuple[int, bytes]) -> None:
        self._answered[whose] = self._answered.pop(whose, 0) + 1
        if len(self._answered) > _CONVERSATIONS_MAX:
            self._answered.popitem(last=False)


def revealed(direction: Direction, ticket: Ticket) -> dict[str, str]:
    """What is said in headers of how a request is served, as soon as it has been admitted."""
    said = {
        "x-fastmode-tier-requested": ticket.requested,
        "x-fastmode-tier-served": ticket.offer.tier,
        "x-fastmode-pool": ticket.pool.name,
        "x-fastmode-rule": direction.rule,
        "x-fastmode-fault": direction.fault.words if direction.fault else "",
    }
    return {name: _NOT_FOR_HEADERS.sub("?", text) for name, text in said.items() if text}


def surface(connection: HTTPConnection) -> str:
    """Which of service.scripts.SURFACES a request came in by; empty: none of them."""
    path = connection.scope["path"]
    return next((name for beginning, name in _SURFACES.items() if path.startswith(beginning)), "")


def _known_by(seen: Seen, account: str) -> bytes:
    digest = hashlib.blake2s(account.encode())
    for turn in seen.opening:
        digest.update(f"{turn.role}\0{turn.text}\0".encode("utf-8", "surrogatepass"))
    return digest.digest()


def _signature(path: Path | None) -> tuple[int, int, int] | None:
    """What changes when the file does; None: there is none."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None
