"""An explanation adds up to what the engine does, gives the published reference points, and names what it assumes."""

import json
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequest, ModelNotFound, NotFound, TierNotOffered
from service.explain import Physics, explain
from service.explain.point import Series
from service.figures import Figure, lone_speed
from service.hardware import Wafer
from service.pricing import batch_at, request_seconds, request_speed
from service.roofline import Deployment, Speculation, causes, fold, memory
from service.tiers import load

CATALOG = load()
MEASURED = load(Path(__file__).parent.parent / "catalogs" / "measured.toml")
OFFERS = [(model.id, tier) for model in CATALOG.models.values() for tier in model.offers]
FLAGSHIP = (CATALOG.accelerators["gb200"], CATALOG.architectures["flagship-1.2t-a60b"])
DRAFTING = Speculation(3, 0.84, 0.93)
FAST = fold(*FLAGSHIP, Deployment(tensor_parallel=8, expert_bytes=0.5625, speculation=DRAFTING))
WIDE = fold(*FLAGSHIP, Deployment(data_parallel=32, expert_bytes=0.5625, speculation=DRAFTING))

layouts = st.builds(
    Deployment,
    tensor_parallel=st.sampled_from([1, 2, 4, 8, 16]),
    data_parallel=st.sampled_from([1, 4]),
    dense_bytes=st.sampled_from([0.5625, 1, 2]),
    expert_bytes=st.sampled_from([0.5625, 1, 2]),
    kv_bytes=st.sampled_from([1, 2]),
    speculation=st.builds(Speculation, st.integers(0, 8), st.floats(0.3, 1.0), st.floats(0.5, 1.0)),
    scale=st.floats(0.1, 10),
)
accelerators = st.sampled_from(sorted(CATALOG.accelerators))
architectures = st.sampled_from(sorted(CATALOG.architectures))
shapes = st.tuples(st.integers(1, 100_000), st.integers(1, 4000))


def physics(tier: str, model: str | None = None, prompt: int | None = None, output: int | None = None) -> Physics:
    found = explain(CATALOG, tier, model, prompt, output).physics
    assert found is not None
    return found


def figures(part: Any) -> Iterator[Figure | Series]:
    if isinstance(part, Figure | Series):
        yield part
    elif is_dataclass(part):
        for field in fields(part):
            yield from figures(getattr(part, field.name))
    elif isinstance(part, dict):
        yield from figures(tuple(part.values()))
    elif isinstance(part, tuple):
        for element in part:
            yield from figures(element)


@given(accelerators, architectures, layouts, st.floats(0, 600), st.floats(0, 1e7), st.integers(0, 8192))
def test_the_causes_of_a_step_add_up_to_the_step(
    accelerator: str, architecture: str, layout: Deployment, n: float, S: float, p: int
) -> None:
    machine, model = CATALOG.accelerators[accelerator], CATALOG.architectures[architecture]
    if isinstance(machine, Wafer):
        layout = replace(layout, tensor_parallel=1, data_parallel=1, pipeline_parallel=3)
    found = causes(machine, model, layout, n, S, p, p * 300.0)
    assert all(seconds >= 0 for seconds in found.values())
    assert sum(found.values()) == pytest.approx(fold(machine, model, layout).seconds(n, S, p, p * 300.0), rel=1e-12)


@given(accelerators, architectures, layouts)
def test_weights_and_kv_fill_the_usable_memory(accelerator: str, architecture: str, layout: Deployment) -> None:
    machine, model = CATALOG.accelerators[accelerator], CATALOG.architectures[architecture]
    held = memory(machine, model, layout)
    assert held.kv_capacity == fold(machine, model, layout).kv_capacity
    assert held.usable < held.total
    if held.kv_capacity:
        assert held.weights + held.kv_capacity * held.kv_token == pytest.approx(held.usable)


def test_speculation_is_paid_for_by_the_draft_and_by_verifying() -> None:
    plain, drafting = (
        causes(*FLAGSHIP, Deployment(tensor_parallel=8, speculation=speculation), 8, 16_000)
        for speculation in (Speculation(0, 0.84, 0.93), DRAFTING)
    )
    assert plain["draft"] == 0
    assert drafting["draft"] > 0
    assert drafting["compute"] > 3 * plain["compute"]
    assert drafting["experts"] > plain["experts"]
    for cause in ("latency", "weights", "kv", "sequences"):
        assert drafting[cause] == plain[cause]


