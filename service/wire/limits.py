"""What both dialects have in common when they speak of limits.

Rooms are told by kind: requests, tokens, input_tokens, output_tokens, and those of the default speed as
standard_input_tokens and standard_output_tokens where a request has another.
"""

from collections.abc import Iterable, Mapping

from service.rooms import Room

WAIT_MAX = 60.0  # s; what clients are told to wait at most: older SDKs do not wait longer, and newer ones give up


def tightest(rooms: Mapping[str, Room], kinds: Iterable[str]) -> Room | None:
    """Of the first kind that there is and what the account may use in all, that which is nearer to its end."""
    own = next((rooms[kind] for kind in kinds if kind in rooms), None)
    everything = next((rooms[f"all_{kind}"] for kind in kinds if f"all_{kind}" in rooms), None)
    found = [room for room in (own, everything) if room is not None]
    return min(found, key=lambda room: room.level, default=None)
