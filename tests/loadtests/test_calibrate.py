"""Calibration measures what a client sees, is polite whatever it meets, gives no secret away; its pools are served."""

import asyncio
import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median

import pytest
from conftest import StartService
from pools import SWIFT, catalog
from standin import Answer, Request, Standin, delta, event, standin, stream

from loadtests.calibrate import TROUBLES_MAX, Measured, Plan, measure, prompt
from loadtests.endpoint import Endpoint
from service import tokenizer
from service.errors import CalibrationError
from service.messages import Turn
from service.pools import Roofline
from service.tiers import load
from service.timings import Empirical, Fixed

PLAN = Plan(requests=9, levels=(1, 3), prompts=(60, 100), output=20, pause=0.0, timeout=5.0)
KEY = "sk-very-secret-0123456789"


def silent(_: str, __: float) -> None:
    pass


async def measured(server: Standin, plan: Plan = PLAN, tier: str | None = None, key: str | None = None) -> Measured:
    async with Endpoint(server.url, "some-model", tier, key, plan.timeout) as endpoint:
        return await measure(endpoint, plan, silent, seed=1)


def error(message: str, status: int, **headers: str) -> Answer:
    body = f'{{"error": {{"message": "{message}"}}}}'
    return Answer(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


# ---- what is measured


async def test_times_and_tokens_are_those_that_the_client_sees() -> None:
    async with standin(lambda _: stream(20, first=0.1, gap=0.01)) as server:
        found = await measured(server)
    assert len(found.samples) == 9
    assert (found.troubles, found.stopped) == ((), None)
    for sample in found.samples:
        assert sample.ttft >= 0.1
        assert sample.rate <= 19 / (19 * 0.01), "no more than were sent"
        assert (sample.prompt, sample.output) == (50, 20)
    assert not any(answer.estimated for answer in found.answers)


async def test_load_is_what_was_in_flight_at_the_beginning_and_in_the_mean() -> None:
    async with standin(lambda _: stream()) as server:
        found = await measured(server)
    first, then = found.samples[:4], found.samples[4:]
    assert [sample.begun for sample in first] == [1] * 4
    assert [sample.load for sample in first] == pytest.approx([1] * 4, rel=1e-3)
    assert {sample.begun for sample in then} <= {1, 2, 3}
    assert all(1 <= sample.load <= 3 for sample in then)
    assert server.in_flight_max == 3


async def test_events_are_read_however_they_are_written() -> None:
    """Spaces in JSON, carriage returns, comments, roles and empty texts, reasoning that is shown."""
    thought = (event(delta(reasoning_content="hm")), event(delta(content="well")), event(delta(content=".")))
    closing = (event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}), event("[DONE]"))
    answers = [stream(20, end="\r\n"), Answer((*thought, *closing), 0.01, 0.01)]
    async with standin(lambda request: answers[request.number % 2]) as server:
        found = await measured(server, replace(PLAN, levels=(1,)))
    assert [answer.tokens for answer in found.answers] == [20, 3, 20, 3, 20, 3, 20, 3, 20]
    assert not any(answer.hidden for answer in found.answers)


async def test_thought_that_is_not_shown_is_in_the_time_to_first_token_and_not_in_the_rate() -> None:
    usage = {
        "prompt_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 32},
        "completion_tokens": 500,
        "completion_tokens_details": {"reasoning_tokens": 480},
    }
    async with standin(lambda _: stream(20, usage=usage)) as server:
        found = await measured(server)
    assert [(answer.tokens, answer.hidden, answer.cached) for answer in found.answers] == [(20, 480, 32)] * 9
    assert all(sample.prompt == 18 for sample in found.samples)


async def test_without_usage_tokens_are_counted_and_said_to_be_estimated() -> None:
    async with standin(lambda _: stream(20, usage={})) as server:
        found = await measured(server)
    assert [(answer.tokens, answer.estimated) for answer in found.answers] == [(20, True)] * 9
    assert all(abs(sample.prompt - size) < 15 for sample, size in zip(found.samples, (60, 100) * 9, strict=False))


