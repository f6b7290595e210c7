"""Faults that somebody asks for, in words: what they do to an answer, and the shares in which they are drawn.

    status=429; code=rate_limit_exceeded; retry_after=2     instead of an answer
    slow=3.5; stall=5@20; error=overloaded@40               in the course of one; seconds, and tokens after which

    status=N|overloaded     error[=N|overloaded][@TOKENS]   with code, type, message, retry_after (s), should_retry
    slow=SECONDS            the first token comes so much later
    stall=SECONDS[@TOKENS]  nothing comes for so long
    cut[@TOKENS]            the connection ends, and nothing says that the answer does
    corrupt[@TOKENS]        one event is not JSON

A number of a status is meant literally, `overloaded` is what a dialect calls it. Tokens are those of all choices
together, 1 if none are named; an answer that is shorter has its fault before its end.
Knows neither dialects nor transport; `service.course` does to a stream what is said here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import Literal

from service.errors import Injected, ServiceError, Unavailable

SECONDS_MAX = 3600.0
TOKENS_MAX = 10_000_000
_WORDS_MAX = 1000  # characters of one fault
_OPTIONS = ("code", "type", "message", "retry_after", "should_retry")
_KINDS = ("status", "error", "slow", "stall", "cut", "corrupt")

# What the real APIs say with a status, where nothing else is asked for: code and message.
_CUSTOMARY = {
    400: ("invalid_value", "The request is invalid."),
    401: ("invalid_api_key", "Incorrect API key provided."),
    402: ("billing_not_active", "Your account is not active, please check your billing details."),
    403: ("permission_denied", "You do not have access to this resource."),
    404: ("model_not_found", "The model does not exist or you do not have access to it."),
    408: ("request_timeout", "The request timed out."),
    409: ("conflict", "The request conflicts with another one. Please try again."),
    413: ("request_too_large", "Request exceeds the maximum size."),
    429: ("rate_limit_exceeded", "Rate limit reached for requests. Please try again in {retry_after:g}s."),
    500: ("server_error", "The server had an error while processing your request."),
    503: ("server_is_overloaded", "The engine is currently overloaded, please try again later."),
    504: ("timeout", "The request timed out. Please try again."),
    529: ("server_is_overloaded", "Overloaded"),
}
_QUOTA = "insufficient_quota"  # waiting does not help against it


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error to be told. `status` None: overloaded, in the words of the dialect."""

    status: int | None
    code: str | None = None
    type: str | None = None
    message: str | None = None
    retry_after: float | None = None
    should_retry: bool | None = None

    def error(self) -> ServiceError:
        """As an error that can be raised, with what the real APIs would add to it."""
        status = self.status or Unavailable.status
        customary = status if status in _CUSTOMARY else 400 if status < 500 else 500
        code, words = _CUSTOMARY[customary]
        wait = self.retry_after if self.retry_after is not None else 1.0 if status == 429 else None
        message = self.message or words.format(retry_after=wait or 0)
        if self.status is None:
            return Unavailable(message, code=self.code or code, reason="fault", retry_after=wait)
        error = Injected(status, message, code=self.code or code, reason="fault", retry_after=wait)
        error.type = self.type or (_QUOTA if self.code == _QUOTA else None)
        error.should_retry = self.should_retry
        if self.should_retry is None and status == 429:
            error.should_retry = self.code != _QUOTA
        return error


@dataclass(frozen=True, slots=True)
class Step:
    """What happens once `at` tokens have gone out. `seconds` are those of a wait, `refusal` is that of an error."""

    at: int
    does: Literal["wait", "cut", "error", "corrupt"]
    seconds: float = 0.0
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Either a refusal instead of an answer, or steps in the course of one, in order. `words` ask for it."""

    words: str
    refusal: Refusal | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Rates:
    """Which of a tier's requests meet which fault. Shares are probabilities; their sum is at most 1."""

    tier: str
    seed: int
    shares: tuple[tuple[Fault, float], ...]

    def draw(self, request: int) -> Fault | None:
        """Of the n-th request of the tier: the same for the same seed, whatever the others are."""
        drawn = Random(f"{self.seed}/{self.tier}/{request}").random()
        for fault, share in self.shares:
            drawn -= share
            if drawn < 0:
                return fault
        return None