def test_on_a_wafer_only_the_queue_grows_with_the_batch() -> None:
    wafers = (CATALOG.accelerators["wse3"], CATALOG.architectures["qwen3-30b-a3b"], Deployment(pipeline_parallel=2))
    few, many = causes(*wafers, 48, 1e5), causes(*wafers, 96, 1e6)
    assert few["queueing"] == 0
    assert many["queueing"] == pytest.approx(sum(few.values()))
    assert {**many, "queueing": 0} == few
    assert few["hops"] == pytest.approx(18e-6)


@pytest.mark.parametrize(("model", "tier"), OFFERS)
def test_the_parts_shown_add_up_to_the_step_shown(model: str, tier: str) -> None:
    shown = physics(tier, model)
    assert sum(part.time.value for part in shown.step) == pytest.approx(shown.operation.step.value, rel=2e-3)
    assert sum(part.share.value for part in shown.step) == pytest.approx(100, rel=2e-3)
    emitted, speed = shown.operation.emitted.value, shown.operation.speed.value
    assert 1e3 * emitted / shown.operation.step.value == pytest.approx(speed, rel=2e-3)


@pytest.mark.parametrize(("model", "tier"), OFFERS)
def test_a_short_chat_runs_at_the_speed_the_tier_is_known_for(model: str, tier: str) -> None:
    pool = CATALOG.pools[CATALOG.models[model].offers[tier].pool]
    assert physics(tier, model).operation.speed_lone.value == pytest.approx(lone_speed(pool), rel=1e-3)


@pytest.mark.parametrize(("model", "tier"), OFFERS)
@pytest.mark.parametrize(("prompt", "output"), [(2_000, 500), (100_000, 4_000), (1, 1)])
def test_every_figure_says_its_kind_unit_and_basis_and_survives_json(
    model: str, tier: str, prompt: int, output: int
) -> None:
    explained = explain(CATALOG, tier, model, prompt, output)
    shown = list(figures(explained))
    assert len(shown) > 50
    for figure in shown:
        assert figure.kind in ("measured", "derived", "assumed")
        assert figure.unit
        assert figure.note
        assert figure.kind == "derived" or not figure.assumes
    json.dumps(asdict(explained), allow_nan=False)


def test_what_rests_on_an_assumption_says_so() -> None:
    spark, fast = physics("spark"), physics("fast")
    hop, priced, usable = "wafer hop", "$/h of a wse3", "usable share of a wafer"
    assert hop in spark.operation.speed.assumes
    assert priced in spark.operation.cost_output.assumes
    assert "utilisation" in spark.operation.cost_output.assumes
    assert "prefill share of a wafer" in spark.first_token.prefill.assumes
    assert "front-end TTFT" in spark.first_token.total.assumes
    assert spark.first_token.front_end.kind == "assumed"
    assert usable in spark.capacity.sessions.assumes
    assert next(part for part in spark.step if part.cause == "hops").time.assumes.startswith(hop)
    assert [hop in row.speed_alone.assumes for row in spark.wafers if row.speed_alone] == [False, True, True, True]
    for figure in figures(fast):
        assert hop not in figure.assumes
        assert priced not in figure.assumes
    assert "utilisation" not in fast.operation.speed.assumes


@given(shapes, st.floats(0, 1), st.floats(1, 400))
def test_a_request_costs_its_prefill_and_its_part_of_the_steps(
    shape: tuple[int, int], cached: float, batch: float
) -> None:
    """Once for each of a batch, prefill and decode fill the time in which the batch is served."""
    prompt, output = shape
    found = prompt * cached
    seconds = request_seconds(FAST, batch, prompt, found, output)
    alone = output / FAST.speed(batch, prompt + output / 2)
    assert batch * seconds >= alone * (1 - 1e-9)
    assert request_speed(FAST, batch, prompt, found, output) == pytest.approx(output / (batch * seconds))
    assert request_seconds(FAST, batch, prompt, prompt, output) <= seconds * (1 + 1e-9)


@given(shapes, st.floats(5, 300))
def test_the_batch_at_a_speed_has_that_speed_unless_the_cache_or_one_request_ends_it(
    shape: tuple[int, int], speed: float
) -> None:
    prompt, output = shape
    batch = batch_at(FAST, speed, prompt, 0, output)
    reached = request_speed(FAST, batch, prompt, 0, output)
    most = max(1.0, FAST.kv_capacity / (prompt + output / 2))
    assert 1 <= batch <= most
    if 1 < batch < most:
        assert reached == pytest.approx(speed)
    else:
        assert (batch == 1 and reached <= speed) or reached >= speed