@pytest.mark.parametrize("size", [50, 100, 1000, 5000])
def test_prompts_have_about_the_size_asked_for_and_none_begins_as_another(size: int) -> None:
    random = Random(1)
    texts = [prompt(size, random) for _ in range(20)]
    assert all(tokenizer.count_chat([Turn("user", text)]) == pytest.approx(size, rel=0.02, abs=6) for text in texts)
    assert len({text[:12] for text in texts}) == 20


# ---- manners


async def test_no_more_is_asked_than_was_said_and_no_more_at_once() -> None:
    async with standin(lambda _: stream()) as server:
        await measured(server)
    assert len(server.requests) == PLAN.requests
    assert sum(request.body["max_tokens"] for request in server.requests) == PLAN.output_tokens
    asked = sum(tokenizer.count_chat([Turn("user", request.prompt)]) for request in server.requests)
    assert asked == pytest.approx(PLAN.prompt_tokens, rel=0.1)


async def test_who_is_told_to_wait_makes_all_wait_and_then_goes_on() -> None:
    times = []

    def answer(request: Request) -> Answer:
        times.append(asyncio.get_running_loop().time())
        return error("slow down", 429, retry_after="0.3") if request.number == 5 else stream()

    async with standin(answer) as server:
        found = await measured(server)
    assert (len(found.samples), len(found.troubles), found.stopped) == (8, 1, None)
    assert "slow down" in found.troubles[0]
    later = [time for time in times if time > times[5] + 0.05]  # those beside it may be on their way
    assert min(later) >= times[5] + 0.29


@pytest.mark.parametrize(
    "answer",
    [
        error("slow down", 429, retry_after="0.01"),
        error("overloaded", 503, retry_after="0.01"),
        error("oops", 500),
        Answer((event(delta(content="a")), event({"error": {"message": "lost"}}))),
        Answer((event(delta(content="a")), event(delta(content="b")), event(delta(content="c")))),
        Answer((event("not json"),)),
        Answer(
            (
                event(delta(content="all at once")) + event({"choices": [], "usage": {"completion_tokens": 9}}),
                event("[DONE]"),
            )
        ),
        Answer((event(delta(role="assistant")), event("[DONE]"))),
    ],
    ids=["429", "503", "500", "error event", "no end", "no JSON", "all at once", "no text"],
)
async def test_after_a_few_requests_that_come_to_nothing_it_stops(answer: Answer) -> None:
    plan = replace(PLAN, requests=30, levels=(1,))
    async with standin(lambda request: stream() if request.number < 5 else answer) as server:
        found = await measured(server, plan)
    assert len(found.samples) == 5
    assert len(found.troubles) == TROUBLES_MAX
    assert found.stopped is not None
    assert len(server.requests) == 5 + TROUBLES_MAX


async def test_who_is_told_to_wait_for_long_stops_at_once() -> None:
    async with standin(lambda _: error("come back tomorrow", 429, retry_after="86400")) as server:
        found = await measured(server, replace(PLAN, levels=(1,)))
    assert len(server.requests) == 1
    assert found.stopped == "the endpoint asks to wait 86400 s"


async def test_an_endpoint_that_does_not_answer_is_left_after_the_timeout() -> None:
    plan = replace(PLAN, levels=(1,), timeout=0.1)
    async with standin(lambda _: stream(first=60)) as server:
        found = await measured(server, plan)
    assert set(found.troubles) == {"no whole answer in 0.1 s"}
    assert len(server.requests) == TROUBLES_MAX


async def test_an_endpoint_that_does_not_heed_the_limit_is_left() -> None:
    async with standin(lambda _: stream(surplus=1000, gap=0)) as server:
        with pytest.raises(CalibrationError, match="does not heed the limit"):
            await measured(server, replace(PLAN, levels=(1,)))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "status 401: bad key"), (403, "403"), (404, "usually ends in /v1"), (400, "400"), (302, "302")],
)
async def test_what_would_not_help_to_ask_again_ends_it_with_the_endpoints_words(status: int, says: str) -> None:
    async with standin(lambda _: error("bad key", status)) as server:
        with pytest.raises(CalibrationError, match=says):
            await measured(server, replace(PLAN, levels=(1,)))
    assert len(server.requests) == 1


async def test_an_endpoint_that_does_not_stream_cannot_be_measured() -> None:
    async with standin(lambda _: Answer(body="{}")) as server:
        with pytest.raises(CalibrationError, match="does not stream"):
            await measured(server)


