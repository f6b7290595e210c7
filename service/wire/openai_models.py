"""The model objects of the OpenAI dialect."""

from collections.abc import Iterable
from typing import Any


def model(name: str, created: int, owned_by: str) -> dict[str, Any]:
    """`created` in Unix seconds."""
    return {"id": name, "object": "model", "created": created, "owned_by": owned_by, "shutdown_date": None}


def listing(models: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": list(models)}
