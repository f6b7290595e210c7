"""Server-sent events of a body, after section 9.2 of the WHATWG's HTML standard: fields, comments, blank lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Ungrammatical(AssertionError):
    """A stream says something that it must not say there."""


@dataclass(frozen=True, slots=True)
class Event:
    """`data` is the text; a block that has none is a comment, which clients skip."""

    name: str
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def events(body: bytes) -> Iterator[Event]:
    """All but the comments. Only \\n ends a line here: a lone \\r would too, so that none may occur."""
    text = body.decode()
    demand("\r" not in text, "a carriage return ends a line")
    demand(not text or text.endswith("\n\n"), "the last event has no end")
    for block in text.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if lines:
            named = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
            data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
            demand(len(named) <= 1 and len(data) == 1 and len(named) + len(data) == len(lines), f"odd block {block!r}")
            yield Event("".join(named), data[0])


def demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Ungrammatical(otherwise)
