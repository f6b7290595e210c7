"""Who are you, which tier, does it fit, is there room: a request becomes a Ticket or a refusal.

The one place where a request meets the catalog. Knows no dialect: errors carry status, code and parameter, and each
dialect words them its own way.
"""

import asyncio
import hashlib
import uuid
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from gateway import resolution
from gateway.meter import TYPICAL_OUTPUT, Meter, Metered
from service import prefixes, tokenizer
from service.accounts import NOBODY, Account
from service.errors import ContextLengthExceeded, InvalidRequest, OutputTooLong, ServiceError, Unavailable
from service.messages import Job, Turn, Wish
from service.offers import FREE
from service.pools import Pool, PrefixCache, Roofline
from service.profiles import Profile
from service.queue import Bounds
from service.settings import Settings
from service.tiers import Offer, ServedModel, find
from service.wire.openai_caching import USUAL, Caching

_COUNT_IN_THREAD = 50_000  # characters; a longer prompt takes milliseconds to count, during which no token would go out
_VOLUME_MAX = 524_288  # output tokens of one request, all choices together


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client wants.

    Its words for a tier are a dialect's: `service_tier`, and `speed` with what `betas` allow. Where `prompts` is given,
    each turn is a prompt of its own that nothing is wrapped around, and `prompts` has its tokens. Of a prompt, the
    beginning may be found in a cache, and be kept there: the first so many tokens for so many seconds, in order; None:
    all, as `caching` says.
    """

    model: str
    service_tier: str | None
    dialect: str = "openai"
    speed: str | None = None
    betas: frozenset[str] = frozenset()
    region: str = ""  # in which alone it is to be served
    turns: tuple[Turn, ...]
    tools: str = ""  # their definitions, as the model reads them
    images: tuple[tuple[bytes, ...], ...] = ()  # of each turn, a digest of each; empty if there are none
    image_tokens: int = 0
    max_tokens: int | None = None
    max_tokens_param: str = "max_tokens"
    min_tokens: int = 0
    ignore_eos: bool = False
    verbosity: float = 1.0  # length of an answer that ends by itself, beside what is natural
    stop: tuple[str, ...] = ()
    seed: int | None = None
    choices: int = 1
    account: Account = NOBODY
    keep: tuple[tuple[int, int], ...] | None = None
    caching: Caching = USUAL
    prompts: tuple[int, ...] = ()
    wish: Wish = field(default_factory=Wish)


@dataclass(frozen=True, slots=True)
class Ticket:
    """An admitted request: its job, what it was sold as, and where it may wait."""

    job: Job
    offer: Offer
    pool: Pool
    requested: str
    fingerprint: str
    bounds: Bounds
    metered: Metered
    others: tuple[Offer, ...] = ()  # what else it may be served as
    growing: bool = False  # its account's use of the tier, too fast: it found less room than others


class Admission:
    """Admits requests to what a profile sells. Set `draining` and it refuses them all."""

    def __init__(self, settings: Settings, profile: Profile, gateway: str, meter: Meter) -> None:
        self.draining = False
        self.profile = profile
        self._settings = settings
        self._catalog = profile.catalog
        self._gateway = gateway
        self._meter = meter

    async def admit(self, ask: Ask, prefix: str) -> Ticket:
        """A ticket with a fresh job id behind `prefix`, or a ServiceError that says why not.

        What it holds of its account's limits has to be settled.
        """
        if self.draining:
            raise Unavailable("This server is shutting down. Please try again.", reason="draining", retry_after=1)
        offer = self._resolve(ask)
        return await self._ticket(ask, offer, resolution.others(self.profile, offer), prefix + uuid.uuid4().hex[:29])

    async def instead(self, ask: Ask, ticket: Ticket) -> Ticket:
        """A ticket for the same job as the next other offer, since there is no room at its own. Raises ServiceError."""
        await ticket.metered.settle(None, 0)
        offer, *others = ticket.others
        return await self._ticket(ask, offer, tuple(others), ticket.job.id)

    async def _ticket(self, ask: Ask, offer: Offer, others: tuple[Offer, ...], name: str) -> Ticket:
        pool, served = self._catalog.pools[offer.pool], self._catalog.models[offer.model]
        default = served.offers[served.default_tier]
        try:
            offer = resolution.regional(served, offer, ask.region)
            job = await self._prepared(ask, offer, served, pool, name)
        except ServiceError as error:
            error.headers = await self._meter.told(ask.account, offer, default, ask.dialect)
            raise
        growing = self._meter.growing(ask.account, offer)
        bounds = Bounds(
            offer.overflow.room(pool.queue_max, growing), self._settings.queue_bytes_max, pool.queue_wait_max
        )
        metered = await self._meter.take(ask.account, offer, default, job, ask.dialect)
        requested = ask.speed or ask.service_tier or "auto"
        return Ticket(job, offer, pool, requested, _fingerprint(offer, pool), bounds, metered, others, growing)

    async def _prepared(self, ask: Ask, offer: Offer, served: ServedModel, pool: Pool, name: str) -> Job:
        """Raises ServiceError: it cannot be served like that by anybody."""
        _check_modalities(ask, offer)
        _check_choices(ask, pool)
        namespace = self.profile.cache_namespace(offer, ask.betas)
        salt = f"{ask.account.id}/{offer.model}/{namespace}/{ask.caching.key}"
        prompt_tokens, blocks = await _read(ask, pool.prefix_cache, salt)
        longest = max(ask.prompts, default=prompt_tokens)
        _check_length(ask, offer, longest)
        left = min(offer.max_output, offer.context_window - longest)
        _check_volume(ask, left)
        job = self._job(ask, offer, prompt_tokens, left, blocks, name)
        if not blocks or pool.prefix_cache is None:
            return job
        bought = ask.keep is not None or served.write_times != FREE
        kept = _kept(ask, bought, prompt_tokens, pool.prefix_cache)
        return replace(job, keep=kept, blocks=blocks if kept else b"", bought=bought)

    def _resolve(self, ask: Ask) -> Offer:
        if ask.dialect == "anthropic":
            return resolution.anthropic(self.profile, ask.account, ask.model, ask.speed, ask.service_tier, ask.betas)
        return resolution.openai(self.profile, ask.account, ask.model, ask.service_tier)

    async def count(self, ask: Ask) -> int:
        """The tokens of a prompt, as they would be charged. Raises ModelNotFound, RateLimited."""
        find(self._catalog, ask.model)
        await self._meter.count(ask.account, ask.dialect)
        return (await _read(ask, None, ""))[0]

    def _job(self, ask: Ask, offer: Offer, prompt_tokens: int, left: int, blocks: bytes, name: str) -> Job:
        expected = prompt_tokens + ask.choices * (ask.max_tokens or TYPICAL_OUTPUT)
        median, sigma = self._catalog.answer_length
        return Job(
            id=name,
            gateway=self._gateway,
            pool=offer.pool,
            model=offer.model,
            tier=offer.tier,
            tenant=ask.account.id,
            weight=ask.account.weight,
            band=offer.band,
            cost=float(expected),
            conversation=ask.turns,
            prompt_tokens=prompt_tokens,
            max_tokens=ask.max_tokens,
            min_tokens=ask.min_tokens,
            context_left=left,
            ignore_eos=ask.ignore_eos,
            stop=ask.stop,
            seed=ask.seed or 0,
            choices=ask.choices,
            blocks=blocks,
            prompts=ask.prompts,
            pace=offer.rate,
            intake=offer.intake,
            wish=replace(ask.wish, length=(median * ask.verbosity, sigma), mistakes=offer.mistakes),
        )


async def _read(ask: Ask, cache: PrefixCache | None, salt: str) -> tuple[int, bytes]:
    """How many tokens the prompt has, and the blocks that its pool would know it by."""
    if ask.prompts:
        return sum(ask.prompts), b""
    length = len(ask.tools) + sum(len(turn.text) for turn in ask.turns)
    # A token has at least one character: most prompts are known to be too short to be kept before they are counted.
    if cache is not None and (ask.images or length >= cache.minimum):
        read = partial(_identify, ask, cache, salt=salt)
    else:
        read = partial(_count, ask)
    return await asyncio.to_thread(read) if length > _COUNT_IN_THREAD else read()


def _count(ask: Ask) -> tuple[int, bytes]:
    text = tokenizer.count_chat(ask.turns) + (tokenizer.count(ask.tools) if ask.tools else 0)
    return text + ask.image_tokens * sum(map(len, ask.images)), b""


def _identify(ask: Ask, cache: PrefixCache, salt: str) -> tuple[int, bytes]:
    prompt = prefixes.prompt(ask.turns, ask.tools, ask.images, ask.image_tokens)
    tokens = prefixes.length(prompt)
    if ask.keep is not None:
        prompt = prefixes.beginning(prompt, max((end for end, _ in ask.keep), default=0))
    return tokens, prefixes.blocks(prompt, cache.block, salt) if prefixes.length(prompt) >= cache.minimum else b""


def _kept(ask: Ask, bought: bool, prompt: int, cache: PrefixCache) -> tuple[tuple[int, int], ...]:
    """What is put into the cache: whole blocks. `bought`: it is charged."""
    keep = ask.keep
    if keep is None:
        seconds = ask.caching.bought if bought else ask.caching.free
        keep = ((prompt, seconds),) if seconds is not None else ()
    most = prompt - 1  # of one that is found whole, a token is left to compute
    return tuple((min(end, most) // cache.block * cache.block, seconds) for end, seconds in keep)


def _check_volume(ask: Ask, longest: int) -> None:
    """All choices together are bounded, too: their text is held until it has been sent."""
    each = ask.max_tokens or (longest if ask.ignore_eos else max(ask.min_tokens, 1))
    if ask.choices > 1 and ask.choices * each > _VOLUME_MAX:
        raise InvalidRequest(
            f"Invalid 'n': {ask.choices} choices of up to {each} tokens are more than {_VOLUME_MAX} tokens in all.",
            param="n",
        )


def _check_modalities(ask: Ask, offer: Offer) -> None:
    if ask.images and "image" not in offer.modalities:
        raise InvalidRequest(f"The model `{offer.model}` takes text only; it cannot read images.", param="messages")


def _check_choices(ask: Ask, pool: Pool) -> None:
    room = pool.replicas * pool.slots
    if ask.choices > room:
        raise InvalidRequest(
            f"Invalid 'n': integer above maximum value. This tier generates at most {room} choices at once, but got "
            f"{ask.choices} instead.",
            code="integer_above_max_value",
            param="n",
        )


def _check_length(ask: Ask, offer: Offer, prompt_tokens: int) -> None:
    window = offer.context_window
    if prompt_tokens >= window:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {window} tokens. However, your messages resulted in "
            f"{prompt_tokens} tokens. Please reduce the length of the messages.",
            param="messages",
            facts={"prompt": prompt_tokens, "window": window},
        )
    param, wanted = ask.max_tokens_param, ask.max_tokens
    if wanted is None:
        param, wanted = "min_tokens", ask.min_tokens
    elif ask.min_tokens > wanted:
        raise InvalidRequest("min_tokens must not exceed the limit on output tokens.", param="min_tokens")
    if wanted > offer.max_output:
        raise OutputTooLong(
            f"{param} is too large: {wanted}. This model supports at most {offer.max_output} completion tokens.",
            param=param,
            facts={"wanted": wanted, "most": offer.max_output, "model": offer.model},
        )
    if prompt_tokens + wanted > window:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {window} tokens. However, you requested "
            f"{prompt_tokens + wanted} tokens ({prompt_tokens} in the messages, {wanted} in the completion). Please "
            "reduce the length of the messages or completion.",
            param="messages",
            facts={"prompt": prompt_tokens, "wanted": wanted, "window": window},
        )


def _fingerprint(offer: Offer, pool: Pool) -> str:
    """Equal for tiers that run the same weights, and so say the same. A measured pool does not say what it runs."""
    weights = pool.timing.architecture.name if isinstance(pool.timing, Roofline) else "unknown"
    digest = hashlib.blake2s(f"{offer.model} {weights}".encode(), digest_size=5)
    return f"fp_{digest.hexdigest()}"