async def test_what_an_endpoint_does_not_know_is_asked_for_otherwise() -> None:
    """Newer models of OpenAI refuse max_tokens; some servers refuse stream_options."""

    def answer(request: Request) -> Answer:
        if "max_tokens" in request.body:
            return error("'max_tokens' is not supported. Use 'max_completion_tokens' instead.", 400)
        if "stream_options" in request.body:
            return error("stream_options: Extra inputs are not permitted", 422)
        return stream(usage={})

    async with standin(answer) as server:
        found = await measured(server)
    assert len(found.samples) == PLAN.requests
    assert len(server.requests) == PLAN.requests + 2, "learned once"
    assert server.requests[-1].body["max_completion_tokens"] == PLAN.output


@pytest.mark.parametrize("url", ["api.example.com/v1", "ftp://example.com", "http://", ""])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(CalibrationError, match="no URL"):
        Endpoint(url, "m", None, None, 5)


async def test_a_base_url_without_a_path_means_v1() -> None:
    async with standin(lambda _: stream()) as server:
        for url in (server.url, server.url + "/", server.url.removesuffix("/v1"), server.url + "/chat/completions"):
            async with Endpoint(url, "m", None, None, 5) as endpoint:
                await endpoint.ask("hello", 20)
    assert {request.path for request in server.requests} == {"/v1/chat/completions"}


# ---- the command


def fastmode(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    bare = {name: text for name, text in os.environ.items() if not name.startswith(("FASTMODE_", "OPENAI_"))}
    command = [sys.executable, "-m", "fastmode", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**bare, **environ}, timeout=300)


