"""Step times agree with the published references and keep the laws of the hardware."""

import csv
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.closed_loop import tpot
from service.roofline import BOARD_CHIPS, Deployment, Speculation, StepTime, fold
from service.tiers import load

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
CATALOG = load()
PUBLISHED = Speculation(3, 0.84, 0.93)
FLAGSHIP = ("gb200", "flagship-1.2t-a60b")
LAYOUT = Deployment(tensor_parallel=8, expert_bytes=0.5625)


def folded(accelerator: str, model: str, deployment: Deployment) -> StepTime:
    return fold(CATALOG.accelerators[accelerator], CATALOG.architectures[model], deployment)


def needed(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here: the reference data do not ship with the repository")
    return path


# (accelerator, model, deployment, KV capacity in tokens, [(n, S, p, A, seconds)])
REFERENCE: list[tuple[str, str, Deployment, float, list[tuple[int, int, int, float, float]]]] = [
    (
        "b200",
        "deepseek-v3",
        Deployment(tensor_parallel=8),
        2138030.09,
        [
            (1, 1000, 0, 0.0, 0.00732040503),
            (256, 512000, 0, 0.0, 0.0288739253),
            (16, 64000, 2048, 2097152.0, 0.0550029985),
            (0, 0, 8192, 33554432.0, 0.185523937),
        ],
    ),
    (
        "gb200",
        "flagship-1.2t-a60b",
        LAYOUT,
        4546983.62,
        [(8, 16000, 0, 0.0, 0.0122780314), (0, 0, 8192, 33554432.0, 0.249810067)],
    ),
    (
        "b200",
        "deepseek-v3",
        replace(Deployment(tensor_parallel=8), speculation=PUBLISHED),
        2138030.09,
        [(1, 1000, 0, 0.0, 0.00885887357), (64, 256000, 0, 0.0, 0.0255579558)],
    ),
]


@pytest.mark.parametrize(("accelerator", "model", "deployment", "capacity", "steps"), REFERENCE)
def test_step_times_and_kv_capacity_match_the_reference_rows(
    accelerator: str,
    model: str,
    deployment: Deployment,
    capacity: float,
    steps: list[tuple[int, int, int, float, float]],
) -> None:
    step = folded(accelerator, model, deployment)
    assert step.kv_capacity == pytest.approx(capacity, rel=1e-6)
    for n, S, p, A, seconds in steps:
        assert step.seconds(n, S, p, A) == pytest.approx(seconds, rel=1e-6)


def test_step_times_match_the_whole_reference_file() -> None:
    rows: list[dict[str, Any]] = json.loads(needed("step_time_reference.json").read_text())
    for row in rows:
        plain = Deployment(
            tensor_parallel=row["tensor_parallel"],
            data_parallel=row["data_parallel"],
            dense_bytes=row["dense_bytes"],
            expert_bytes=row["expert_bytes"],
            kv_bytes=row["kv_bytes"],
        )
        assert row["wide_expert_parallel"] == (plain.chips > BOARD_CHIPS)
        step = folded(row["accelerator"], row["model"], plain)
        drafting = folded(row["accelerator"], row["model"], replace(plain, speculation=PUBLISHED))
        assert step.kv_capacity == pytest.approx(row["kv_capacity_tokens"], rel=1e-6)
        for at in row["steps"]:
            assert step.seconds(at["n"], at["S"], at["p"], at["A"]) == pytest.approx(at["seconds"], rel=1e-6)
        for at in row["speculative_k3_steps"]:
            assert drafting.seconds(at["n"], at["S"]) == pytest.approx(at["seconds"], rel=1e-6)


def test_published_measurements_are_met_with_the_error_the_docstring_states() -> None:
    """Closed loop: B requests always in flight, so their lengths say what share of the steps carries prefill."""
    errors = []
    with needed("silicon_tpot.csv").open() as file:
        for row in csv.DictReader(file):
            batch, prompt, output = (float(row[key]) for key in ("batch", "input_tokens", "output_tokens"))
            step = folded(
                row["chip"],
                row["model"],
                Deployment(
                    tensor_parallel=int(row["tensor_parallel"]),
                    dense_bytes=float(row["dense_bytes"]),
                    expert_bytes=float(row["expert_bytes"]),
                    kv_bytes=float(row["kv_bytes"]),
                ),
            )
            errors.append(abs(float(row["tpot_ms"]) / 1e3 / tpot(step, batch, prompt, output) - 1))
    assert len(errors) == 1719
    assert statistics.mean(errors) < 0.155
    assert statistics.median(errors) < 0.115


@pytest.mark.parametrize(
    ("in_flight", "speed"), [(1, 264.5), (5, 185), (8, 163.5), (16, 142), (128, 94.4), (290, 65.0)]
)
def test_a_flagship_slows_down_with_its_batch_as_published(in_flight: int, speed: float) -> None:
    step = folded(*FLAGSHIP, replace(LAYOUT, speculation=PUBLISHED))
    assert step.speed(in_flight, 2250) == pytest.approx(speed, rel=2e-3)


@pytest.mark.parametrize(("in_flight", "speed"), [(1, 146), (256, 119.6), (1024, 94.4)])
def test_experts_spread_over_32_chips_start_slower_and_hold_longer(in_flight: int, speed: float) -> None:
    wide = Deployment(data_parallel=32, expert_bytes=0.5625, speculation=PUBLISHED)
    assert folded(*FLAGSHIP, wide).speed(in_flight, 2250) == pytest.approx(speed, rel=2e-3)


@pytest.mark.parametrize(
    ("model", "expert_bytes", "speed"), [("qwen3-30b-a3b", 1, 1172), ("qwen3-32b", 1, 884), ("gpt-oss-120b", 0.6, 1552)]
)
def test_two_wafers_without_speculation_run_at_the_published_rates(
    model: str, expert_bytes: float, speed: float
) -> None:
    wafers = Deployment(pipeline_parallel=2, dense_bytes=0.6, expert_bytes=expert_bytes)
    step = folded("wse3", model, wafers)
    assert step.speed(1, 2250) == pytest.approx(speed, rel=1e-3)
    assert step.kv_capacity > 0


def test_a_wafer_keeps_its_speed_until_every_stage_is_busy_and_then_shares_it() -> None:
    step = folded("wse3", "qwen3-30b-a3b", Deployment(pipeline_parallel=2))
    assert step.stages == CATALOG.architectures["qwen3-30b-a3b"].layers
    assert step.speed(step.stages, 9000) == step.speed(1, 100)
    assert step.speed(2 * step.stages, 9000) == pytest.approx(step.speed(1, 100) / 2)


def test_each_draft_lengthens_the_way_through_a_wafer_by_one_layer() -> None:
    plain = folded("wse3", "qwen3-30b-a3b", Deployment(pipeline_parallel=2))
    drafting = folded("wse3", "qwen3-30b-a3b", Deployment(pipeline_parallel=2, speculation=Speculation(2, 0.84, 0.93)))
    assert drafting.c0 - plain.c0 == pytest.approx(2 * 17.4e-6)


def test_a_dense_32b_leaves_little_room_for_context_on_one_wafer() -> None:
    assert 50_000 < folded("wse3", "qwen3-32b", Deployment()).kv_capacity < 85_000


def speculation_gain(accelerator: str, model: str, deployment: Deployment) -> dict[int, float]:
    plain = folded(accelerator, model, deployment)
    drafting = folded(accelerator, model, replace(deployment, speculation=PUBLISHED))
    return {n: drafting.speed(n, 2250) / plain.speed(n, 2250) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)}


