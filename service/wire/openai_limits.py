"""What a client of the OpenAI dialect is told of its limits: six headers of every answer, and refusals.

Names, durations and words after OpenAI's page on rate limits and recorded answers. Clients read the time to wait out of
the words.
"""

from collections.abc import Mapping
from math import inf

from service.errors import Contended, QuotaExceeded, RateLimited
from service.rooms import Room
from service.wire.limits import WAIT_MAX, tightest

_ORGANIZATION = "org-fastmode"
_PAGE = "Visit https://platform.openai.com/account/rate-limits to learn more."
_KINDS = {"requests": ("requests",), "tokens": ("tokens", "input_tokens")}  # of a header, by what may be told in it
_NAMES = {"requests": "requests per min (RPM)", "tokens": "tokens per min (TPM)"}


def headers(rooms: Mapping[str, Room], now: float, fast: bool) -> dict[str, str]:  # noqa: ARG001 - as in Anthropic's
    """`rooms` by kind, as service.wire.limits has it."""
    told = {}
    for name, kinds in _KINDS.items():
        room = tightest(rooms, kinds)
        if room is not None:
            told[f"x-ratelimit-limit-{name}"] = str(room.capacity)
            told[f"x-ratelimit-remaining-{name}"] = str(max(0, int(room.level)))
            told[f"x-ratelimit-reset-{name}"] = duration(max(0.0, room.full_in))
    return told


def refusal(kind: str, room: Room, model: str, fast: bool) -> RateLimited:  # noqa: ARG001 - as in Anthropic's
    """Of a request for which there is no room in a bucket of that kind."""
    name = "requests" if kind.endswith("requests") else "tokens"
    of, wait, needed = f"{model} in organization {_ORGANIZATION} on {_NAMES[name]}", room.enough_in, max(room.amount, 1)
    if wait == inf:
        less = "The input or output tokens must be reduced in order to run successfully."
        words = f"Request too large for {of}: Limit {room.capacity}, Requested {needed}. {less} {_PAGE}"
        error = RateLimited(words)
        error.should_retry = False
    else:
        used = room.capacity - max(0, int(room.level))
        again = f"Please try again in {_seconds(wait)}."
        words = f"Rate limit reached for {of}: Limit {room.capacity}, Used {used}, Requested {needed}. {again} {_PAGE}"
        error = RateLimited(words, retry_after=min(wait, WAIT_MAX))
    error.type = name
    return error


def crowded(parallel: int) -> Contended:
    return Contended(
        f"Rate limit reached: {parallel} requests at once. Please try again in 1s.", reason="parallel", retry_after=1
    )


def spent() -> QuotaExceeded:
    page = "https://platform.openai.com/docs/guides/error-codes/api-errors"
    advice = f"For more information on this error, read the docs: {page}."
    error = QuotaExceeded(f"You exceeded your current quota, please check your plan and billing details. {advice}")
    error.type = "insufficient_quota"
    return error


def duration(seconds: float) -> str:
    """As Go writes durations, but for fractions: 6m0s, 2s81ms, 6ms."""
    milliseconds = round(seconds * 1000)
    whole, milliseconds = divmod(milliseconds, 1000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    text = f"{hours}h" if hours else ""
    text += f"{minute}m" if minutes else ""
    text += f"{second}s" if whole else ""
    return text + (f"{milliseconds}ms" if milliseconds or not text else "")


def _seconds(wait: float) -> str:
    return f"{max(1, round(wait * 1000))}ms" if wait < 1 else f"{wait:.3f}".rstrip("0").rstrip(".") + "s"