async def calibrate(url: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    arguments = ("calibrate", "--base-url", url, "--pause", "0", *options)
    return await asyncio.to_thread(fastmode, *arguments, **environ)


async def test_the_key_goes_to_the_endpoint_and_nowhere_else(tmp_path: Path) -> None:
    """Nor does the host get into the pool; not even when the endpoint repeats them in its errors."""

    def answer(request: Request) -> Answer:
        heard = f"{request.headers['authorization']} at 127.0.0.1"
        return error(f"no capacity for {heard}", 429, retry_after="0") if request.number == 9 else stream()

    async with standin(answer) as server:
        files = [tmp_path / "pool.toml", tmp_path / "samples.csv"]
        options = (
            "--model",
            "some-model",
            "--service-tier",
            "fast",
            "--out",
            str(files[0]),
            "--samples",
            str(files[1]),
        )
        done = await calibrate(server.url, *options, "--api-key-env", "THE_KEY", THE_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
        assert {request.body["service_tier"] for request in server.requests} == {"fast"}
        refused = await calibrate(server.url, "--model", "x", "--api-key-env", "THE_KEY", THE_KEY=f"{KEY}\u00e9")
    said = done.stdout + done.stderr + refused.stdout + refused.stderr + "".join(file.read_text() for file in files)
    assert "no capacity for Bearer (the key) at (the host)" in said
    assert "very-secret" not in said
    assert "127.0.0.1" not in said
    assert refused.returncode == 2


async def test_it_says_beforehand_how_much_it_will_ask_for() -> None:
    async with standin(lambda _: error("no such model", 404)) as server:
        options = ("--model", "gpt-5.3-codex", "--service-tier", "fast", "--requests", "10", "--prompt-tokens", "500")
        done = await calibrate(server.url, *options, "--output-tokens", "100", "--concurrency", "1,2")
    assert done.returncode == 2
    before, fault = " ".join(done.stderr.split()).split("fastmode: ")
    assert "10 streamed answers, 1, then 2 at once" in before
    assert (
        "about 5,000 tokens of prompt, at most 1,000 of output (at most $0.0455 at the catalog's list price)" in before
    )
    assert "no such model" in fault


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--fit", "guess"], "--fit is 'guess'"),
        (["--fit", "scale"], "--pool belong together"),
        (["--pool", "fast"], "--pool belong together"),
        (["--fit", "scale", "--pool", "turbo"], "standard, fast, spark"),
        (["--concurrency", "1,two"], "--concurrency"),
        (["--concurrency", "100"], "between 1 and 32"),
        (["--prompt-tokens", "0"], "--prompt-tokens"),
        (["--requests", "4", "--concurrency", "1,2,3,4,5"], "too few for 5 levels"),
        (["--name", "a b"], "--name"),
        (["--timeout", "inf"], "--timeout"),
        (["--out", "pyproject.toml"], "exists"),
        (["--samples", "nowhere/at/all.csv"], "no directory"),
        (["--catalog", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_asked(options: list[str], says: str) -> None:
    done = fastmode("calibrate", "--base-url", "http://127.0.0.1:9", "--model", "m", *options)
    (line,) = done.stderr.splitlines()
    assert says in line
    assert done.returncode == 2


def test_an_endpoint_that_is_not_there_is_one_line() -> None:
    done = fastmode("calibrate", "--base-url", "http://127.0.0.1:9", "--model", "m", "--pause", "0")
    *_, line = done.stderr.splitlines()
    assert line.startswith("fastmode: 0 requests were measured; a fit takes at least 4;")
    assert done.returncode == 2


async def test_a_fit_says_what_is_wrong_with_it() -> None:
    def answer(request: Request) -> Answer:
        return stream(20, usage={}, tier="default", first=0.02 if request.number % 2 else 0.2)

    async with standin(answer) as server:
        done = await calibrate(server.url, "--model", "m", "--requests", "8", "--service-tier", "fast")
    said = " ".join(done.stdout.split())
    assert "The fit is poor" in said
    assert "too few samples: 8" in said
    assert "TTFT of single requests is off by" in said
    assert "the endpoint reports no usage: tokens are counted with o200k_base, an estimate" in said
    assert "the endpoint reports the service tier as 'default'" in said


# ---- from one service to another


KNOWN = Fixed(ttft=0.35, ttft_sigma=0.1, rate=200.0, rate_sigma=0.05)

SHELF = """
extends = "default"

{pool}

[sources.a-price]
kind = "assumed"
date = "2026-11"
reference = "Free"

[models.{name}]
owned_by = "tests"
created = 2026-11-30
context_window = 10_000
max_output = 10_000
modalities = ["text"]
default_tier = "standard"
source = "a-price"

[models.{name}.offers.standard]
pool = "{name}"
reported_as = "default"
price = {{ input = 0, cached_input = 0, output = 0 }}
"""

KNOWN_POOL = f"""
[pools.known]
timing = "fixed"
replicas = 1
max_batch = 8
ambient = {{ sequences = 0, context = 1 }}
queue = {{ max = 100, wait_max_s = 60 }}
utilisation = 1
source = "a-price"

[pools.known.fixed]
ttft_ms = {KNOWN.ttft * 1e3}
ttft_sigma = {KNOWN.ttft_sigma}
tok_s = {KNOWN.rate}
tok_s_sigma = {KNOWN.rate_sigma}
source = "a-price"
"""


def shelf(directory: Path, name: str, pool: str) -> Path:
    path = directory / f"{name}.toml"
    path.write_text(SHELF.format(name=name, pool=pool))
    return path


async def ask(url: str, model: str, times: int) -> Measured:
    plan = Plan(requests=times, levels=(2,), prompts=(100,), output=60, pause=0.0, timeout=60.0)
    async with Endpoint(url, model, None, None, 60.0) as endpoint:
        return await measure(endpoint, plan, silent, seed=2)


async def test_a_pool_of_known_timing_is_measured_and_what_comes_of_it_is_as_fast(
    stack: StartService, tmp_path: Path
) -> None:
    service = await asyncio.to_thread(stack, catalog=shelf(tmp_path, "known", KNOWN_POOL))
    pool, samples = tmp_path / "pool.toml", tmp_path / "samples.csv"
    options = ("--model", "known", "--output-tokens", "60", "--out", str(pool), "--samples", str(samples))
    done = await calibrate(service.base_url, *options, "--name", "copy", "--concurrency", "1,3")
    assert done.returncode == 0, done.stderr
    assert "24" in done.stdout

    path = shelf(tmp_path, "copy", pool.read_text())
    assert fastmode("check", str(path)).stdout.endswith("1 pools, 1 models, 1 offers\n")
    read = load(path)
    fitted = read.pools["copy"].timing
    assert isinstance(fitted, Fixed)
    # A median of 24 is off by sigma / 4 (standard error); four of these, and what a busy machine adds to a TTFT.
    assert fitted.ttft == pytest.approx(KNOWN.ttft, rel=KNOWN.ttft_sigma, abs=0.06)
    assert fitted.rate == pytest.approx(KNOWN.rate, rel=KNOWN.rate_sigma + 0.02)
    assert fitted.load_slope < 0.06
    source = read.provenance["pools", "copy", "fixed", "tok_s"]
    assert (source.kind, len(source.date)) == ("measured", 10)
    assert "24 streamed chat completions of known" in source.reference
    assert read.provenance["pools", "copy", "max_batch"].kind == "assumed"

    again = await asyncio.to_thread(stack, catalog=path)
    found = (await ask(again.base_url, "copy", 16)).samples
    assert median(sample.rate for sample in found) == pytest.approx(fitted.rate, rel=0.1)
    assert median(sample.ttft for sample in found) == pytest.approx(fitted.ttft, rel=0.15, abs=0.06)

    recorded = KNOWN_POOL.split("[pools.known.fixed]")[0].replace("fixed", "empirical").replace("known", "replayed")
    recorded += f'[pools.replayed.empirical]\nsamples = "{samples.name}"\nrequests = 24\nsource = "a-price"\n'
    timing = load(shelf(tmp_path, "replayed", recorded)).pools["replayed"].timing
    assert isinstance(timing, Empirical)
    with samples.open() as file:
        rows = list(csv.DictReader(file))
    assert timing.samples == tuple((float(row["ttft_ms"]) / 1e3, float(row["tok_s"])) for row in rows)
    assert {row["output_tokens"] for row in rows} == {"60"}


async def test_the_scale_between_a_pool_and_the_catalogs_prediction_is_found_and_can_be_loaded(
    stack: StartService, tmp_path: Path
) -> None:
    """The service has the very pool, with step times 1.6 times those that the catalog predicts."""
    slow = replace(SWIFT, rate=400.0)
    predicted = catalog(tmp_path, slow)
    text = predicted.read_text()
    (tmp_path / "served").mkdir()
    served = tmp_path / "served" / "catalog.toml"
    served.write_text(text.replace("kv_bytes = 1\n", "kv_bytes = 1\nscale = 1.6\n"))
    service = await asyncio.to_thread(stack, catalog=served)
    out = tmp_path / "pool.toml"
    options = ("--model", "swift", "--fit", "scale", "--pool", "swift", "--catalog", str(predicted), "--out", str(out))
    done = await calibrate(service.base_url, *options, "--requests", "20", "--concurrency", "1,2")
    assert done.returncode == 0, done.stderr

    both = tmp_path / "both.toml"
    both.write_text(text + out.read_text())
    assert "2 pools" in fastmode("check", str(both)).stdout
    read = load(both)
    timing, template = read.pools["swift-calibrated"].timing, read.pools["swift"].timing
    assert isinstance(timing, Roofline)
    assert isinstance(template, Roofline)
    assert timing.deployment.scale == pytest.approx(1.6, rel=0.03)
    assert replace(timing.deployment, scale=1.0) == template.deployment
    assert replace(read.pools["swift-calibrated"], name="swift", timing=template) == read.pools["swift"]
    provenance = read.provenance
    assert provenance["pools", "swift-calibrated", "deployment", "scale"].kind == "measured"
    assert provenance["pools", "swift-calibrated", "deployment", "kv_bytes"].name == "synthetic"


@pytest.mark.parametrize("pool", ["standard", "fast", "spark"])
async def test_every_shipped_pool_can_be_scaled_and_goes_into_a_catalog_that_extends_the_shipped_one(
    pool: str, tmp_path: Path
) -> None:
    name, options = f"{pool}-calibrated", ("--fit", "scale", "--pool", pool, "--requests", "6")
    async with standin(lambda _: stream(30)) as server:
        out = tmp_path / "pool.toml"
        done = await calibrate(server.url, "--model", "m", *options, "--out", str(out), "--output-tokens", "30")
    assert done.returncode == 0, done.stderr
    path = shelf(tmp_path, name, out.read_text())
    assert fastmode("check", str(path)).returncode == 0, fastmode("check", str(path)).stderr
    assert "steps take" in out.read_text() or "scale does not fit TTFT" in out.read_text()
