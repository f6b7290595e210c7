"""What `fastmode usage` reads: the ledger of a running service, or the file of one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastmode.administration import ask
from service.book import Book, BookError
from service.settings import Settings


def read(
    settings: Settings, by: Sequence[str], account: str | None, since: str, ledger: Path | None
) -> list[dict[str, Any]]:
    """Sums by those words, dearest first. Raises AdministrationError, BookError."""
    if ledger is None:
        query = {"group_by": ",".join(by), "since": since} | ({"account": account} if account is not None else {})
        rows: list[dict[str, Any]] = ask(settings, "GET", "/usage", query=query)["data"]
        return rows
    if not ledger.is_file():
        raise BookError(f"there is no ledger {ledger}")
    return Book(ledger).usage(by, account, since)
