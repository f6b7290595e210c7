"""The fixture `fastmode`: the whole service, started once for a run that uses it, and told anew by each test.

pytest loads this module whatever is tested, so it imports nothing: a run that does not use the fixture pays for that
alone. What the fixture offers is `fastmode.testing`'s.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fastmode.testing import Fastmode


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "Settings of the service that the fixture `fastmode` starts, each as NAME=VALUE."
    parser.addini("fastmode_env", about, type="linelist", default=[])


@pytest.fixture(scope="session")
def fastmode_service(pytestconfig: pytest.Config) -> Iterator["Fastmode"]:
    """The service of this run (of each process, under xdist); what one test tells it, the next one finds."""
    from fastmode.testing import serve

    settings = (line.partition("=") for line in pytestconfig.getini("fastmode_env"))
    with serve({name.strip(): value.strip() for name, _, value in settings}) as service:
        yield service


@pytest.fixture
def fastmode(fastmode_service: "Fastmode") -> "Fastmode":
    """The service, with no rules and an empty journal."""
    fastmode_service.forget()
    return fastmode_service
