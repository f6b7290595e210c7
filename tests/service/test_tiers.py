"""A catalog is read whole or refused with the key, the line and the reasoning; requests get the offer they ask for."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import CatalogError, InvalidRequest, ModelNotFound, TierNotOffered
from service.figures import lone_speed
from service.messages import BANDS
from service.pools import Pool, Roofline
from service.prices import Price
from service.tiers import SHIPPED, load, resolve

CATALOG = load()
BENCH = Path(__file__).resolve().parents[2] / "loadtests" / "bench" / "catalog.toml"

GOOD = """
extends = "default"

[sources.test]
kind = "assumed"
date = "2026-11"
reference = "made up"

[pools.one]
replicas = 1
max_batch = 16
prefill_chunk = 8192
ambient = { sequences = 2, context = 1000 }
front_end = { median_ms = 0, sigma = 0 }
queue = { max = 10, wait_max_s = 5 }
utilisation = 0.5
source = "test"

[pools.one.deployment]
accelerator = "h200"
architecture = "llama-70b"
tensor_parallel = 4
dense_bytes = 1
kv_bytes = 1
speculation = { drafts = 2, alpha = 0.8, delta = 0.9 }
source = "test"

[models.m]
owned_by = "nobody"
created = 2026-11-30
context_window = 32_000
max_output = 8_000
modalities = ["text"]
default_tier = "standard"
source = "test"

