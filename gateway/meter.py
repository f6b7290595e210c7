"""Has an account room for a request? What is taken is held until the request has ended, and trued up then.

Knows what each kind of limit counts, and that dialects have words of their own for limits. A plan that is not counted
costs nothing: what it would be is told all the same.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from service import pricing
from service.accounts import Account
from service.errors import Contended, QuotaExceeded, RateLimited, ServiceError, Unavailable
from service.growth import Growth
from service.limits import Limits
from service.messages import Job, Usage
from service.plans import Plan, chosen
from service.rooms import Draw, Held, Room, Way, amounts
from service.tiers import Offer
from service.wire import anthropic_limits, openai_limits

log = logging.getLogger(__name__)

COUNTING = "count_tokens"  # the group of requests that only count tokens
TYPICAL_OUTPUT = 256  # tokens that a request is expected to generate if it does not say
RESERVED_OUTPUT = 4096  # tokens of a choice that a budget has to have room for, at most
TELL_EVERY = 1.0  # s between two looks at what is being generated
_STANDARD = "standard_"
_NOTHING = Job(id="", gateway="", pool="", model="", tier="")


class Words(Protocol):
    """What a dialect says of limits."""

    def headers(self, rooms: Mapping[str, Room], now: float, fast: bool) -> dict[str, str]: ...
    def refusal(self, kind: str, room: Room, model: str, fast: bool) -> RateLimited: ...
    def crowded(self, parallel: int) -> Contended: ...
    def spent(self) -> QuotaExceeded: ...


_WORDS: Mapping[str, Words] = {"openai": openai_limits, "anthropic": anthropic_limits}


class Metered:
    """What is held for one request; nothing, if nothing is counted. `headers` are what an answer says of limits."""

    def __init__(
        self, meter: "Meter", account: str, offer: Offer, job: str, headers: Mapping[str, str], held: bool
    ) -> None:
        self.account = account
        self.offer = offer
        self.job = job
        self.headers = headers
        self.held = held
        self.generated = 0  # tokens, of which `told` have been
        self.told = 0
        self._meter = meter

    async def settle(self, usage: Usage | None, cost: int) -> None:
        """The request has ended; None: without anything that is charged."""
        if usage is not None and self.offer.overflow.ramp is not None:
            self._meter.growth.count(self.account, self.offer.tier, usage.prompt + usage.completion)
        if not self.held:
            return
        self.held = False
        self._meter.running.discard(self)
        try:
            await self._meter.limits.settle(self.account, self.job, amounts(usage or Usage(prompt=0)), cost)
        except Unavailable:
            log.warning("what a request has used could not be counted: its hold expires")


class Meter:
    """One for all surfaces of a gateway. `running` are held requests whose output is charged as it comes.

    `plan` names that of accounts that have none. Raises CatalogError: there is no such plan.
    """

    def __init__(self, limits: Limits, growth: Growth, plans: Mapping[str, Plan], plan: str) -> None:
        self.limits = limits
        self.growth = growth
        self.running: set[Metered] = set()
        self._plans = plans
        self._default = chosen(plans, plan)
        self._full: dict[tuple[str, str, str, str], tuple[int, Mapping[str, str]]] = {}  # headers, by second

    async def run(self) -> None:
        """Charge output as it is generated, and tell what was used, for as long as it runs."""
        while True:
            await asyncio.sleep(TELL_EVERY)
            for metered in [each for each in self.running if each.generated > each.told]:
                metered.told = metered.generated
                with suppress(Unavailable):
                    await self.limits.used(metered.account, metered.job, {"output_tokens": metered.told})
            with suppress(Unavailable):
                await self.growth.tell()

    def growing(self, account: Account, offer: Offer) -> bool:
        """Whether its use of that tier grows faster than the tier is ready for."""
        ramp = offer.overflow.ramp
        return ramp is not None and self.growth.too_fast(account.id, offer.tier, ramp)

    async def count(self, account: Account, dialect: str) -> None:
        """A request to count tokens, which has a limit of its own. Raises RateLimited, Unavailable."""
        plan = self._plans.get(account.plan, self._default)
        most = plan.of(COUNTING).requests
        if most is None or not plan.counted:
            return
        job = uuid.uuid4().hex
        held = await self.limits.hold(account.id, job, [Way((Draw(f"{COUNTING}:requests", most, 1),))])
        if held.way is None:
            raise _WORDS[dialect].refusal("requests", held.rooms[0], "token counting", fast=False)
        await self.limits.settle(account.id, job, {}, 0)

    async def take(self, account: Account, offer: Offer, default: Offer, job: Job, dialect: str) -> Metered:
        """What the job may need is held. `default`: the model's own offer, whose limits are told beside.

        Raises RateLimited, Contended, QuotaExceeded, Unavailable.
        """
        plan = self._plans.get(account.plan, self._default)
        if not plan.counted and not account.limited:
            return Metered(self, account.id, offer, job.id, self._untouched(plan, offer, default, dialect), held=False)
        fast = _fast(offer, default, dialect)
        draws = _draws(account, plan, offer, default, job, fast)
        counted = {kind: draw for kind, draw in draws.items() if plan.counted or kind.startswith("all_")}
        rooms = _full(draws)
        way = Way(tuple(counted.values()), _reserve(offer, job) if account.budget is not None else 0)
        held = await self.limits.hold(
            account.id, job.id, [way], parallel=account.parallel, budget=account.budget, period=account.period
        )
        rooms |= dict(zip(counted, held.rooms, strict=True))
        if held.way is None:
            raise _refusal(account, offer, dialect, fast, rooms, held)
        told = _WORDS[dialect].headers(rooms, time.time(), fast)
        metered = Metered(self, account.id, offer, job.id, told, held=True)
        if "output_tokens" in rooms:
            self.running.add(metered)
        return metered

    async def told(self, account: Account, offer: Offer, default: Offer, dialect: str) -> Mapping[str, str]:
        """What an answer says of limits to a request of which nothing is counted; nothing while nobody can be asked."""
        plan = self._plans.get(account.plan, self._default)
        if not plan.counted and not account.limited:
            return self._untouched(plan, offer, default, dialect)
        fast = _fast(offer, default, dialect)
        draws = _draws(account, plan, offer, default, _NOTHING, fast)
        counted = {kind: draw for kind, draw in draws.items() if plan.counted or kind.startswith("all_")}
        try:
            looked = await self.limits.look(account.id, counted.values())
        except Unavailable:
            return {}
        rooms = _full(draws) | dict(zip(counted, looked, strict=True))
        return _WORDS[dialect].headers(rooms, time.time(), fast)

    def _untouched(self, plan: Plan, offer: Offer, default: Offer, dialect: str) -> Mapping[str, str]:
        """Headers of a plan that is not counted: all that it would give is left."""
        which, now = (plan.name, offer.limits, default.limits, dialect), time.time()
        second, headers = self._full.get(which, (0, {}))
        if second != int(now):
            fast = _fast(offer, default, dialect)
            rooms = _full(_draws(Account(), plan, offer, default, _NOTHING, fast))
            headers = _WORDS[dialect].headers(rooms, now, fast)
            self._full[which] = (int(now), headers)
        return headers


def _fast(offer: Offer, default: Offer, dialect: str) -> bool:
    """Whether its limits are told beside those of the default speed."""
    return offer.limits != default.limits and dialect == "anthropic"


def _full(draws: Mapping[str, Draw]) -> dict[str, Room]:
    return {kind: Room(draw.bucket, draw.capacity, draw.capacity, draw.amount) for kind, draw in draws.items()}


def _draws(account: Account, plan: Plan, offer: Offer, default: Offer, job: Job, fast: bool) -> dict[str, Draw]:
    """By kind. Of output that is charged as it comes, nothing is drawn beforehand.

    What is `fast` is counted among the requests of the default speed, whose tokens are only looked at.
    """
    allowed = plan.of(offer.limits)
    expected = job.prompt_tokens + job.choices * (job.max_tokens or TYPICAL_OUTPUT)
    amounts = {"requests": 1, "tokens": expected, "input_tokens": job.prompt_tokens, "output_tokens": 0}
    limits = {kind: (f"{offer.limits}:{kind}", getattr(allowed, kind)) for kind in amounts}
    limits |= {"all_requests": ("all:requests", account.requests), "all_tokens": ("all:tokens", account.tokens)}
    if fast:
        usual = plan.of(default.limits)
        amounts |= {f"{_STANDARD}{kind}": -1 for kind in ("input_tokens", "output_tokens")}
        limits["requests"] = (f"{default.limits}:requests", usual.requests)
        limits[f"{_STANDARD}input_tokens"] = (f"{default.limits}:input_tokens", usual.input_tokens)
        limits[f"{_STANDARD}output_tokens"] = (f"{default.limits}:output_tokens", usual.output_tokens)
    return {
        kind: Draw(bucket, capacity, amounts[kind.removeprefix("all_")])
        for kind, (bucket, capacity) in limits.items()
        if capacity is not None
    }


def _reserve(offer: Offer, job: Job) -> int:
    """Nano-dollars of the prompt and of an answer of typical length: one large limit must not take a whole budget."""
    output = min(job.max_tokens or TYPICAL_OUTPUT, RESERVED_OUTPUT)
    written, written_long = job.written(0)
    return pricing.cost(
        offer.price,
        Usage(prompt=job.prompt_tokens, completion=job.choices * output, written=written, written_long=written_long),
    )


def _refusal(
    account: Account, offer: Offer, dialect: str, fast: bool, rooms: Mapping[str, Room], held: Held
) -> ServiceError:
    words = _WORDS[dialect]
    error: ServiceError
    match held.reason:
        case "budget":
            error = words.spent()
        case "parallel":
            error = words.crowded(account.parallel or 0)
        case _:
            kind, room = max(rooms.items(), key=lambda each: each[1].enough_in if each[1].amount >= 0 else -1.0)
            error = words.refusal(kind, room, offer.model, fast)
    error.headers = words.headers(rooms, time.time(), fast)
    return error
