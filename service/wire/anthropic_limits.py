"""What a client of the Anthropic dialect is told of its limits: headers of every answer, and refusals.

Names and words after Anthropic's page on rate limits, its pages on fast mode, and refusals that clients have recorded.
Tokens that remain are told in thousands; a reset is when a limit is full again.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf

from service.errors import Contended, QuotaExceeded, RateLimited
from service.rooms import Room
from service.wire.anthropic_errors import ORGANIZATION
from service.wire.limits import WAIT_MAX, tightest

_REFER = "For details, refer to: https://docs.claude.com/en/api/rate-limits."
_ADVICE = (
    "You can see the response headers for current usage. Please reduce the prompt length or the maximum tokens "
    "requested, or try again later."
)
_NAMES = {
    "requests": "requests per minute",
    "tokens": "tokens per minute",
    "input_tokens": "input tokens per minute",
    "output_tokens": "output tokens per minute",
}


def headers(rooms: Mapping[str, Room], now: float, fast: bool) -> dict[str, str]:
    """`rooms` by kind, as service.wire.limits has it; `now` in Unix seconds."""
    standard = "standard_" if fast else ""
    of_input, of_output = (
        tightest(rooms, (f"{standard}{kind}", "tokens")) for kind in ("input_tokens", "output_tokens")
    )
    both = min((room for room in (of_input, of_output) if room is not None), key=lambda room: room.level, default=None)
    told: dict[str, str] = {}
    named = {"requests": tightest(rooms, ("requests",)), "tokens": both, "input-tokens": of_input}
    for name, room in {**named, "output-tokens": of_output}.items():
        if room is not None:
            told |= _three(f"anthropic-ratelimit-{name}", room, now, thousands=name != "requests")
    for kind in ("input_tokens", "output_tokens") if fast else ():
        if kind in rooms:
            told |= _three(f"anthropic-fast-{kind.replace('_', '-')}", rooms[kind], now, thousands=True)
    return told


def refusal(kind: str, room: Room, model: str, fast: bool) -> RateLimited:
    """Of a request for which there is no room in a bucket of that kind."""
    of, kind = f"{room.capacity:,}", kind.removeprefix("all_")
    if fast and kind != "requests":
        whose = f"(org: {ORGANIZATION}, model: {model})"
        words = f"This request would exceed your rate limit of {of} fast mode {_NAMES[kind]} {whose}. {_REFER}"
    else:
        whose = f"the rate limit for your organization ({ORGANIZATION})"
        words = f"This request would exceed {whose} of {of} {_NAMES[kind]}. {_REFER} {_ADVICE}"
    wait = room.enough_in
    error = RateLimited(words, retry_after=min(wait, WAIT_MAX) if wait < inf else None)
    error.should_retry = None if wait < inf else False
    return error


def crowded(parallel: int) -> Contended:
    return Contended(
        f"Number of concurrent connections has exceeded your rate limit of {parallel}. Please try again later.",
        reason="parallel",
        retry_after=1,
    )


def spent() -> QuotaExceeded:
    return QuotaExceeded(
        "This request would exceed your organization's spend limit. An organization admin can raise it.",
        code="enforced_spend_limit_reached",
    )


def _three(name: str, room: Room, now: float, *, thousands: bool) -> dict[str, str]:
    left = max(0.0, room.level)
    full = datetime.fromtimestamp(now + max(0.0, room.full_in), UTC)
    return {
        f"{name}-limit": str(room.capacity),
        f"{name}-remaining": str(round(left / 1000) * 1000 if thousands else int(left)),
        f"{name}-reset": full.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
