"""Do streams run at the speeds they are sold at? The shipped tiers by OpenAI's SDK, and known rates by both clients.

Speculative decoding draws how many tokens a step yields, so a stream's rate scatters; a tier's figure is taken over
enough steps for the standard error, which is shown, to stay below one percent.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import uvloop
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import Connection, Wrong, chat, check, clock
from service.figures import lone_speed
from service.pools import Pool, Roofline
from service.tiers import Offer

MODEL = "gpt-5.3-codex"  # sold at all three tiers
_SECONDS = 10.0
_KNOWN_SECONDS = 4.0
_STREAMS_MAX = 8  # of a tier at once
_SDK_RATE_MAX = 1200.0  # tok/s of a tier; the SDK spends a quarter of a millisecond on each token
_WITHIN = 2.0  # percent


@dataclass(frozen=True, slots=True)
class _Stream:
    tokens: int
    seconds: float  # from the first to the last

    @property
    def rate(self) -> float:
        return (self.tokens - 1) / self.seconds


def run() -> Iterator[Sheet]:
    with stand.service(None) as service:
        yield uvloop.run(_tiers(service))
    with stand.service(stand.KNOWN_RATES, ["test-1000", "test-2000"]) as service:
        yield uvloop.run(_known(service))


async def _tiers(service: stand.Service) -> Sheet:
    figures: list[Figure] = []
    async with _sdk(service) as client:
        for offer in service.catalog.models[MODEL].offers.values():
            figures += await _tier(client, service.catalog.pools[offer.pool], offer)
    setting = (
        f"AsyncOpenAI streams of {MODEL}, shipped catalog, about {_SECONDS:g} s each, one tier after the other, at"
        " most two streams per replica; rate = sum of (tokens - 1) / sum of (last - first)"
    )
    return Sheet("pace", "Tiers at their derived speeds", setting, figures)


async def _tier(client: AsyncOpenAI, pool: Pool, offer: Offer) -> list[Figure]:
    derived = lone_speed(pool)
    tokens = round(derived * _SECONDS)
    count = max(1, min(2 * pool.replicas, _STREAMS_MAX, int(_SDK_RATE_MAX / derived)))
    streams = await asyncio.gather(*(_by_sdk(client, offer.model, offer.tier, tokens) for _ in range(count)))
    rate = sum(stream.tokens - 1 for stream in streams) / sum(stream.seconds for stream in streams)
    error = (rate / derived - 1) * 100
    return [
        Figure(f"{offer.tier}: derived", derived, "tok/s"),
        Figure(f"{offer.tier}: delivered, {count} stream{'s' * (count > 1)}", rate, "tok/s"),
        Figure(f"{offer.tier}: off by", abs(error), "%", Aim("<=", _WITHIN)),
        Figure(f"{offer.tier}: standard error of the draws", _standard_error(pool, count * tokens) * 100, "%"),
    ]


def _standard_error(pool: Pool, tokens: int) -> float:
    """Of a rate over that many tokens, relative: the coefficient of variation of a step's yield, over sqrt(steps)."""
    assert isinstance(pool.timing, Roofline)
    emission = pool.timing.step_time.emission
    mean = sum(count * share for count, share in enumerate(emission, 1))
    square = sum(count**2 * share for count, share in enumerate(emission, 1))
    return sqrt(max(0.0, square - mean**2)) / mean / sqrt(tokens / mean)


async def _known(service: stand.Service) -> Sheet:
    figures: list[Figure] = []
    async with _sdk(service) as client:
        for rate, least in ((1000, 990), (2000, 1950)):
            model, tokens = f"test-{rate}", round(rate * _KNOWN_SECONDS)
            await _by_socket(service, model, 100)  # the first request of a process finds nothing warm
            raw = await _by_socket(service, model, tokens)
            sdk = (await _by_sdk(client, model, None, tokens)).rate
            figures += [
                Figure(f"{rate} tok/s, read from the socket", raw, "tok/s", Aim(">=", least)),
                Figure(f"{rate} tok/s, OpenAI SDK", sdk, "tok/s", Aim(">=", least)),
            ]
    setting = f"one stream at a time, {_KNOWN_SECONDS:g} s each, bench catalog; rate = (tokens - 1) / (last - first)"
    return Sheet("pace", "Single streams at known rates", setting, figures)


async def _by_socket(service: stand.Service, model: str, tokens: int) -> float:
    connection = await Connection.connect(service.address)
    timing = await connection.ask(chat(model, tokens))
    connection.close()
    check(timing, tokens)
    return timing.rate


async def _by_sdk(client: AsyncOpenAI, model: str, tier: str | None, tokens: int) -> _Stream:
    message: ChatCompletionUserMessageParam = {"role": "user", "content": "Tell me something long about engines."}
    extra: dict[str, object] = {"ignore_eos": True} | ({"service_tier": tier} if tier else {})
    stream = await client.chat.completions.create(
        model=model, messages=[message], max_tokens=tokens, stream=True, extra_body=extra
    )
    times = [clock() async for chunk in stream if chunk.choices and chunk.choices[0].delta.content]
    if len(times) != tokens:
        raise Wrong(f"{len(times)} pieces of content came, {tokens} tokens were asked for")
    return _Stream(tokens, times[-1] - times[0])


def _sdk(service: stand.Service) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{service.base_url}/v1", api_key="bench", max_retries=0)
