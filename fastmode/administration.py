"""What whoever runs a service asks of it while it runs, over HTTP and with the admin key."""

from collections.abc import Mapping
from typing import Any

import httpx

from fastmode.port import reachable
from service.errors import FastmodeError
from service.settings import Settings

_TIMEOUT = 10.0  # s


class AdministrationError(FastmodeError):
    """The service cannot be asked, or refuses; the message says what to do."""


def ask(settings: Settings, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
    """What the service answers. Raises AdministrationError."""
    url = reachable(settings.host, settings.port)
    headers = {"authorization": f"Bearer {settings.admin_key}"} if settings.admin_key else {}
    try:
        with httpx.Client(base_url=url, timeout=_TIMEOUT, trust_env=False, headers=headers) as client:
            answer = client.request(method, f"/admin{path}", json=body, params=query)
            told = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        advice = "start one, or name its FASTMODE_HOST and FASTMODE_PORT"
        raise AdministrationError(f"no service answers at {url} ({type(error).__name__}); {advice}") from error
    if answer.is_error:
        raise AdministrationError(told["error"]["message"])
    return told
