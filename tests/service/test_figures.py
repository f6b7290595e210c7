"""The table of tiers shows every offer, and each figure says what it is worth."""

import json
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from service.figures import Figure, Row, in_words, lone_speed, rows
from service.tiers import load, resolve

CATALOG = load()
ROWS = {(row.model, row.tier): row for row in rows(CATALOG)}
ROOT = Path(__file__).resolve().parents[2]
BENCH = load(ROOT / "loadtests" / "bench" / "catalog.toml")


def figures(row: Row) -> list[Figure]:
    values = [getattr(row, field.name) for field in fields(row)]
    return [value for value in values if isinstance(value, Figure)]


def test_every_offer_has_a_row_and_no_other() -> None:
    offers = {(model.id, tier) for model in CATALOG.models.values() for tier in model.offers}
    assert set(ROWS) == offers


def test_rows_survive_the_way_through_json() -> None:
    plain = [asdict(row) for row in ROWS.values()]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: f"{row.model}-{row.tier}")
def test_every_figure_says_its_kind_unit_and_basis(row: Row) -> None:
    assert len(figures(row)) >= 12
    for figure in figures(row):
        assert figure.kind in ("measured", "derived", "assumed")
        assert figure.unit
        assert figure.note
        assert figure.value > 0
    assert row.deployment_kind == "assumed"


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: f"{row.model}-{row.tier}")
def test_speeds_fall_from_the_floor_through_alone_and_ambient_to_full(row: Row) -> None:
    assert row.floor_speed is not None
    speeds = [row.floor_speed, row.speed_alone, row.speed_ambient, row.speed_full]
    assert [speed.value for speed in speeds] == sorted((speed.value for speed in speeds), reverse=True)
    assert {speed.kind for speed in speeds} == {"derived"}


def test_the_ambient_speed_is_that_of_a_lone_request() -> None:
    for (model, tier), row in ROWS.items():
        pool = CATALOG.pools[CATALOG.models[model].offers[tier].pool]
        assert row.speed_ambient.value == pytest.approx(lone_speed(pool), rel=1e-3)


def test_list_prices_are_measured_where_they_are_published_and_assumed_where_not() -> None:
    assert ROWS["gpt-5.3-codex", "fast"].price_output.kind == "measured"
    assert ROWS["gpt-5.3-codex", "fast"].price_output.value == 28
    assert ROWS["gpt-5.3-codex-spark", "spark"].price_output.kind == "assumed"


def test_a_small_batch_costs_more_to_serve_and_no_tier_is_sold_below_its_cost() -> None:
    fast, standard = (ROWS["claude-opus-4-6", tier].cost_output for tier in ("fast", "standard"))
    assert fast is not None
    assert standard is not None
    assert fast.value > 5 * standard.value
    for row in ROWS.values():
        assert row.cost_output is not None
        assert row.cost_input is not None
        assert row.price_output.value > row.cost_output.value
        assert row.price_input.value > row.cost_input.value


def test_the_cost_of_a_token_is_its_share_of_the_hour() -> None:
    row = ROWS["claude-opus-4-6", "standard"]
    pool = CATALOG.pools["standard"]
    tokens_per_hour = 3600 * (row.ambient_batch.value + 1) * row.speed_ambient.value * pool.utilisation
    assert row.cost_output is not None
    assert row.cost_output.value == pytest.approx(8 * 2.75 / tokens_per_hour * 1e6, rel=1e-3)


def test_a_listed_premium_implies_a_floor_and_warns_that_it_is_ill_conditioned() -> None:
    steep, mild = (ROWS[model, "fast"].price_floor_speed for model in ("claude-opus-4-6", "claude-opus-5-5"))
    assert steep is not None
    assert mild is not None
    assert steep.value == pytest.approx(190, rel=0.03)
    assert mild.value == pytest.approx(270, rel=0.03)
    for figure in (steep, mild):
        assert "ill-conditioned" in figure.note


def test_there_is_no_floor_to_infer_between_different_chips_or_from_the_default_tier() -> None:
    assert ROWS["gpt-5.3-codex", "spark"].price_floor_speed is None
    assert ROWS["gpt-5.3-codex", "standard"].price_floor_speed is None


