"""The real APIs at three dates: what is sold, how words for speed are understood, and which are refused how."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import price_list, profiles, tiers
from service.errors import CatalogError, InvalidRequest, ModelNotFound, ServiceError
from service.figures import rows
from service.offers import Offer
from service.prices import Price
from service.profiles import CacheKey, Profile

README = Path(__file__).resolve().parents[2] / "README.md"
EVERYTHING = tiers.load()
PROFILES = {name: profiles.load(name, EVERYTHING) for name in profiles.names()}
FEBRUARY, AUGUST, NOVEMBER = PROFILES.values()
BETA = frozenset({"fast-mode-2026-02-01"})
NONE: frozenset[str] = frozenset()

UNKNOWN = "speed: Extra inputs are not permitted"


def unsupported(model: str) -> str:
    return f"'{model}' does not support the `speed` parameter. This feature is only available on supported models."


# profile, model, betas -> the tier that speed "fast" gets, or the refusal
LIFE: list[tuple[Profile, str, frozenset[str], str]] = [
    (FEBRUARY, "claude-opus-4-6", BETA, "fast"),
    (FEBRUARY, "claude-opus-4-6", NONE, UNKNOWN),
    (FEBRUARY, "claude-opus-4-5", BETA, unsupported("claude-opus-4-5")),
    (FEBRUARY, "claude-opus-5", BETA, "model: claude-opus-5"),
    (AUGUST, "claude-opus-4-6", BETA, "standard"),
    (AUGUST, "claude-opus-4-7", BETA, unsupported("claude-opus-4-7")),
    (AUGUST, "claude-opus-4-8", BETA, "fast"),
    (AUGUST, "claude-opus-4-8", NONE, UNKNOWN),
    (AUGUST, "claude-opus-5", BETA, "fast"),
    (AUGUST, "gpt-5.6-sol", BETA, "fast"),
    (NOVEMBER, "claude-opus-4-6", BETA, "standard"),
    (NOVEMBER, "claude-opus-4-6", NONE, "standard"),
    (NOVEMBER, "claude-opus-4-6-20260205", NONE, "standard"),
    (NOVEMBER, "claude-opus-4-7", BETA, unsupported("claude-opus-4-7")),
    (NOVEMBER, "claude-opus-4-8", BETA, unsupported("claude-opus-4-8")),
    (NOVEMBER, "claude-opus-5", BETA, "fast"),
    (NOVEMBER, "claude-opus-5", NONE, UNKNOWN),
    (NOVEMBER, "claude-opus-5-5", NONE, "fast"),
    (NOVEMBER, "claude-opus-5-5", BETA | {"unheard-of-2026-11-01"}, "fast"),
    (NOVEMBER, "claude-fable-5-2", NONE, "fast"),
    (NOVEMBER, "claude-mythos-5-2", NONE, "fast"),
    (NOVEMBER, "claude-fable-5-1", BETA, unsupported("claude-fable-5-1")),
    (NOVEMBER, "claude-sonnet-5-5", NONE, unsupported("claude-sonnet-5-5")),
    (NOVEMBER, "claude-haiku-4-5", BETA, unsupported("claude-haiku-4-5")),
    (NOVEMBER, "gpt-5.3-codex", NONE, "fast"),
    (NOVEMBER, "gpt-5.3-codex-spark", NONE, unsupported("gpt-5.3-codex-spark")),
]


def outcome(resolve: Callable[..., Offer], *words: object) -> Offer | ServiceError:
    try:
        return resolve(*words)
    except ServiceError as refused:
        return refused


@pytest.mark.parametrize(
    ("profile", "model", "betas", "expected"), LIFE, ids=[f"{p.name}-{m}-{len(b)}" for p, m, b, _ in LIFE]
)
def test_speed_fast_gets_what_it_got_of_that_model_at_that_time(
    profile: Profile, model: str, betas: frozenset[str], expected: str
) -> None:
    got = outcome(profile.resolve_anthropic, model, "fast", None, betas)
    assert (got.tier if isinstance(got, Offer) else got.message) == expected


@given(
    profile=st.sampled_from(list(PROFILES.values())),
    model=st.sampled_from(list(EVERYTHING.models)),
    betas=st.sampled_from([BETA, NONE]),
)
def test_a_fast_request_is_served_fast_or_refused_but_for_opus_4_6(
    profile: Profile, model: str, betas: frozenset[str]
) -> None:
    got = outcome(profile.resolve_anthropic, model, "fast", None, betas)
    if isinstance(got, Offer):
        assert got.tier == "fast" or model == "claude-opus-4-6"
        assert profile.speed_reported(got, "fast") == ("fast" if got.tier == "fast" else "standard")
    elif isinstance(got, ModelNotFound):
        assert model not in profile.catalog.models
    else:
        assert (got.status, got.param) == (400, "speed")


@given(
    profile=st.sampled_from(list(PROFILES.values())),
    model=st.text() | st.sampled_from(list(EVERYTHING.models)),
    speed=st.none() | st.text() | st.sampled_from(["standard", "fast"]),
    tier=st.none() | st.text() | st.sampled_from(["auto", "standard_only", "priority", "spark"]),
)
def test_any_words_are_an_offer_of_the_model_or_an_error_for_the_client(
    profile: Profile, model: str, speed: str | None, tier: str | None
) -> None:
    for got in (
        outcome(profile.resolve_anthropic, model, speed, tier, BETA),
        outcome(profile.resolve_openai, model, tier),
    ):
        if isinstance(got, Offer):
            assert got.model == model
        else:
            assert got.status in (400, 404)
            assert len(got.message) < 700


@pytest.mark.parametrize("speed", [None, "standard"])
def test_without_speed_or_at_standard_a_model_is_served_at_its_default_tier(speed: str | None) -> None:
    for model in NOVEMBER.catalog.models.values():
        assert NOVEMBER.resolve_anthropic(model.id, speed, "auto", BETA) is model.offers[model.default_tier]


def test_a_model_that_needs_the_header_needs_it_for_any_speed() -> None:
    with pytest.raises(InvalidRequest, match=UNKNOWN):
        NOVEMBER.resolve_anthropic("claude-opus-5", "standard", None, NONE)


@pytest.mark.parametrize(
    ("speed", "tier", "says"),
    [
        ("ultrafast", None, "speed: Input should be 'standard' or 'fast'"),
        (None, "priority", "service_tier: Input should be 'auto' or 'standard_only'"),
    ],
)
def test_words_of_the_other_dialect_are_refused(speed: str | None, tier: str | None, says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        NOVEMBER.resolve_anthropic("claude-opus-5-5", speed, tier, BETA)
    assert refused.value.message == says


@pytest.mark.parametrize(
    ("model", "speed", "reported"),
    [
        ("claude-opus-5-5", None, "standard"),
        ("claude-opus-5-5", "standard", "standard"),
        ("claude-opus-4-7", None, "standard"),
        ("claude-sonnet-5", None, None),
        ("claude-sonnet-5", "standard", "standard"),
    ],
)
def test_usage_names_the_speed_of_models_that_have_or_had_two(
    model: str, speed: str | None, reported: str | None
) -> None:
    offer = NOVEMBER.resolve_anthropic(model, speed, None, BETA)
    assert NOVEMBER.speed_reported(offer, speed) == reported


@pytest.mark.parametrize(
    ("key", "other_speed", "other_header"), [("value", True, False), ("header", False, True), ("both", True, True)]
)
def test_a_cached_prompt_is_another_at_another_speed_or_behind_another_header_as_the_profile_says(
    key: CacheKey, other_speed: bool, other_header: bool
) -> None:
    profile = replace(NOVEMBER, cache_key_speed=key)
    standard, fast = (profile.resolve_anthropic("claude-opus-5", speed, None, BETA) for speed in (None, "fast"))
    known = profile.cache_namespace(standard, BETA)
    assert (profile.cache_namespace(fast, BETA) != known) is other_speed
    assert (profile.cache_namespace(standard, NONE) != known) is other_header


def test_claude_is_fast_in_openais_dialect_too_and_without_a_header() -> None:
    assert NOVEMBER.resolve_openai("claude-opus-5", "priority").tier == "fast"
    assert NOVEMBER.resolve_openai("claude-opus-4-7", "fast").tier == "standard"
    assert NOVEMBER.resolve_openai("claude-sonnet-5", "fast").tier == "standard"


# ---- what is sold, and for how much


def test_models_come_out_and_are_retired() -> None:
    assert "claude-sonnet-4-5" in AUGUST.catalog.models
    assert "gpt-5.2-codex" in FEBRUARY.catalog.models
    assert not {"claude-opus-5-5", "gpt-6-astra"} & AUGUST.catalog.models.keys()
    assert {"claude-opus-5-5", "gpt-6-astra"} <= NOVEMBER.catalog.models.keys()


def test_openai_says_of_a_retired_model_where_to_read_about_it() -> None:
    with pytest.raises(ModelNotFound, match="has been deprecated, learn more here: https://") as refused:
        NOVEMBER.resolve_openai("gpt-5.2-codex", None)
    assert (refused.value.status, refused.value.code) == (404, "model_not_found")
    with pytest.raises(ModelNotFound, match="does not exist"):
        FEBRUARY.resolve_openai("gpt-6-astra", None)


def test_an_alias_goes_with_its_model() -> None:
    assert NOVEMBER.resolve_openai("gpt-4o-2024-08-06", "fast") == NOVEMBER.resolve_openai("gpt-4o", "fast")
    assert "gpt-5.6" not in FEBRUARY.catalog.aliases
    with pytest.raises(ModelNotFound):
        NOVEMBER.resolve_anthropic("claude-sonnet-4-5-20250929", None, None, NONE)


def test_long_prompts_cost_more_until_march() -> None:
    for tier, listed in (
        ("standard", Price(5000, 500, 25000, 6250, 10000)),
        ("fast", Price(30000, 3000, 150000, 37500, 60000)),
    ):
        offer = FEBRUARY.catalog.models["claude-opus-4-6"].offers[tier]
        assert offer.price.of(200_000) is offer.price
        assert offer.price.of(200_001) == listed.times(Decimal(2), Decimal("1.5"))
        now = EVERYTHING.models["claude-opus-4-6"].offers[tier]
        assert now.price == now.price.of(900_000) == listed


def test_every_price_says_whence_it_is_in_every_profile() -> None:
    for profile in PROFILES.values():
        for row in rows(profile.catalog):
            offer = profile.catalog.models[row.model].offers[row.tier]
            assert row.price_output.value == offer.price.output / 1000
            assert row.price_output.note


def test_profiles_are_in_the_order_of_time_and_accept_ever_more_api_versions() -> None:
    for before, after in pairwise(PROFILES.values()):
        assert before.date < after.date
        assert set(before.anthropic_versions) <= set(after.anthropic_versions)
    assert FEBRUARY.anthropic_versions == ("2023-06-01",)
    assert NOVEMBER.anthropic_versions == ("2023-06-01", "2026-10-21")


def test_pools_are_those_of_the_catalog_whatever_is_sold() -> None:
    assert FEBRUARY.catalog.pools == EVERYTHING.pools


MINE = """
extends = "default"