@pytest.mark.parametrize(
    ("prompt", "cached", "output", "published"),
    [(2_000, 0, 500, 6.2), (40_000, 38_000, 600, 4.8)],
    ids=["short chat", "agent turn"],
)
def test_from_65_to_162_tokens_per_second_costs_the_published_multiple(
    prompt: int, cached: int, output: int, published: float
) -> None:
    """Standard with its experts spread over 32 chips, fast on 8: the chip time of a whole request."""
    shape = (prompt, cached, output)
    slow, quick = batch_at(WIDE, 65, *shape), batch_at(FAST, 162, *shape)
    assert 200 < slow < 500
    assert 4.9 < quick < 16
    ratio = 8 * request_seconds(FAST, quick, *shape) / (32 * request_seconds(WIDE, slow, *shape))
    assert ratio == pytest.approx(published, rel=0.06)


def test_short_chats_cost_about_six_times_as_much_and_long_turns_two_to_five_times() -> None:
    wide = [row for row in physics("fast").equal_speeds if row.layout == "wide expert parallelism"]
    ratios = {row.name: row.cost_ratio.value for row in wide}
    assert 6 < ratios["short chat"] < 7
    assert 2 < ratios["long agent turn, 95 % cached"] < ratios["agent turn, 95 % cached"] < 5
    for row in wide:
        assert row.base_speed.value == pytest.approx(65, rel=1e-2)
        assert row.speed.value == pytest.approx(166, rel=1e-2)


def test_as_the_catalog_runs_its_pools_the_ratio_falls_with_the_context_too() -> None:
    ratios = [row.cost_ratio.value for row in physics("fast").requests if row.cost_ratio]
    assert ratios == sorted(ratios, reverse=True)
    assert 5 < ratios[0] < 7
    assert 1.5 < ratios[-1] < 3


@pytest.mark.parametrize(
    ("model", "load_", "floor", "batches"), [("claude-opus-4-6", 0.12, 187, 15), ("claude-opus-5-5", 0.61, 268, 5)]
)
def test_a_list_price_implies_a_load_a_floor_and_a_ratio_of_batches(
    model: str, load_: float, floor: float, batches: float
) -> None:
    found = physics("fast", model).premium
    assert found is not None
    listed = found.implied[0]
    assert found.speedup.value == pytest.approx(2.5, rel=0.05)
    assert listed.load.value == pytest.approx(load_, rel=0.03)
    assert listed.floor_speed.value == pytest.approx(floor, rel=0.01)
    assert listed.batch_ratio.value == pytest.approx(batches, rel=0.05)
    assert listed.premium_if_floor_higher.value < listed.ratio.value
    lower = listed.premium_if_floor_lower
    assert lower is None or lower.value > listed.ratio.value


def test_near_the_floor_a_premium_is_ill_conditioned() -> None:
    found = physics("fast", "claude-opus-4-6").premium
    assert found is not None
    steep = found.implied[0]
    assert steep.premium_if_floor_lower is not None
    assert steep.premium_if_floor_lower.value / steep.premium_if_floor_higher.value > 10


def test_the_curve_of_premiums_passes_through_both_tiers() -> None:
    found = physics("fast").premium
    assert found is not None
    places = list(zip(found.curve.speedup.values, found.curve.premium.values, strict=True))
    assert places[0] == (1, 1)
    derived = next(row for row in found.implied if row.of == "derived cost of an output token")
    assert (found.speedup.value, derived.ratio.value) in places
    premiums = [ratio for _, ratio in places if ratio is not None]
    assert premiums == sorted(premiums)
    for row in found.implied:
        at = dict(zip(found.curve.speedup.values, row.curve.values, strict=True))
        assert at[found.speedup.value] == pytest.approx(row.ratio.value, rel=5e-3)


def test_between_different_machines_there_is_no_premium_but_factors_whose_product_is_the_speed_up() -> None:
    shown = physics("spark", "gpt-5.3-codex")
    assert shown.premium is None
    *each, total = (factor.factor.value for factor in shown.factors)
    product = 1.0
    for factor in each:
        product *= factor
    assert product == pytest.approx(total, rel=3e-3)
    assert total == pytest.approx(17, rel=0.02)
    named = {factor.name: factor.factor.value for factor in shown.factors}
    assert named["less time in each layer"] == pytest.approx(6.3, rel=0.01)


