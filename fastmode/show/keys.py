"""The keys of a service, as people look at them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from fastmode.show import table
from service.offers import NANODOLLARS_PER_DOLLAR


def keys(out: Console, records: Sequence[Mapping[str, Any]]) -> None:
    shown = table("Key", "Name", "Plan", ">Budget", "Tiers", "Models", ">Weight", "Made", "State", wordy=["Models"])
    for record in records:
        shown.add_row(
            record["id"],
            record["name"],
            record["plan"] or "–",
            _budget(record),
            ", ".join(record["tiers"]) or (f"up to {record['highest']}" if record["highest"] else "all"),
            ", ".join(record["models"]) or "all",
            f"{record['weight']:g}",
            datetime.fromtimestamp(record["created"], UTC).strftime("%Y-%m-%d"),
            "blocked" if record["blocked"] else "active",
        )
    out.print(shown)


def _budget(record: Mapping[str, Any]) -> str:
    if record["budget"] is None:
        return "–"
    dollars = f"${record['budget'] / NANODOLLARS_PER_DOLLAR:,.2f}"
    return dollars if record["period"] == "total" else f"{dollars} a {record['period']}"
