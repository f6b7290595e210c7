"""Checks every generation of every client, each in an environment of its own, and writes docs/conformance.md.

    PYTHONPATH=tests python tests/conformance/matrix.py DIRECTORY [CLIENT...]

DIRECTORY holds the environments; what is missing there is installed from wheels. CLIENT chooses some by name, and then
nothing is written. Exits with 1 when a check failed.
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import quick

from fastmode.testing import serve

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "conformance.md"
_CHECKS_MAX = 600.0  # s for all checks of one client
_EXAMPLES = "200"  # of each property
_SCHEMATHESIS = "schemathesis==4.32.5"
_LOOK_FOR = 120  # s
_CHECKED = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)
_SIGNS = {"passed": "✓", "failed": "✗", "lacking": "–"}


@dataclass(frozen=True, slots=True)
class Client:
    """One generation of a client; the newest official ones are those that the tests use anyway."""

    name: str
    requirement: str | None = None

    @property
    def label(self) -> str:
        return self.requirement.replace("==", " ") if self.requirement else f"{self.name} {version(self.name)}"

    def python(self, directory: Path) -> Path:
        """The interpreter of its environment, which is made if it is not there."""
        return environment(directory, self.requirement) if self.requirement else Path(sys.executable)


CLIENTS = (
    Client("openai"),
    Client("openai", "openai==2.20.0"),
    Client("anthropic"),
    Client("anthropic", "anthropic==0.125.0"),
    Client("litellm", "litellm==1.110.2"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What one client found of one expectation."""

    area: str
    name: str
    sentence: str
    outcome: str
    why: str


def main(directory: Path, names: list[str]) -> int:
    found: dict[Client, list[Row]] = {}
    with service() as url:
        for client in CLIENTS:
            if not names or client.name in names:
                found[client] = list(check(client, url, directory))
                tell(client, found[client])
        if not names:
            DOCUMENT.parent.mkdir(exist_ok=True)
            DOCUMENT.write_text(document(found))
        holds = bool(names) or looked_longer(url, directory)
    return 0 if holds and all(row.outcome != "failed" for rows in found.values() for row in rows) else 1


def tell(client: Client, rows: list[Row]) -> None:
    """How many hold, and what does not."""
    print(f"{client.label}: {counted(rows)}", flush=True)
    for row in rows:
        if row.outcome == "failed":
            print(f"  {row.area}, {row.name}: {row.why}", flush=True)


@contextmanager
def service() -> Iterator[str]:
    """The service with everything that is sold, for as long as the context lasts."""
    with TemporaryDirectory() as directory:
        catalog = str(quick.catalog(Path(directory)))
        with serve({"FASTMODE_CATALOG": catalog, **quick.SETTINGS}) as served:
            yield served.base_url


def check(client: Client, url: str, directory: Path) -> Iterator[Row]:
    """What the checks say, each in its line."""
    command: list[str | Path] = [client.python(directory), Path(__file__).with_name("run.py"), client.name, url]
    # LiteLLM would ask for newer prices than those it comes with.
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONWARNINGS": "ignore"}
    said = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_CHECKS_MAX, check=False)
    if said.returncode:
        sys.exit(f"{client.label}: {said.stderr[-2000:]}")
    for line in said.stdout.splitlines():
        if line.startswith('{"area"'):
            yield Row(**json.loads(line))


def looked_longer(url: str, directory: Path) -> bool:
    """Whether properties hold for many examples, and schemathesis finds nothing."""
    longer = {**os.environ, "CONFORMANCE_EXAMPLES": _EXAMPLES}
    tests = [str(Path(__file__).with_name(f"test_{name}.py")) for name in ("grammar", "openapi")]
    properties = subprocess.run([sys.executable, "-m", "pytest", *tests], env=longer, cwd=ROOT, check=False)
    tool = environment(directory, _SCHEMATHESIS).with_name("schemathesis")
    options = [
        "--checks",
        _CHECKED,
        "--max-time",
        str(_LOOK_FOR),
        "--phases",
        "examples,coverage,fuzzing",
        "--seed",
        "1",
    ]
    with TemporaryDirectory() as elsewhere:  # it leaves its memories where it runs
        looked = subprocess.run([str(tool), "run", f"{url}/openapi.json", *options], cwd=elsewhere, check=False)
    return properties.returncode == looked.returncode == 0


def environment(directory: Path, requirement: str) -> Path:
    """The interpreter of an environment that has only this."""
    place = directory / requirement.replace("==", "-")
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        venv.create(place, with_pip=True, clear=True)
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-qq",
            "--only-binary",
            ":all:",
        ]
        subprocess.run([*install, requirement], check=True)
        (place / "installed").touch()
    return python


def document(found: dict[Client, list[Row]]) -> str:
    """The matrix: a table for each family of clients, a row for each expectation."""
    parts = [_HEAD]
    for name in dict.fromkeys(client.name for client in found):
        generations = {client: {row.name: row for row in rows} for client, rows in found.items() if client.name == name}
        labels = [client.label for client in generations]
        totals = ", ".join(f"{client.label}: {counted(rows.values())}" for client, rows in generations.items())
        parts.append(f"\n## {labels[0].partition(' ')[0]}\n\n{totals}.\n\n")
        parts.append(f"| | expectation | {' | '.join(labels)} |\n|---|---|{'---|' * len(labels)}\n")
        area = ""
        for row in next(iter(generations.values())).values():
            signs = " | ".join(_SIGNS[rows[row.name].outcome] for rows in generations.values())
            parts.append(f"| {row.area if row.area != area else ''} | {row.sentence} | {signs} |\n")
            area = row.area
    return "".join(parts)


def counted(rows: Iterable[Row]) -> str:
    outcomes = [row.outcome for row in rows]
    lacking = outcomes.count("lacking")
    beside = f", {lacking} not to be had with it" if lacking else ""
    return f"{outcomes.count('passed')} of {len(outcomes) - lacking} hold{beside}"


_HEAD = """# What clients find

Written by `make conformance`, which asks the service, over real sockets, with each client in an environment of its own.
✓ holds, ✗ does not, – this generation of the client has no way to ask for it. What is expected is in
`tests/conformance/features`, one function for each row.
"""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