def test_wafers_hold_sessions_and_hardly_slow_anybody_down() -> None:
    rows = physics("spark").wafers
    assert [row.wafers for row in rows] == [1, 2, 3, 4]
    speeds = [row.speed_alone.value for row in rows if row.speed_alone]
    sessions = [row.sessions.value for row in rows]
    assert min(speeds) > 2000
    assert speeds[0] / speeds[-1] < 1.07
    assert sessions[-1] > 10 * sessions[0]
    assert physics("spark").operation.speed.value > 1000
    assert physics("fast").wafers == ()


def test_each_theory_alone_gives_what_is_published_of_it() -> None:
    gain = {theory.name: theory.speedup.value for theory in physics("spark").theories}
    assert gain["skipping the queue"] == 1
    assert 1.02 <= gain["fp8 to fp4 weights"] <= 1.25
    assert 1.5 <= gain["speculation, 0 to 3 drafts"] <= 2.3
    assert gain["this tier's machines"] > 10
    assert 1 < gain["this tier's model"] < 4
    smaller = next(theory for theory in physics("fast").theories if theory.name == "a smaller batch")
    assert smaller.speedup.value == pytest.approx(2.56, rel=0.01)


def test_a_long_context_ends_the_batch_where_the_cache_is_full() -> None:
    long = physics("standard", prompt=40_000)
    assert long.operation.batch.value == long.curve.kv_end.value == long.curve.batch.values[-1]
    assert long.operation.batch.value == pytest.approx(FAST.kv_capacity / 40_250, rel=1e-3)
    assert long.capacity.sessions.value == 112


@given(st.sampled_from(OFFERS), shapes)
def test_any_shape_that_fits_is_explained(offer: tuple[str, str], shape: tuple[int, int]) -> None:
    model, tier = offer
    shown = physics(tier, model, *shape)
    speeds = [speed for speed in shown.curve.speed.values if speed is not None]
    costs = [cost for cost in shown.curve.cost_output.values if cost is not None]
    assert speeds == sorted(speeds, reverse=True)
    assert all(later <= earlier * (1 + 1e-3) for earlier, later in pairwise(costs))
    assert shown.operation.batch.value in shown.curve.batch.values
    assert shown.first_token.total.value > shown.first_token.prefill.value > 0


def test_words_and_names_of_tiers_and_default_words_are_understood() -> None:
    assert explain(CATALOG, "priority") == explain(CATALOG, "fast")
    assert explain(CATALOG, "fast").model == "claude-opus-4-6"
    assert explain(CATALOG, "spark").model == "gpt-5.3-codex"
    assert explain(CATALOG, "auto", "gpt-5.3-codex-spark").tier == "spark"
    assert explain(CATALOG, "auto").tier == "standard"


def test_what_is_not_sold_or_does_not_fit_is_refused() -> None:
    with pytest.raises(NotFound, match="turbo"):
        explain(CATALOG, "turbo")
    with pytest.raises(ModelNotFound):
        explain(CATALOG, "fast", "gpt-0")
    with pytest.raises(TierNotOffered):
        explain(CATALOG, "spark", "claude-opus-4-6")
    for prompt, output, param in (
        (0, 1, "context"),
        (1, -1, "output"),
        (128_000, 1, "context"),
        (None, 128_000, "output"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            explain(CATALOG, "spark", None, prompt, output)
        assert refused.value.param == param


def test_of_a_measured_pool_only_what_was_measured_is_said() -> None:
    explained = explain(MEASURED, "standard")
    assert (explained.timing, explained.physics) == ("fixed", None)
    assert (explained.known["speed"].value, explained.known["speed"].kind) == (80, "measured")
    assert explained.known["ttft"].value == 400


def test_a_tier_beside_a_measured_one_is_explained_alone() -> None:
    shown = explain(MEASURED, "fast").physics
    assert shown is not None
    assert (shown.base, shown.base_operation, shown.premium, shown.equal_speeds) == (None, None, None, ())
    assert {row.cost_ratio for row in shown.requests} == {None}
    assert "speculation" not in " ".join(theory.name for theory in shown.theories)
