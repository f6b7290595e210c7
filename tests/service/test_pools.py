"""What a catalog says of a pool beyond its machines: what it lives under, how it is timed, what it keeps of prompts."""

from pathlib import Path

import pytest

from service.conditions import Ambient, Outage, Recurring, Slowdown
from service.errors import CatalogError
from service.figures import rows
from service.pools import Pool, PrefixCache
from service.tiers import load
from service.timings import Empirical, Fixed

README = Path(__file__).resolve().parents[2] / "README.md"

SHARED = """
extends = "default"

[sources.test]
kind = "measured"
date = "2026-11"
reference = "made up"

[pools.one]
replicas = 2
max_batch = 16
queue = { max = 10, wait_max_s = 5 }
utilisation = 0.5
source = "test"
"""

MACHINES = """
prefill_chunk = 8192
front_end = { median_ms = 0, sigma = 0 }

[pools.one.deployment]
accelerator = "h200"
architecture = "llama-70b"
tensor_parallel = 4
dense_bytes = 1
kv_bytes = 1
"""

SOLD = """
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

STEADY = "ambient = { sequences = 2, context = 1000 }\n"
FIXED = (
    'timing = "fixed"\ndollars_per_hour = 9\n'
    "fixed = { ttft_ms = 400, ttft_sigma = 0.3, tok_s = 80, tok_s_sigma = 0.1, load_slope = 0.02 }\n"
)


EVERY = "every_s = 9, lasting_s = 1"


def pool(directory: Path, keys: str, machines: str = MACHINES, offer: str = "") -> Pool:
    path = directory / "catalog.toml"
    path.write_text(SHARED + keys + machines + SOLD + offer)
    catalog = load(path)
    assert rows(catalog), "its figures can be shown"
    return catalog.pools["one"]


def refused(directory: Path, keys: str, machines: str = MACHINES, offer: str = "") -> str:
    with pytest.raises(CatalogError) as error:
        pool(directory, keys, machines, offer)
    return str(error.value)


def test_the_catalog_of_the_readme_is_sound(tmp_path: Path) -> None:
    section = README.read_text().split("## A catalog of your own")[1].split("\n| ")[0]
    path = tmp_path / "catalog.toml"
    path.write_text("\n".join(line[4:] for line in section.splitlines() if line.startswith("    ")))
    catalog = load(path)
    assert set(catalog.pools) == {"chips", "provider"}
    assert len(catalog.pools["chips"].incidents) == 2
    assert isinstance(catalog.pools["provider"].timing, Fixed)


# ---- what it lives under


def test_strangers_may_come_and_go_as_many_as_leave_a_slot_and_room_for_any_context_that_is_sold(
    tmp_path: Path,
) -> None:
    read = pool(tmp_path, "ambient = { sequences = 2, context = 1000, stay_s = 12, seed = 7 }\n").ambient
    assert read == Ambient(sequences=2, context=1000, stay=12, most=15, seed=7)
    tight = pool(tmp_path, "ambient = { sequences = 2, context = 200_000, stay_s = 12 }\n")
    assert tight.ambient.most is not None
    assert 2 < tight.ambient.most < 15
    assert 32_000 <= tight.kv_room < 32_000 + 200_000, "one more would not leave what the model promises"


def test_strangers_who_leave_no_room_for_their_own_mean_are_refused_where_the_line_is(tmp_path: Path) -> None:
    """2.5 in the mean fit beside a context of 32,000 tokens, and 3 do not."""
    complaint = refused(tmp_path, "ambient = { sequences = 2.5, context = 950_000, stay_s = 12 }\n")
    assert complaint.startswith("catalog.toml:15: pools.one.ambient.stay_s: at most 2 ambient sequences leave room")


@pytest.mark.parametrize(
    ("profile", "factors"),
    [("{ factors = [0.5, 1, 1.5], period_s = 60 }", (0.5, 1, 1.5)), ('{ trace = "day.csv", parts = 2 }', (0.5, 1.5))],
)
def test_the_ambient_load_may_follow_a_profile_given_or_taken_from_a_trace(
    tmp_path: Path, profile: str, factors: tuple[float, ...]
) -> None:
    """The trace asks for 100 tokens in its first half and for 300 in its second."""
    lines = ["Timestamp,Request tokens,Response tokens", "0,5,100", "60,5,100", "100,5,200"]
    (tmp_path / "day.csv").write_text("\n".join(lines))
    read = pool(tmp_path, f"ambient = {{ sequences = 2, context = 1000, profile = {profile} }}\n").ambient
    assert read.profile == factors
    assert read.peak == 3


def test_factors_have_a_source_as_every_number_has(tmp_path: Path) -> None:
    profile = "ambient = { sequences = 2, context = 9, profile = { factors = [1, 2] } }\n"
    path = tmp_path / "catalog.toml"
    path.write_text(SHARED + profile + MACHINES + SOLD)
    assert load(path).provenance["pools", "one", "ambient", "profile", "factors"].reference == "made up"


def test_incidents_are_data_single_or_recurring(tmp_path: Path) -> None:
    incidents = """
