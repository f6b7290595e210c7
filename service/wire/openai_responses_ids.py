"""Ids of the items of a response, from which it can be told to which response they belong. Sans-IO.

    resp_STEM -> msg_STEM..., fc_STEM..., rs_STEM...: 19 digits more, from the place of the item

Whoever refers to an item by its id alone gets it from there.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from service.wire.ids import derived

PREFIX = "resp_"
_OWN = 19  # digits
_PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fc_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctc_",
    "compaction": "cmp_",
}


def item_id(kind: str, response: str, side: Literal["input", "output"], index: int) -> str:
    """Of an item of type `kind`, by its place."""
    stem = response.removeprefix(PREFIX)
    return derived(f"{_PREFIXES.get(kind, 'item_')}{stem}", _OWN, response, side, index)


def response_of(item: str) -> str:
    """The response that an item belongs to, if its id comes from here; otherwise there is no such response."""
    return PREFIX + item.partition("_")[2][:-_OWN]


def identified(items: Iterable[Mapping[str, Any]], response: str) -> list[dict[str, Any]]:
    """The input of a response; items without an id of their own get one."""
    return [
        {**item, "id": item.get("id") or item_id(item["type"], response, "input", index)}
        for index, item in enumerate(items)
    ]