def slowed(seconds: float) -> Step:
    """The first token comes so much later."""
    return Step(0, "wait", seconds)


def parse(words: str) -> Fault:
    """Raises ValueError, whose text says what is wrong with the words."""
    if len(words) > _WORDS_MAX:
        raise ValueError(f"a fault has at most {_WORDS_MAX} characters")
    parts = [_split(part) for part in words.split(";") if part.strip()]
    options = {name: value for name, value, _ in parts if name in _OPTIONS}
    named = [part for part in parts if part[0] not in _OPTIONS]
    if not named:
        raise ValueError(f"{words!r} names no fault; known are {', '.join(_KINDS)}")
    if options and not any(name in ("status", "error") for name, _, _ in named):
        raise ValueError(f"{next(iter(options))!r} belongs to a status or an error, and there is none")
    if any(name == "status" for name, _, _ in named):
        if len(named) > 1:
            raise ValueError("with a status there is no answer that anything else could happen to")
        _, value, at = named[0]
        if at is not None:
            raise ValueError("a status comes before all tokens; error@N comes after some")
        return Fault(words, refusal=_refusal(value, options))
    steps = [_step(name, value, at, options) for name, value, at in named]
    if sum(step.does in ("cut", "error") for step in steps) > 1:
        raise ValueError("an answer can be cut, or end with an error, once")
    return Fault(words, steps=ordered(steps))


def ordered(steps: Iterable[Step]) -> tuple[Step, ...]:
    """By when they happen; of those that happen at once, waits come first and ends last."""
    return tuple(sorted(steps, key=lambda step: (step.at, ("wait", "corrupt", "cut", "error").index(step.does))))


def _split(part: str) -> tuple[str, str | None, int | None]:
    """name[=value][@tokens]; the value of a message may contain anything but a semicolon."""
    name, equals, value = (text.strip() for text in part.partition("="))
    if name in _OPTIONS:
        if not value:
            raise ValueError(f"{name!r} has no value")
        return name, value, None
    rest, at_sign, tokens = (value if equals else name).partition("@")
    name = name if equals else rest.strip()
    if name not in _KINDS:
        raise ValueError(f"{name!r} is no fault; known are {', '.join(_KINDS)}, and the options {', '.join(_OPTIONS)}")
    at = None
    if at_sign:
        if not tokens.strip().isdecimal() or int(tokens) > TOKENS_MAX:
            raise ValueError(f"{part.strip()!r}: behind @ belongs a number of tokens")
        at = int(tokens)
    return name, rest.strip() if equals else None, at


def _step(name: str, value: str | None, at: int | None, options: dict[str, str | None]) -> Step:
    match name:
        case "slow" if at is None:
            return slowed(_seconds(name, value))
        case "slow":
            raise ValueError("what is slow is the first token; stall=SECONDS@N comes after others")
        case "stall":
            return Step(1 if at is None else at, "wait", _seconds(name, value))
        case "error":
            return Step(1 if at is None else at, "error", refusal=_refusal(value or "500", options))
    if value is not None:
        raise ValueError(f"{name!r} takes no value, but @N: after how many tokens")
    return Step(1 if at is None else at, "cut" if name == "cut" else "corrupt")


def _seconds(name: str, text: str | None) -> float:
    try:
        seconds = float(text or "")
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{name}={text or ''}: it must be a number of seconds, at most {SECONDS_MAX:g}")
    return seconds


def _refusal(text: str | None, options: dict[str, str | None]) -> Refusal:
    if text == "overloaded":
        status = None
    elif text is not None and text.isdecimal() and 400 <= int(text) <= 599:
        status = int(text)
    else:
        raise ValueError(f"{text or ''!r} is no status of an error: a number from 400 to 599, or overloaded")
    wait = options.get("retry_after")
    retry = options.get("should_retry")
    if retry not in (None, "true", "false"):
        raise ValueError(f"should_retry={retry}: it must be true or false")
    return Refusal(
        status,
        code=options.get("code"),
        type=options.get("type"),
        message=options.get("message"),
        retry_after=None if wait is None else _seconds("retry_after", wait),
        should_retry=None if retry is None else retry == "true",
    )
