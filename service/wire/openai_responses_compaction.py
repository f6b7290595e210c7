"""A conversation made shorter: what the user said stays, and one sealed item stands for all the rest. Sans-IO.

What is sealed cannot be read here either: nothing is summed up that could be. It counts as tokens when it comes back,
as a summary of that length does.
"""

from collections.abc import Sequence

import orjson

from service.messages import Usage
from service.wire.ids import derived
from service.wire.openai_responses_ids import item_id
from service.wire.openai_responses_items import Item
from service.wire.openai_responses_object import usage_of

_SEALED = 80  # characters of one piece
_PIECES = 4


def compacted(name: str, created: int, items: Sequence[Item], usage: Usage) -> bytes:
    """The object: `name` is its id, `created` in Unix seconds; `usage` is told as it is."""
    kept = [
        {
            "id": item.get("id") or item_id("message", name, "output", index),
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": item["content"],
        }
        for index, item in enumerate(items)
        if item["type"] == "message" and item["role"] == "user"
    ]
    rest = {
        "id": item_id("compaction", name, "output", len(items)),
        "type": "compaction",
        "encrypted_content": sealed(name),
    }
    return orjson.dumps(
        {
            "id": name,
            "object": "response.compaction",
            "created_at": created,
            "output": [*kept, rest],
            "usage": usage_of(usage),
        }
    )


def sealed(name: str) -> str:
    return "".join(derived("", _SEALED, name, piece) for piece in range(_PIECES))
