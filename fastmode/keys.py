"""What people say of a key on the command line."""

from decimal import Decimal, InvalidOperation
from typing import Any

from service.errors import FastmodeError
from service.offers import NANODOLLARS_PER_DOLLAR


class KeysError(FastmodeError):
    """Something said of a key makes no sense."""


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