@pytest.mark.parametrize("accelerator", ["h200", "b200"])
def test_speculation_on_experts_dips_at_small_batches_and_peaks_again_near_64(accelerator: str) -> None:
    """Draft tokens wake experts that a small batch would have left alone; a large one has woken them anyway."""
    gain = speculation_gain(accelerator, "deepseek-v3", Deployment(tensor_parallel=8))
    dip = min((1, 2, 4, 8, 16, 32, 64), key=gain.__getitem__)
    assert dip in (8, 16)
    assert gain[1] > gain[2] > gain[4] > gain[dip]
    assert max((8, 16, 32, 64, 128, 256, 512), key=gain.__getitem__) == 64
    assert gain[64] > gain[dip] * 1.2
    assert gain[64] > gain[512]


def test_speculation_on_a_dense_model_only_loses_with_the_batch() -> None:
    gain = list(speculation_gain("h100", "llama-70b", Deployment(tensor_parallel=4)).values())
    assert gain == sorted(gain, reverse=True)
    assert gain[0] > 2.5
    assert gain[-1] < 1.7


MODELS = st.sampled_from(sorted(CATALOG.architectures))
GPUS = st.sampled_from(sorted(set(CATALOG.accelerators) - {"wse3"}))
ACCELERATORS = st.sampled_from(sorted(CATALOG.accelerators))
SPECULATIONS = st.builds(Speculation, st.integers(0, 8), st.floats(0.3, 1.0), st.floats(0.5, 1.0))
LAYOUTS = st.builds(
    Deployment,
    tensor_parallel=st.sampled_from([1, 2, 4, 8]),
    dense_bytes=st.sampled_from([0.5625, 1, 2]),
    expert_bytes=st.sampled_from([0.5625, 1, 2]),
    kv_bytes=st.sampled_from([1, 2]),
    speculation=SPECULATIONS,
)
BATCHES = st.integers(1, 600)
CONTEXTS = st.integers(1, 100_000)


