"""The command `fastmode`, run as people run it."""

import json
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from service import profiles, tiers

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_one_of_pyproject(bare_environ: dict[str, str]) -> None:
    """If this fails after a change of pyproject.toml, the installed metadata is older: `make` installs it again."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert fastmode(bare_environ, "--version").stdout == f"{version}\n"


def test_check_counts_what_a_sound_catalog_sells(bare_environ: dict[str, str]) -> None:
    answer = fastmode(bare_environ, "check", str(tiers.SHIPPED))
    assert answer.returncode == 0
    catalog = tiers.load()
    offers = sum(len(model.offers) for model in catalog.models.values())
    counted = f"{len(catalog.pools)} pools, {len(catalog.models)} models, {offers} offers"
    assert answer.stdout == f"{tiers.SHIPPED} is sound: {counted}\n"


def test_check_names_the_key_that_cannot_be(bare_environ: dict[str, str], tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.toml"
    catalog.write_text('extends = "default"\ncolour = "blue"\n')
    assert "colour" in complaint(fastmode(bare_environ, "check", str(catalog)))


def test_check_looks_at_rules_as_well(bare_environ: dict[str, str], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nreply = "yes"\n')
    assert "1 rules" in fastmode(bare_environ, "check", "--rules", str(rules)).stdout
    rules.write_text('[[rules]]\nreply = "yes"\ncolour = "red"\n')
    assert "rules.toml:3: rules.1.colour: unknown key" in complaint(fastmode(bare_environ, "up", "--rules", str(rules)))


@pytest.mark.parametrize("command", [["check"], ["tiers", "--catalog"], ["up", "--catalog"]])
def test_a_catalog_that_is_not_there_is_one_line(bare_environ: dict[str, str], command: list[str]) -> None:
    assert "nowhere.toml" in complaint(fastmode(bare_environ, *command, "nowhere.toml"))


def test_tiers_as_json_holds_every_offer_and_says_of_every_figure_what_it_is(bare_environ: dict[str, str]) -> None:
    rows: list[dict[str, Any]] = json.loads(fastmode(bare_environ, "tiers", "--json").stdout)
    catalog = profiles.load("2026-11", tiers.load()).catalog
    offers = [(model.id, tier) for model in catalog.models.values() for tier in model.offers]
    assert [(row["model"], row["tier"]) for row in rows] == offers
    figures = [value for row in rows for value in row.values() if isinstance(value, dict)]
    assert figures
    assert all(figure["kind"] in ("measured", "derived", "assumed") for figure in figures)
    assert all(figure["unit"] and figure["note"] for figure in figures)


@pytest.mark.parametrize("columns", [80, 200])
def test_the_tables_of_tiers_fit_a_terminal_and_cut_nothing(bare_environ: dict[str, str], columns: int) -> None:
    text = fastmode({**bare_environ, "COLUMNS": str(columns)}, "tiers").stdout
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= columns
    for model in profiles.load("2026-11", tiers.load()).catalog.models:
        assert model in text


def test_a_profile_is_asked_for_by_option_or_variable(bare_environ: dict[str, str]) -> None:
    asked = fastmode(bare_environ, "tiers", "--profile", "2026-02", "--json").stdout
    assert asked == fastmode({**bare_environ, "FASTMODE_PROFILE": "2026-02"}, "tiers", "--json").stdout
    sold = {(row["model"], row["tier"]): row["price_output"]["value"] for row in json.loads(asked)}
    assert sold["claude-opus-4-6", "fast"] == 150
    assert ("claude-opus-5-5", "standard") not in sold


@pytest.mark.parametrize("command", ["tiers", "up"])
def test_an_unknown_profile_is_one_line_with_the_known_ones(bare_environ: dict[str, str], command: str) -> None:
    line = complaint(fastmode(bare_environ, command, "--profile", "2025-12"))
    assert "'2025-12'; known are: 2026-02, 2026-08, 2026-11" in line


def test_tiers_shows_the_catalog_that_the_environment_names(bare_environ: dict[str, str], tmp_path: Path) -> None:
    """A renamed model is enough to know it by."""
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(tiers.SHIPPED.read_text().replace("gpt-5.3-codex-spark", "my-own-model"))
    assert "my-own-model" in fastmode({**bare_environ, "FASTMODE_CATALOG": str(catalog)}, "tiers").stdout


@pytest.mark.parametrize("command", [["tiers"], ["up"], ["gateway"], ["worker", "--pool", "fast"]])
def test_a_misspelt_variable_is_one_line(bare_environ: dict[str, str], command: list[str]) -> None:
    assert "unknown variable FASTMODE_PROT" in complaint(fastmode({**bare_environ, "FASTMODE_PROT": "1"}, *command))


@pytest.mark.parametrize(
    "url", ["localhost:6379", "redis://", "redis://host:port/0", "unix://", "carrier-pigeon://loft"]
)
def test_a_redis_url_that_names_no_server_is_one_line(bare_environ: dict[str, str], url: str) -> None:
    assert f"REDIS_URL is {url!r}" in complaint(fastmode({**bare_environ, "REDIS_URL": url}, "up"))


def test_an_unknown_pool_is_one_line_with_the_known_ones(bare_environ: dict[str, str]) -> None:
    line = complaint(fastmode(bare_environ, "worker", "--pool", "turbo"))
    assert "turbo" in line
    assert "standard, fast, spark" in line


def test_a_port_in_use_is_one_line_that_says_what_to_do(bare_environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        line = complaint(fastmode(bare_environ, "up", "--port", str(port)))
    assert f"port {port} is in use" in line
    assert "--port" in line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "0"], "name one with --port"),
        (["--port", "70000"], "between 0 and 65535"),
        (["--host", "no.such.host.invalid"], "cannot be resolved"),
        (["--host", "192.0.2.1"], "not an address of this machine"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_one_line(
    bare_environ: dict[str, str], options: list[str], says: str
) -> None:
    assert says in complaint(fastmode(bare_environ, "up", *options))


def fastmode(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastmode", *arguments], capture_output=True, text=True, env=environ, timeout=60
    )


def complaint(answer: subprocess.CompletedProcess[str]) -> str:
    """The one line on stderr of a command that failed."""
    assert answer.returncode in (1, 2)
    (line,) = answer.stderr.splitlines()
    return line
