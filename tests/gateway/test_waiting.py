"""Requests that wait, or would: keep-alives while they do, and a reason when there is no room, no time or nobody."""

from contextlib import AsyncExitStack

from calls import post
from evidence import idle, scrape, until
from pools import NARROW

from fastmode.up import Service

LONG = 50_000  # tokens; holds a slot until its client leaves


async def test_a_full_queue_refuses_and_says_when_to_come_again(steady: Service) -> None:
    before = await scrape(steady)
    async with AsyncExitStack() as opened:
        first = await opened.enter_async_context(post(steady.base_url, "narrow", LONG))
        await first.pieces(1)
        for _ in range(NARROW.queue):
            await opened.enter_async_context(post(steady.base_url, "narrow", LONG))
        await until(lambda: depth(steady, NARROW.queue), "the queue is full")
        for stream in (True, False):
            async with post(steady.base_url, "narrow", 5, stream=stream) as refused:
                answer = await refused.json()
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.headers["x-fastmode-reason"] == "queue_full"
            assert answer["error"]["code"] == "rate_limit_exceeded"
        counted = (await scrape(steady)).sum("fastmode_requests_total") - before.sum("fastmode_requests_total")
        assert counted == 2, "each refusal is counted once"
    await until(lambda: idle(steady), "all gauges are zero")


async def test_who_has_waited_too_long_is_told_so(steady: Service) -> None:
    async with post(steady.base_url, "hasty", LONG) as running:
        await running.pieces(1)
        async with post(steady.base_url, "hasty", 5, stream=False) as late:
            answer = await late.json()
        assert (late.status, late.headers["retry-after"]) == (429, "1")
        assert late.headers["x-fastmode-reason"] == "queue_deadline"
        assert "waited too long" in answer["error"]["message"]
    await until(lambda: idle(steady), "all gauges are zero")


async def test_a_stream_that_waits_is_kept_alive_until_its_first_token(steady: Service) -> None:
    async with post(steady.base_url, "narrow", LONG) as running, post(steady.base_url, "narrow", 5) as waiting:
        await running.pieces(1)
        comments = [await anext(aiter(waiting.blocks())) for _ in range(3)]
        running.abort()
        heard = await waiting.rest()
    assert comments == [b": keep-alive"] * 3
    assert heard.done
    assert len(heard.pieces) == 5


async def test_a_stream_is_kept_alive_in_a_silence_between_tokens(steady: Service) -> None:
    """A prompt that takes a second to read holds up those whose tokens are computed in the same steps."""
    async with post(steady.base_url, "reader", LONG) as running:
        heard = await running.pieces(1)
        async with post(steady.base_url, "reader", 1, prompt="word " * 100) as reading:
            await reading.rest()
        while heard.keepalives < 2:  # the stream would end, and this loop with an error, if there were none
            heard.add(await anext(aiter(running.blocks())))
        said = len(heard.pieces)
        await running.pieces(said + 1, heard)
    assert heard.error is None


async def test_an_error_after_keep_alives_is_an_event(steady: Service) -> None:
    async with post(steady.base_url, "hasty", LONG) as running, post(steady.base_url, "hasty", 5) as late:
        await running.pieces(1)
        heard = await late.rest()
    assert late.status == 200
    assert heard.keepalives >= 2
    assert heard.error is not None
    assert heard.error["code"] == "rate_limit_exceeded"
    assert not heard.done
    assert not heard.pieces


async def test_the_rate_shown_falls_to_zero_when_nothing_runs(steady: Service) -> None:
    async with post(steady.base_url, "narrow", 1500) as call:
        await call.pieces(1)
        await until(lambda: rate(steady, at_least=500), "the rate is shown")
        await call.rest()
    await until(lambda: rate(steady, at_most=0), "it is zero")


async def depth(steady: Service, jobs: int) -> bool:
    return (await scrape(steady)).sum("fastmode_queue_depth", pool="narrow") == jobs


async def rate(steady: Service, at_least: float = 0, at_most: float = 1e9) -> bool:
    return at_least <= (await scrape(steady)).sum("fastmode_output_tokens_per_second", pool="narrow") <= at_most