def test_a_deployment_in_words_names_chip_model_layout_and_what_is_hypothetical() -> None:
    words = in_words(CATALOG, CATALOG.pools["fast"])
    for part in ("flagship-1.2t-a60b (hypothetical)", "8 x gb200", "tensor parallel 8", "3 drafts"):
        assert part in words
    assert "hypothetical" not in in_words(CATALOG, CATALOG.pools["spark"])
    assert "1 draft for" in in_words(CATALOG, CATALOG.pools["spark"])


MEASURED = """
extends = "default"

[sources.seen]
kind = "measured"
date = "2026-11"
reference = "A stopwatch"

[pools.seen]
timing = "TIMING"
replicas = 1
max_batch = 11
ambient = { sequences = 4, context = 1 }
queue = { max = 1, wait_max_s = 1 }
utilisation = 1
source = "seen"

[models.m]
owned_by = "nobody"
created = 2026-11-30
context_window = 2
max_output = 1
modalities = ["text"]
default_tier = "standard"
source = "seen"

[models.m.offers.standard]
pool = "seen"
reported_as = "default"
price = { input = 1, cached_input = 1, output = 1 }

[pools.seen.TIMING]
"""
FIXED = MEASURED.replace("TIMING", "fixed") + "ttft_ms = 250\ntok_s = 90\nload_slope = 0.1\n"


def seen(directory: Path, text: str) -> Row:
    path = directory / "catalog.toml"
    path.write_text(text)
    (row,) = rows(load(path))
    assert json.dumps(asdict(row), allow_nan=False)
    return row


def test_a_measured_pool_has_the_speeds_and_the_kind_of_its_source_and_nothing_only_physics_tells(
    tmp_path: Path,
) -> None:
    row = seen(tmp_path, FIXED)
    speeds = (row.speed_alone, row.speed_ambient, row.speed_full)
    assert [speed.value for speed in speeds] == [90, pytest.approx(90 / 1.4, rel=1e-3), 45]
    assert {speed.kind for speed in speeds} == {"measured"}
    assert all("A stopwatch (2026-11)" in speed.note for speed in speeds)
    assert (row.floor_speed, row.price_floor_speed, row.cost_input, row.cost_output) == (None,) * 4
    assert "TTFT 250 ms" in row.deployment


def test_recorded_requests_have_one_median_speed_whatever_the_load(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text("ttft_ms,tok_s\n250,61\n400,58.5\n100,70\n")
    row = seen(tmp_path, MEASURED.replace("TIMING", "empirical") + 'samples = "seen.csv"\nrequests = 3\n')
    assert [figure.value for figure in (row.speed_alone, row.speed_ambient, row.speed_full)] == [61] * 3
    assert row.speed_alone.kind == "measured"
    assert row.floor_speed is None
    assert "3 recorded requests" in row.deployment


def test_a_measured_pool_costs_what_its_replicas_are_said_to_cost(tmp_path: Path) -> None:
    row = seen(tmp_path, FIXED.replace("utilisation", "dollars_per_hour = 9\nutilisation"))
    assert row.cost_output is not None
    assert row.cost_output.value == pytest.approx(9 / 3600 / (5 * 90 / 1.4) * 1e6, rel=1e-3)
    assert row.cost_input is None


def test_what_only_physics_tells_is_shown_as_a_dash(tmp_path: Path) -> None:
    (tmp_path / "catalog.toml").write_text(FIXED)
    command = [sys.executable, "-m", "fastmode", "tiers", "--catalog", str(tmp_path / "catalog.toml")]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    (speeds,) = (line.split() for line in lines if line.startswith("seen ") and "64.29" in line)
    assert speeds[:6] == ["seen", "standard", "90ᵐ", "64.29ᵐ", "45ᵐ", "–"]


def test_any_catalog_can_be_shown() -> None:
    by_model = {(row.model, row.tier): row for row in rows(BENCH)}
    assert by_model["test-1000", "standard"].speed_full.value == 1000
    assert by_model["test-tiers", "fast"].pool == resolve(BENCH, "test-tiers", "priority").pool
