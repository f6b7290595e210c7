"""What is installed and what is shipped: the locks agree with pyproject.toml, and a wheel holds all it needs."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = {
    "requirements.lock": [*PROJECT["dependencies"], *EXTRAS["build"]],
    "requirements-dev.lock": [*PROJECT["dependencies"], *EXTRAS["build"], *EXTRAS["dev"]],
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_satisfies_pyproject(name: str) -> None:
    """If this fails, `make lock` mends it."""
    versions = locked(name)
    for requirement in map(Requirement, LOCKS[name]):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} is locked at {version}"


def test_the_locks_agree() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-dev.lock").items()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_hashes_and_no_host(name: str) -> None:
    """Whoever installs decides where from, and what is installed is what was locked."""
    text = (ROOT / name).read_text()
    assert "://" not in text
    for entry in entries(text):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_a_wheel_holds_every_module_and_data_file(tmp_path: Path) -> None:
    """Built without network; what git tracks in the packages is what it holds."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    packages = ("fastmode", "service", "gateway", "workers", "loadtests")
    wanted = {
        str(path.relative_to(ROOT))
        for package in packages
        for suffix in ("py", "toml", "lua")
        for path in (ROOT / package).rglob(f"*.{suffix}")
    }
    assert {"service/catalog.toml", "fastmode/guard.py"} <= wanted
    assert any(path.endswith(".lua") for path in wanted)
    assert wanted <= held
    assert wheel.name.startswith(f"fastmode-{PROJECT['version']}-")


def entries(text: str) -> list[str]:
    return [entry for entry in re.split(r"\n(?! )", text) if entry]


def locked(name: str) -> dict[str, Version]:
    found = (re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", entry) for entry in entries((ROOT / name).read_text()))
    return {canonicalize_name(match[1]): Version(match[2]) for match in found if match}
