"""What `fastmode keys` asks of a running service: to make, list, change and delete keys."""

from decimal import Decimal, InvalidOperation
from typing import Any

import httpx

from fastmode.port import reachable
from service.errors import FastmodeError
from service.offers import NANODOLLARS_PER_DOLLAR
from service.settings import Settings

_TIMEOUT = 10.0  # s


class KeysError(FastmodeError):
    """The service cannot be asked, or refuses; the message says what to do."""


def budget_of(text: str | None) -> dict[str, Any]:
    """`5/day` is five dollars a day; without a period it is for good. Raises KeysError."""
    if text is None:
        return {}
    amount, _, period = text.removeprefix("$").partition("/")
    try:
        nanodollars = int(Decimal(amount) * NANODOLLARS_PER_DOLLAR)
    except (InvalidOperation, ValueError, OverflowError):
        raise KeysError(f"--budget {text!r}: it must look like 5/day, 100/month or 20") from None
    return {"budget": nanodollars, "period": period or "total"}


def ask(settings: Settings, method: str, path: str, body: Any = None) -> Any:
    """What the service answers. Raises KeysError."""
    url = reachable(settings.host, settings.port)
    headers = {"authorization": f"Bearer {settings.admin_key}"} if settings.admin_key else {}
    try:
        with httpx.Client(base_url=url, timeout=_TIMEOUT, trust_env=False, headers=headers) as client:
            answer = client.request(method, f"/admin/keys{path}", json=body)
            told = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        advice = "start one, or name its FASTMODE_HOST and FASTMODE_PORT"
        raise KeysError(f"no service answers at {url} ({type(error).__name__}); {advice}") from error
    if answer.is_error:
        raise KeysError(told["error"]["message"])
    return told