[models.m.offers.standard]
pool = "one"
reported_as = "default"
price = { input = 1, cached_input = 0.125, output = 2 }
"""

SOLD = "models.m.offers.standard"
LAST_OF_POOL = 'utilisation = 0.5\nsource = "test"'
NEXT_TABLE = "[pools.one]"
IDLE_SOURCE = "[sources.idle]\nkind = 'derived'\ndate = '2026-01'\nreference = 'x'\n"
REPORTED = 'reported_as = "default"'
TOO_MANY = "mistakes = { wrong_tool = 0.7, invalid_json = 0.7 }"
OWNED = 'owned_by = "nobody"'
SAMPLING = (NEXT_TABLE, "[families.x]\nsampling = 'none'\n" + NEXT_TABLE)
WAFER = ('accelerator = "h200"', 'accelerator = "wse3"')

# what is replaced, by what, the key the message names, and a part of its reasoning
BROKEN: list[tuple[list[tuple[str, str]], str, str]] = [
    ([('modalities = ["text"]', 'modalities = ["smell"]')], "models.m.modalities", "'smell' cannot be read"),
    ([("kv_bytes = 1", "kv_bytes = 0.001")], "pools.one.deployment.kv_bytes", "0.125"),
    ([("tensor_parallel = 4", "tensor_parallel = 3")], "pools.one.deployment.tensor_parallel", "KV heads"),
    ([("[pools.one]", "[tiersx.turbo]\n[pools.one]"), ('"standard"', '"turbo"')], "tiersx", "unknown key"),
    ([("replicas = 1", "replicsa = 1")], "pools.one.replicas", "is missing; is 'replicsa' meant"),
    ([("replicas = 1", "replicas = 1\ncolour = 1")], "pools.one.colour", "unknown key; known here are ambient"),
    ([("kv_bytes = 1", "kv_bytes = 1\nsparse = 1")], "pools.one.deployment.sparse", "unknown key"),
    ([("drafts = 2", "draughts = 2, drafts = 2")], "pools.one.deployment.speculation.draughts", "unknown key"),
    ([("max = 10", "max = 10, min = 3")], "pools.one.queue.min", "unknown key"),
    ([("sigma = 0", "sigma = 0, mean = 1")], "pools.one.front_end.mean", "unknown key"),
    ([("context = 1000", "context = 1000, age = 1")], "pools.one.ambient.age", "unknown key"),
    ([("output = 2", "output = 2, free = 1")], "models.m.offers.standard.price.free", "unknown key"),
    ([('reported_as = "default"', 'reported_as = "default"\nspeed = 9')], f"{SOLD}.speed", "unknown key"),
    ([('owned_by = "nobody"', 'owned_by = "nobody"\nage = 3')], "models.m.age", "unknown key"),
    ([("[models.m]", "[moddels.x]\na = 'b'\n[models.m]")], "moddels", "unknown key"),
    ([('reference = "made up"', 'reference = "made up"\nurl = "x"')], "sources.test.url", "unknown key"),
    ([("replicas = 1", "replicas = 0")], "pools.one.replicas", "at least 1"),
    ([("replicas = 1", "replicas = 1.5")], "pools.one.replicas", "whole number"),
    ([("replicas = 1", "replicas = true")], "pools.one.replicas", "must be a number"),
    ([("replicas = 1", 'replicas = "2"')], "pools.one.replicas", "must be a number"),
    ([("replicas = 1", "replicas = inf")], "pools.one.replicas", "must be a number"),
    ([("utilisation = 0.5", "utilisation = 1.5")], "pools.one.utilisation", "at most 1"),
    ([("utilisation = 0.5", "utilisation = 0")], "pools.one.utilisation", "above 0"),
    ([("utilisation = 0.5", "utilisation = nan")], "pools.one.utilisation", "must be a number"),
    ([("alpha = 0.8", "alpha = 1.2")], "pools.one.deployment.speculation.alpha", "at most 1"),
    ([("drafts = 2", "drafts = -1")], "pools.one.deployment.speculation.drafts", "at least 0"),
    ([("median_ms = 0", "median_ms = -5")], "pools.one.front_end.median_ms", "at least 0"),
    ([("max_batch = 16", "max_batch = 2")], "pools.one.max_batch", "2 ambient sequences leave no slot"),
    ([("sequences = 2, context = 1000", "sequences = 9, context = 1_000_000")], "pools.one.ambient", "none is left"),
    ([("ambient = { sequences = 2, context = 1000 }", "ambient = 3")], "pools.one.ambient", "must be a table"),
    ([('"h200"', '"h2000"')], "pools.one.deployment.accelerator", "known are a100, h100"),
    ([('"llama-70b"', '"llama-7b"')], "pools.one.deployment.architecture", "known are llama-8b"),
    ([("tensor_parallel = 4", "pipeline_parallel = 2")], "pools.one.deployment.pipeline_parallel", "tensor_parallel"),
    ([WAFER], "pools.one.deployment.tensor_parallel", "use pipeline_parallel"),
    ([WAFER, ("tensor_parallel = 4", "")], "pools.one.deployment.architecture", "71B weights leave no memory"),
    ([("context_window = 32_000", "context_window = 9_000_000")], "models.m.offers.standard.pool", "never be admitted"),
    ([("max_output = 8_000", "max_output = 64_000")], "models.m.max_output", "at most 32000"),
    ([("created = 2026-11-30", "created = 5")], "models.m.created", "must be a date"),
    ([('modalities = ["text"]', "modalities = []")], "models.m.modalities", "at least one text"),
    ([('modalities = ["text"]', 'modalities = ["text", "text"]')], "models.m.modalities", "twice"),
    ([('default_tier = "standard"', 'default_tier = "fast"')], "models.m.default_tier", "not offered"),
    ([('default_tier = "standard"', 'default_tier = "warp"')], "models.m.default_tier", "known are standard, fast"),
    ([("offers.standard]", "offers.warp]")], "models.m.offers.warp", "is no tier; known are standard, fast, flex"),
    ([SAMPLING], "families.x.sampling", "known are any, default"),
    ([('owned_by = "nobody"', 'owned_by = "nobody"\nfamily = "x"')], "models.m.family", "known are claude-4.5"),
    ([('owned_by = "nobody"', 'owned_by = "nobody"\naliases = ["m"]')], "models.m.aliases", "is a model already"),
    ([('owned_by = "nobody"', 'owned_by = "nobody"\nretired = "soon"')], "models.m.retired", "must be a date"),
    ([(REPORTED, f'{REPORTED}\nended = "later"')], f"{SOLD}.ended", "known are refused, default"),
    ([(REPORTED, f"{REPORTED}\nmistakes = {{ typo = 0.1 }}")], f"{SOLD}.mistakes.typo", "unknown key"),
    ([(REPORTED, f"{REPORTED}\n{TOO_MANY}")], f"{SOLD}.mistakes", "more than 1"),
    ([(REPORTED, f"{REPORTED}\nprice_until = {{ monday = {{}} }}")], f"{SOLD}.price_until", "must be a date"),
    ([(OWNED, f"{OWNED}\nwrite_times = {{ short = -1, long = 2 }}")], "models.m.write_times.short", "at least 0"),
    ([(NEXT_TABLE, f"[answers]\nlength = {{ median = 0 }}\n{NEXT_TABLE}")], "answers.length.median", "above 0"),
    ([('pool = "one"', 'pool = "two"')], "models.m.offers.standard.pool", "known are one"),
    ([('reported_as = "default"', 'reported_as = ""')], "models.m.offers.standard.reported_as", "must be a text"),
    ([("output = 2", "output = -2")], "models.m.offers.standard.price.output", "at least 0"),
    ([("output = 2", "output = 0.00001")], "models.m.offers.standard.price.output", "whole tenths of a cent"),
    ([("cached_input = 0.125", "cached_input = 3")], "models.m.offers.standard.price.cached_input", "more than one"),
    ([('extends = "default"', 'extends = "other"')], "extends", "known are default"),
    ([('extends = "default"', "")], "default_words", "is missing"),
    ([('kind = "assumed"', 'kind = "guessed"')], "sources.test.kind", "known are measured, derived, assumed"),
    ([('date = "2026-11"', 'date = "yesterday"')], "sources.test.date", "YYYY-MM"),
    ([(LAST_OF_POOL, "utilisation = 0.5")], "pools.one.replicas", "needs a source"),
    ([(LAST_OF_POOL, "utilisation = 0.5\nsource = 'x'")], "pools.one.replicas", "'x' is not defined"),
    ([("context = 1000", "context = 1000, source_of = { age = '' }")], "pools.one.ambient.source_of.age", "not in"),
    ([("context = 1000", "context = 1000, source_of = 'test'")], "pools.one.ambient.source_of", "must be a table"),
    ([(NEXT_TABLE, IDLE_SOURCE + NEXT_TABLE)], "sources.idle", "no number"),
    ([(NEXT_TABLE, "[tiers.x]\nwords = ['fast']\nsummary = 'x'\n[pools.one]")], "tiers.x.words", "already means fast"),
    ([(NEXT_TABLE, "[tiers.fast]\nwords = ['f']\nsummary = 'x'\n[pools.one]")], "tiers.fast", "already defined"),
]  # fmt: skip


def roofline(pool: Pool) -> Roofline:
    assert isinstance(pool.timing, Roofline)
    return pool.timing


def written(folder: Path, text: str) -> Path:
    path = folder / "catalog.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("edits", "key", "reasoning"), BROKEN, ids=[f"{key}-{why}" for _, key, why in BROKEN])
def test_an_impossible_catalog_is_refused_with_its_key_and_the_reasoning(
    tmp_path: Path, edits: list[tuple[str, str]], key: str, reasoning: str
) -> None:
    text = GOOD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(CatalogError) as refused:
        load(written(tmp_path, text))
    assert f": {key}: " in str(refused.value)
    assert reasoning in str(refused.value)


def test_the_catalog_that_the_broken_ones_come_from_is_good(tmp_path: Path) -> None:
    catalog = load(written(tmp_path, GOOD))
    assert catalog.models["m"].offers["standard"].price == Price(1000, 125, 2000, written=1000, written_long=1000)
    assert roofline(catalog.pools["one"]).step_time.drafts == 2


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("utilisation = 0.5", "utilisation = 2", "utilisation = 2"),
        ("alpha = 0.8", "alpha = 7", "speculation ="),
        ("[models.m.offers.standard]", "[models.m.offers.warp]", "[models.m.offers.warp]"),
        ("max_output = 8_000\n", "", "[models.m]"),
    ],
)
def test_a_refusal_names_the_line_of_the_key_or_of_the_table_it_belongs_in(
    tmp_path: Path, old: str, new: str, line: str
) -> None:
    text = GOOD.replace(old, new)
    number = next(at for at, content in enumerate(text.splitlines(), start=1) if content.startswith(line))
    with pytest.raises(CatalogError, match=rf"^catalog\.toml:{number}: "):
        load(written(tmp_path, text))


@pytest.mark.parametrize("text", ["models = [", "\x00"])
def test_what_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CatalogError, match="cannot be read as TOML"):
        load(written(tmp_path, text))


def test_a_catalog_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"nowhere\.toml"):
        load(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("kind", ["pools", "models"])
def test_a_catalog_without_anything_to_sell_is_refused(tmp_path: Path, kind: str) -> None:
    text = 'extends = "default"\n' if kind == "pools" else GOOD[: GOOD.index("[models.m]")]
    with pytest.raises(CatalogError, match=f"{kind}: is missing"):
        load(written(tmp_path, text))


def numbers(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("sources", "source", "source_of"):
                yield from numbers((*path, key), inner)
    elif not isinstance(value, str | list):
        yield path


@pytest.mark.parametrize("path", [SHIPPED, BENCH])
def test_every_number_has_a_source_with_a_date_and_a_kind(path: Path) -> None:
    catalog = load(path)
    found = list(numbers((), tomllib.loads(path.read_text())))
    assert len(found) > 50
    for number in found:
        source = catalog.provenance[number]
        assert source.kind in ("measured", "derived", "assumed")
        assert source.date
        assert source.reference


def test_the_nearest_source_speaks_for_a_number() -> None:
    known = CATALOG.provenance
    assert known["accelerators", "wse3", "pflops"].kind == "measured"
    assert known["accelerators", "wse3", "prefill_share"].kind == "assumed"
    assert known["models", "gpt-5.3-codex", "offers", "fast", "price", "input"].kind == "measured"
    assert known["models", "gpt-5.3-codex", "offers", "spark", "price", "input"].kind == "assumed"
    assert known["architectures", "flagship-1.2t-a60b", "layers"].kind == "assumed"


def test_an_extended_catalog_keeps_the_sources_of_what_it_inherits() -> None:
    assert load(BENCH).provenance["accelerators", "gb200", "memory_gb"].kind == "measured"


PRICES = {
    ("claude-opus-4-6", "standard"): ("default", (5, 0.5, 25)),
    ("claude-opus-4-6", "fast"): ("fast", (30, 3, 150)),
    ("claude-opus-5-5", "standard"): ("default", (4, 0.2, 20)),
    ("claude-opus-5-5", "fast"): ("fast", (8, 0.4, 40)),
    ("gpt-5.3-codex", "standard"): ("default", (1.75, 0.175, 14)),
    ("gpt-5.3-codex", "fast"): ("priority", (3.5, 0.35, 28)),
}


@pytest.mark.parametrize(("model", "tier"), PRICES)
def test_list_prices_are_those_the_providers_publish(model: str, tier: str) -> None:
    offer = CATALOG.models[model].offers[tier]
    reported_as, dollars = PRICES[model, tier]
    assert offer.reported_as == reported_as
    assert (offer.price.input, offer.price.cached_input, offer.price.output) == tuple(round(1000 * d) for d in dollars)


SPEEDS = {
    "standard": (60, 70),
    "fast": (155, 180),
    "ultrafast": (380, 405),
    "spark": (1000, 1200),
    "small": (100, 130),
    "small-fast": (250, 300),
}


@pytest.mark.parametrize("pool", CATALOG.pools)
def test_a_lone_request_sees_the_speed_customers_report(pool: str) -> None:
    low, high = SPEEDS[pool]
    assert low < lone_speed(CATALOG.pools[pool]) < high


def test_shipped_pools_have_room_for_a_hundred_requests_of_ones_own() -> None:
    for pool in CATALOG.pools.values():
        assert pool.slots * pool.replicas > 100
        assert pool.kv_room > pool.slots * pool.ambient.context


def test_spark_is_a_smaller_text_model_with_its_own_window_under_either_name() -> None:
    alone = resolve(CATALOG, "gpt-5.3-codex-spark", None)
    under_full_name = resolve(CATALOG, "gpt-5.3-codex", "spark")
    for offer in (alone, under_full_name):
        assert (offer.tier, offer.context_window, offer.modalities) == ("spark", 128_000, ("text",))
        assert offer.reported_as == "spark"
    assert CATALOG.models["gpt-5.3-codex"].context_window > under_full_name.context_window
    assert set(CATALOG.models["gpt-5.3-codex-spark"].offers) == {"spark"}
    spark, standard = (roofline(CATALOG.pools[name]) for name in ("spark", "standard"))
    assert spark.step_time.drafts > 0
    assert spark.architecture.total_params < standard.architecture.total_params / 10


@pytest.mark.parametrize(
    ("word", "tier"),
    [
        (None, "standard"),
        ("auto", "standard"),
        ("default", "standard"),
        ("standard", "standard"),
        ("fast", "fast"),
        ("priority", "fast"),
        ("performance", "fast"),
        ("standard_only", "standard"),
        ("on_demand", "standard"),
        ("scale", "standard"),
        ("spark", "spark"),
    ],
)
def test_a_word_chooses_the_tier_it_means(word: str | None, tier: str) -> None:
    offer = resolve(CATALOG, "gpt-5.3-codex", word)
    assert (offer.model, offer.tier, offer.pool) == ("gpt-5.3-codex", tier, tier)


@pytest.mark.parametrize("word", [None, "auto", "default"])
def test_no_particular_word_asks_for_the_default_tier_of_the_model(word: str | None) -> None:
    assert resolve(CATALOG, "gpt-5.3-codex-spark", word).tier == "spark"


@given(st.text().filter(lambda word: not any(word in tier.words for tier in CATALOG.tiers.values())))
def test_a_word_that_no_tier_answers_to_is_an_invalid_value(word: str) -> None:
    if word in CATALOG.default_words:
        return
    with pytest.raises(InvalidRequest) as refused:
        resolve(CATALOG, "gpt-5.3-codex", word)
    assert not isinstance(refused.value, TierNotOffered)
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "invalid_value", "service_tier")
    assert "'priority'" in refused.value.message
    assert len(refused.value.message) < 700


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-6-astra"])
def test_a_tier_of_our_own_that_the_model_lacks_is_refused_by_name(model: str) -> None:
    with pytest.raises(TierNotOffered) as refused:
        resolve(CATALOG, model, "spark")
    assert (refused.value.status, refused.value.param) == (400, "service_tier")
    assert model in refused.value.message


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ("gpt-5.3-codex-spark", "fast"),
        ("claude-sonnet-5", "priority"),
        ("gpt-4o", "flex"),
        ("gpt-5.5", "ultrafast"),
        ("o3", "standard"),
    ],
)
def test_a_word_of_the_makers_gets_the_default_tier_of_a_model_that_is_not_sold_at_it(model: str, word: str) -> None:
    assert resolve(CATALOG, model, word) == resolve(CATALOG, model, None)


def test_flex_waits_behind_everybody_else_and_costs_half() -> None:
    flex, standard = (resolve(CATALOG, "gpt-6.1-sol", word) for word in ("flex", "standard"))
    assert (flex.pool, flex.band, flex.reported_as) == (standard.pool, BANDS - 1, "flex")
    assert (flex.price.input * 2, flex.price.output * 2) == (standard.price.input, standard.price.output)


@pytest.mark.parametrize(
    ("model", "echo"), [("gpt-5.6-sol", "priority"), ("gpt-4o", "priority"), ("gpt-6-luna", "fast")]
)
@pytest.mark.parametrize("word", ["fast", "priority"])
def test_openai_echoes_either_word_for_fast_as_the_generation_of_the_model_does(
    model: str, echo: str, word: str
) -> None:
    assert resolve(CATALOG, model, word).reported_as == echo


def test_ultrafast_is_six_times_as_fast_and_as_dear_as_standard() -> None:
    ultrafast, standard = (resolve(CATALOG, "gpt-6-astra", word) for word in ("ultrafast", None))
    assert ultrafast.reported_as == "ultrafast"
    assert ultrafast.price.output == 6 * standard.price.output
    speeds = [lone_speed(CATALOG.pools[offer.pool]) for offer in (ultrafast, standard)]
    assert speeds[0] / speeds[1] == pytest.approx(6, rel=0.03)


def test_an_alias_is_the_model_under_its_own_id() -> None:
    assert resolve(CATALOG, "gpt-4o-2024-08-06", None) == resolve(CATALOG, "gpt-4o", None)


def test_a_prompt_beyond_the_step_pays_more_for_all_its_tokens() -> None:
    price = resolve(CATALOG, "gpt-5.6-sol", None).price
    assert price.of(272_000) is price
    assert price.of(272_001) == Price(8000, 800, 30_000, written=10_000, written_long=20_000)


def test_only_the_distilled_model_makes_mistakes_as_often_as_the_benchmark_says() -> None:
    """Terminal-Bench 2.0: 58.4 % against 77.3 %; of 30 answers a task, and of five mistakes one that costs it."""
    wrong = 5 * (1 - (0.584 / 0.773) ** (1 / 30))
    for model in CATALOG.models.values():
        for tier, offer in model.offers.items():
            expected = pytest.approx(wrong, abs=0.001) if tier == "spark" else 0
            assert sum(rate for _, rate in offer.mistakes) == expected


def test_answers_that_end_by_themselves_have_a_median_length_and_a_spread() -> None:
    assert CATALOG.answer_length == load(BENCH).answer_length == (200, 0.7)


def test_an_unknown_model_is_not_found_whatever_the_tier() -> None:
    with pytest.raises(ModelNotFound) as refused:
        resolve(CATALOG, "gpt-2", "no such word")
    assert (refused.value.status, refused.value.code, refused.value.param) == (404, "model_not_found", "model")


@pytest.mark.parametrize(("model", "rate"), [("test-1000", 1000), ("test-2000", 2000), ("test-65", 65)])
def test_bench_streams_run_at_their_rate_alone_and_in_thousands_token_by_token(model: str, rate: float) -> None:
    catalog = load(BENCH)
    pool = catalog.pools[resolve(catalog, model, None).pool]
    step_time = roofline(pool).step_time
    assert lone_speed(pool) == pytest.approx(rate, rel=1e-12)
    assert step_time.speed(2000, 4000) == pytest.approx(rate, rel=1e-12)
    assert step_time.emission == (1.0,)
    assert step_time.seconds(0, 0, 100_000, 1e9) == pytest.approx(1 / rate, rel=1e-9)
    assert pool.frontend_median == 0
    assert pool.limits.max_batch >= 2000


def test_the_zero_time_pool_takes_next_to_no_time() -> None:
    catalog = load(BENCH)
    pool = catalog.pools[resolve(catalog, "test-zero", None).pool]
    assert roofline(pool).step_time.seconds(500, 500_000, 100_000, 1e9) < 2e-6
    assert pool.frontend_median == 0


def test_the_bench_model_with_tiers_is_faster_at_each() -> None:
    catalog = load(BENCH)
    speeds = [
        lone_speed(catalog.pools[resolve(catalog, "test-tiers", word).pool]) for word in ("standard", "fast", "spark")
    ]
    assert speeds == sorted(speeds)