[sources.mine]
kind = "assumed"
date = "2027-01"
reference = "made up"

[pools.one]
timing = "fixed"
replicas = 1
max_batch = 10
ambient = { sequences = 0, context = 1 }
queue = { max = 10, wait_max_s = 5 }
fixed = { ttft_ms = 1, ttft_sigma = 0, tok_s = 100, tok_s_sigma = 0 }
utilisation = 1
source = "mine"

[models.mine]
owned_by = "me"
created = 2027-01-15
context_window = 32_000
max_output = 8_000
modalities = ["text"]
default_tier = "standard"
source = "mine"

[models.mine.offers]
standard = { pool = "one", reported_as = "default", price = { input = 1, cached_input = 0.1, output = 2 } }
"""


def test_the_newest_profile_has_models_that_come_out_after_it_and_the_others_have_not(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    catalog = tiers.load(path)
    assert date(2027, 1, 15) > NOVEMBER.date
    assert "mine" in profiles.load("2026-11", catalog).catalog.models
    with pytest.raises(CatalogError, match="no model of the catalog is sold on 2026-08-31"):
        profiles.load("2026-08", catalog)


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CatalogError, match="'2025-01'; known are: 2026-02, 2026-08, 2026-11"):
        profiles.load("2025-01", EVERYTHING)


# ---- what requests for a model may hold


@pytest.mark.parametrize(
    ("model", "sampling", "prefill", "thinking", "cacheable"),
    [
        ("claude-haiku-4-5", "any", True, {"enabled", "disabled"}, 4096),
        ("claude-opus-4-6", "any", False, {"enabled", "adaptive", "disabled"}, 4096),
        ("claude-opus-4-7", "default", False, {"adaptive", "disabled"}, 2048),
        ("claude-opus-4-8", "default", False, {"adaptive", "disabled"}, 1024),
        ("claude-opus-5", "default", False, {"adaptive", "disabled"}, 512),
        ("claude-opus-5-5", "default", False, {"adaptive"}, 512),
        ("gpt-5.3-codex", "any", True, {"enabled", "adaptive", "disabled"}, 1024),
    ],
)
def test_each_generation_refuses_what_its_maker_took_away(
    model: str, sampling: str, prefill: bool, thinking: set[str], cacheable: int
) -> None:
    rules = NOVEMBER.anthropic_rules(model)
    assert (rules.sampling, rules.prefill, set(rules.thinking)) == (sampling, prefill, thinking)
    assert (rules.cacheable, rules.max_tokens) == (cacheable, NOVEMBER.catalog.models[model].max_output)


def test_the_readme_has_the_prices_of_the_newest_profile() -> None:
    table = [line.split(" | ") for line in README.read_text().splitlines() if re.match(r"\| `(claude|gpt|o\d)", line)]
    catalog = NOVEMBER.catalog
    for names, *cells in table:
        for name in re.findall(r"`([^`]+)`", names):
            offers = catalog.models[name].offers
            prices = (offers[tier].price if tier in offers else None for tier in catalog.tiers)
            listed = [f"{p.input / 1000:g} / {p.output / 1000:g}" if p is not None else "" for p in prices]
            assert [cell.strip(" |") for cell in cells] == listed
    assert {name for names, *_ in table for name in re.findall(r"`([^`]+)`", names)} == set(catalog.models)


# ---- the list for LiteLLM


def test_the_price_list_has_litellms_keys_in_dollars_per_token() -> None:
    listed = price_list.litellm(NOVEMBER.catalog)
    assert set(listed) == {*NOVEMBER.catalog.models, *NOVEMBER.catalog.aliases}
    sol = listed["gpt-6.1-sol"]
    assert sol["input_cost_per_token"] == 2e-6
    assert sol["input_cost_per_token_priority"] == 4e-6
    assert sol["output_cost_per_token_flex"] == 5e-6
    assert sol["cache_read_input_token_cost_ultrafast"] == 6e-7
    assert sol["output_cost_per_token_above_272k_tokens_ultrafast"] == 9e-5
    opus = listed["claude-opus-5-5"]
    assert (opus["litellm_provider"], opus["provider_specific_entry"]) == ("anthropic", {"us": 1.1, "fast": 2})
    assert opus["supports_speed"] is True
    assert listed["claude-sonnet-5"]["supports_speed"] is False
    assert listed["gpt-5.3-codex-spark"]["output_cost_per_token"] == 3e-6
    assert listed["gpt-5.3-codex-spark"]["supports_vision"] is False


def test_fast_mode_is_one_factor_on_all_prices_as_litellm_takes_it_to_be() -> None:
    for profile in PROFILES.values():
        for model in profile.catalog.models.values():
            fast, default = model.offers.get("fast"), model.offers[model.default_tier]
            if fast is not None and model.owned_by == "anthropic":
                factor = fast.price.output / default.price.output
                assert fast.price.input == factor * default.price.input
                assert fast.price.cached_input == factor * default.price.cached_input
