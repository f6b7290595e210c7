"""The command `fastmode explain`, run as people run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from service import tiers

MEASURED = str(Path(__file__).parent.parent / "catalogs" / "measured.toml")


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("tier", ["standard", "fast", "spark"])
def test_the_tables_fit_a_terminal_and_cut_nothing(bare_environ: dict[str, str], tier: str, columns: int) -> None:
    answer = fastmode({**bare_environ, "COLUMNS": str(columns)}, "explain", tier)
    assert answer.returncode == 0
    assert "…" not in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= columns


def test_what_is_assumed_is_named_below_the_tables(bare_environ: dict[str, str]) -> None:
    spark = fastmode(bare_environ, "explain", "spark").stdout
    for name in ("wafer hop", "$/h of a wse3", "utilisation", "prefill share of a wafer", "front-end TTFT"):
        assert name in spark
    assert "wafer hop" not in fastmode(bare_environ, "explain", "fast").stdout


def test_the_article_can_be_checked_line_by_line(bare_environ: dict[str, str]) -> None:
    """65 to 166 tok/s for about six times, less for long turns; 1,103 tok/s on SRAM; what else would give what."""
    environ = {**bare_environ, "FASTMODE_PROFILE": "2026-02"}
    fast, spark = (fastmode(environ, "explain", tier).stdout for tier in ("fast", "spark"))
    assert row(fast, "short chat", "wide expert parallelism")[-5:] == ["65ᵈᵃ", "166ᵈᵃ", "351ᵈᵃ", "5.14ᵈᵃ", "6.68ᵈᵃ"]
    assert row(fast, "agent turn", "wide expert parallelism")[-1] == "4.77ᵈᵃ"
    assert row(fast, "list price of an output token")[-7:-4] == ["6ᵈ", "0.122ᵈᵃ", "186ᵈᵃ"]
    assert row(spark, "speed of a request")[4] == "1,103ᵈᵃ"
    assert "1ᵈᵃ" in row(spark, "skipping the queue")
    assert "2.03ᵈᵃ" in row(spark, "speculation, 0 to 3 drafts")


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_plot_is_saved_as_its_ending_says(bare_environ: dict[str, str], tmp_path: Path, ending: str) -> None:
    plot = tmp_path / f"fast.{ending}"
    assert fastmode(bare_environ, "explain", "fast", "--plot", str(plot)).returncode == 0
    assert plot.read_bytes()[:4] in (b"<?xm", b"\x89PNG", b"%PDF")


@pytest.mark.parametrize("tier", ["standard", "fast", "spark"])
def test_every_tier_can_be_plotted_at_every_context(bare_environ: dict[str, str], tmp_path: Path, tier: str) -> None:
    plot = tmp_path / "tier.svg"
    assert fastmode(bare_environ, "explain", tier, "--context", "100000", "--plot", str(plot)).returncode == 0
    assert tier in plot.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["turbo"], "known are 'standard', 'standard_only', 'on_demand', 'fast', 'priority'"),
        (["fast", "--model", "gpt-0"], "gpt-0"),
        (["spark", "--model", "claude-opus-5"], "standard, fast"),
        (["spark", "--context", "128000"], "do not fit the 128,000"),
        (["fast", "--output", "0"], "at least 1 token"),
        (["fast", "--catalog", "nowhere.toml"], "nowhere.toml"),
        (["fast", "--plot", "plot.txt"], "svg, png, pdf"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    bare_environ: dict[str, str], arguments: list[str], says: str
) -> None:
    answer = fastmode(bare_environ, "explain", *arguments)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert says in line
    assert answer.stdout == ""


def test_of_a_measured_pool_it_says_what_is_known_and_that_nothing_can_be_derived(bare_environ: dict[str, str]) -> None:
    answer = fastmode(bare_environ, "explain", "standard", "--catalog", MEASURED)
    assert row(answer.stdout, "speed", "tok/s")[1] == "80ᵐ"
    assert "nothing else can be derived" in answer.stdout
    plotted = fastmode(bare_environ, "explain", "standard", "--catalog", MEASURED, "--plot", "plot.svg")
    assert plotted.returncode == 2
    assert "was measured" in plotted.stderr


def test_the_json_names_model_tier_and_shape(bare_environ: dict[str, str]) -> None:
    explained = json.loads(fastmode(bare_environ, "explain", "fast", "--context", "3000", "--json").stdout)
    assert [explained[name] for name in ("model", "tier", "prompt", "output")] == ["claude-opus-5", "fast", 3000, 500]


def test_the_environment_names_the_catalog(bare_environ: dict[str, str], tmp_path: Path) -> None:
    """A renamed model is enough to know it by."""
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(tiers.SHIPPED.read_text().replace("models.claude-opus-4-6", "models.my-own-model"))
    environ = {**bare_environ, "FASTMODE_CATALOG": str(catalog)}
    assert "my-own-model" in fastmode(environ, "explain", "standard").stdout


def row(text: str, *parts: str) -> list[str]:
    """The words of the first line with all `parts`."""
    return next(line for line in text.splitlines() if all(part in line for part in parts)).split()


def fastmode(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastmode", *arguments], capture_output=True, text=True, env=environ, timeout=120
    )
