"""What is known of the cost of a request: whom to bill, and, when it has ended, what for. Values."""

from dataclasses import dataclass

import msgspec

from service import pricing
from service.messages import Usage
from service.prices import Price


class Bill(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Who is charged for a job, and how. `at` is Unix time; `held`: the account's limits hold something for it."""

    job: str
    at: float
    account: str
    model: str
    requested: str
    tier: str
    prompt: int
    price: Price
    held: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that has ended. `outcome`: ok, cancelled, failed or rejected; the last two cost nothing."""

    bill: Bill
    outcome: str
    usage: Usage

    @property
    def parts(self) -> pricing.Bill:
        return pricing.bill(self.bill.price, self.usage)

    @property
    def cost(self) -> int:
        """Nano-dollars."""
        return self.parts.total