@given(ACCELERATORS, MODELS, LAYOUTS, BATCHES, BATCHES, CONTEXTS)
def test_more_sequences_never_make_a_step_shorter_nor_a_deployment_produce_less(
    accelerator: str, model: str, layout: Deployment, one: int, other: int, context: int
) -> None:
    few, many = sorted((one, other))
    step = folded(accelerator, model, layout)
    assert step.seconds(few, few * context) <= step.seconds(many, many * context) * (1 + 1e-12)
    assert few * step.speed(few, context) <= many * step.speed(many, context) * (1 + 1e-12)


@given(ACCELERATORS, MODELS, LAYOUTS, BATCHES, CONTEXTS, st.integers(0, 8192), st.integers(0, 8192))
def test_more_context_and_more_prefill_never_make_a_step_shorter(
    accelerator: str, model: str, layout: Deployment, n: int, S: int, p: int, more: int
) -> None:
    step = folded(accelerator, model, layout)
    seconds = step.seconds(n, S, p, p * 100.0)
    assert seconds > 0
    assert step.seconds(n, S + more, p, p * 100.0) >= seconds
    assert step.seconds(n, S, p + more, (p + more) * 100.0) >= seconds


@given(GPUS, MODELS, LAYOUTS, BATCHES, CONTEXTS, st.integers(1, 1000))
def test_context_costs_the_slope(accelerator: str, model: str, layout: Deployment, n: int, S: int, more: int) -> None:
    step = folded(accelerator, model, layout)
    assert step.seconds(n, S + more) - step.seconds(n, S) == pytest.approx(more * step.slope(), rel=1e-3, abs=1e-14)


@given(ACCELERATORS, MODELS, LAYOUTS, BATCHES, CONTEXTS, st.integers(0, 8192), st.floats(0.1, 10))
def test_scale_stretches_every_step_alike(
    accelerator: str, model: str, layout: Deployment, n: int, S: int, p: int, scale: float
) -> None:
    plain, scaled = (folded(accelerator, model, replace(layout, scale=factor)) for factor in (1.0, scale))
    assert scaled.seconds(n, S, p, p * 50.0) == pytest.approx(scale * plain.seconds(n, S, p, p * 50.0))
    assert scaled.kv_capacity == plain.kv_capacity


@given(SPECULATIONS)
def test_the_outcomes_of_a_speculative_step_agree_with_its_mean(speculation: Speculation) -> None:
    emission = speculation.emission
    assert len(emission) == speculation.drafts + 1
    assert all(chance >= 0 for chance in emission)
    assert sum(emission) == pytest.approx(1)
    mean = sum(tokens * chance for tokens, chance in enumerate(emission, start=1))
    assert mean == pytest.approx(speculation.emitted)


def test_three_published_drafts_yield_2_97_tokens() -> None:
    assert PUBLISHED.emitted == pytest.approx(1 + 0.84 + 0.84**2 * 0.93 + 0.84**3 * 0.93**3)


def test_sparse_attention_charges_no_more_than_its_top_tokens() -> None:
    step = folded("b300", "glm-5", Deployment(tensor_parallel=8))
    assert step.speed(8, 100_000) == step.speed(8, step.sparse_topk)
    assert step.speed(8, 100_000) < step.speed(8, 1000)