[pools.one.incidents.brownout]
kind = "slow"
start_s = 60
duration_s = 30
factor = 1.8

[pools.one.incidents.reboots]
kind = "outage"
every_s = 600
lasting_s = 20
seed = 3
replicas = 1
cold_start_s = 45
"""
    assert pool(tmp_path, STEADY, MACHINES + incidents).incidents == (
        Slowdown(start=60, end=90, factor=1.8),
        Recurring(
            example=Outage(start=0, end=0, replicas=1, cold_start=45),
            every=600,
            lasting=20,
            seed=3,
        ),
    )


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("ambient = { sequences = 2, context = 1000, stay_s = 0 }\n", "pools.one.ambient.stay_s: is 0"),
        ("ambient = { sequences = 2, context = 9, seed = 1 }\n", "ambient.seed: unknown key"),
        ("ambient = { sequences = 2, context = 9, profile = { factors = [1], parts = 2 } }\n", "parts: unknown key"),
        ("ambient = { sequences = 2, context = 9, profile = { factors = [1], period_s = 0 } }\n", "period_s: is 0"),
        ("ambient = { sequences = 2, context = 9, profile = { factors = [1, 2], period_s = 1.5 } }\n", "must last 1 s"),
        ("ambient = { sequences = 9, context = 9, profile = { factors = [0.5, 2] } }\n", "18 ambient sequences at the"),
        ("ambient = { sequences = 2, context = 9, profile = { factors = [] } }\n", "a list of at least one number"),
        ("ambient = { sequences = 2, context = 9, profile = { factors = [1, -1] } }\n", "factors: is -1"),
        ('ambient = { sequences = 2, context = 9, profile = { trace = "x.csv" } }\n', "profile.trace: "),
        (STEADY + "prefix_cache = { block = 0 }\n", "pools.one.prefix_cache.block: is 0"),
        (STEADY + "prefix_cache = { block = 8, size = 4 }\n", "prefix_cache.size: unknown key"),
        (STEADY + 'incidents = { x = { kind = "fire" } }\n', "pools.one.incidents.x.kind: is 'fire'"),
        (STEADY + 'incidents = { x = { kind = "slow", start_s = 1, factor = 2 } }\n', "duration_s: is missing"),
        (STEADY + 'incidents = { x = { kind = "slow", every_s = 9, factor = 2 } }\n', "lasting_s: is missing"),
        (STEADY + f'incidents = {{ x = {{ kind = "slow", factor = 2, start_s = 1, {EVERY} }} }}\n', "start_s: unknown"),
        (
            STEADY + f'incidents = {{ x = {{ kind = "slow", factor = 2, {EVERY.replace("9", "0.9")} }} }}\n',
            "at least 1",
        ),
        (STEADY + f'incidents = {{ x = {{ kind = "slow", factor = 0, {EVERY} }} }}\n', "factor: is 0"),
        (
            STEADY + f'incidents = {{ x = {{ kind = "slow", replicas = 1, factor = 2, {EVERY} }} }}\n',
            "replicas: unknown",
        ),
        (
            STEADY + f'incidents = {{ x = {{ kind = "outage", replicas = 3, {EVERY} }} }}\n',
            "replicas: is 3; it must be at",
        ),
        (STEADY + 'timing = "guess"\n', "pools.one.timing: is 'guess'; known are roofline, fixed, empirical"),
        (STEADY + "dollars_per_hour = 4\n", "pools.one.dollars_per_hour: unknown key"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(tmp_path: Path, keys: str, complaint: str) -> None:
    assert complaint in refused(tmp_path, keys)


def test_a_queue_says_how_long_it_takes_to_be_as_good_as_a_better_band(tmp_path: Path) -> None:
    path = tmp_path / "catalog.toml"
    text = SHARED + STEADY + MACHINES + SOLD
    path.write_text(text.replace("wait_max_s = 5", "wait_max_s = 5, aging_s = 3"))
    assert load(path).pools["one"].aging == 3
    path.write_text(text.replace("wait_max_s = 5", "wait_max_s = 5, aging_s = 0"))
    with pytest.raises(CatalogError, match="aging_s: is 0; it must be above 0"):
        load(path)


def test_an_offer_has_a_band_in_its_pool(tmp_path: Path) -> None:
    path = tmp_path / "catalog.toml"
    path.write_text(SHARED + STEADY + MACHINES + SOLD + "band = 0\n")
    assert load(path).models["m"].offers["standard"].band == 0
    assert "band: is 3; it must be at most 2" in refused(tmp_path, STEADY, offer="band = 3\n")


def test_a_pool_keeps_beginnings_of_prompts_if_it_says_so(tmp_path: Path) -> None:
    assert pool(tmp_path, STEADY).prefix_cache is None
    keeps = pool(tmp_path, STEADY + "prefix_cache = { block = 64, minimum = 256 }\n")
    assert keeps.prefix_cache == PrefixCache(block=64, minimum=256)


# ---- how it is timed


def test_a_pool_may_be_timed_by_what_somebody_measured(tmp_path: Path) -> None:
    read = pool(tmp_path, STEADY + FIXED, machines="")
    assert read.timing == Fixed(ttft=0.4, ttft_sigma=0.3, rate=80, rate_sigma=0.1, load_slope=0.02)
    assert (read.dollars_per_hour, read.frontend_median, read.kv_room) == (9, 0, float("inf"))


def test_a_pool_may_repeat_recorded_requests(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text("ttft_ms,tok_s\n250,61\n400,58.5\n")
    keys = STEADY + 'timing = "empirical"\nempirical = { samples = "seen.csv", requests = 2 }\n'
    assert pool(tmp_path, keys, machines="").timing == Empirical(samples=((0.25, 61.0), (0.4, 58.5)))
    assert "requests: is 3, and" in refused(tmp_path, keys.replace("= 2 }", "= 3 }"), machines="")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ttft_ms,tok_s\n250,61\n250,none\n", "line 3 does not have two numbers"),
        ("ttft_ms,tok_s\n250\n", "line 2 does not have two numbers"),
        ("ttft_ms,tok_s\n250,0\n", "line 2: both numbers must be above 0"),
        ("ttft,tok_s\n250,60\n", "its first line does not name ttft_ms"),
        ("", "its first line does not name tok_s and ttft_ms"),
    ],
)
def test_recorded_requests_that_cannot_be_read_are_refused_with_their_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "seen.csv").write_text(text)
    keys = STEADY + 'timing = "empirical"\nempirical = { samples = "seen.csv", requests = 2 }\n'
    told = refused(tmp_path, keys, machines="")
    assert "pools.one.empirical.samples: " in told
    assert complaint in told


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("ttft_ms = 400", "ttft_ms = 0", "fixed.ttft_ms: is 0"),
        ("tok_s = 80, ", "", "fixed.tok_s: is missing"),
        ("tok_s_sigma = 0.1", "tok_s_sigma = 9", "fixed.tok_s_sigma: is 9"),
        ("load_slope = 0.02", "load_slope = -1", "fixed.load_slope: is -1"),
        ("dollars_per_hour = 9\n", "prefix_cache = { block = 8 }\n", "prefix_cache: a measured TTFT has in it"),
    ],
)
def test_a_measured_timing_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in FIXED
    assert complaint in refused(tmp_path, STEADY + FIXED.replace(old, new), machines="")
