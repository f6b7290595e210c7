"""Strings of the formats that JSON Schema names (draft 2020-12 validation, section 7.3)."""

from collections.abc import Callable

from workers.content.draws import Draws
from workers.content.plausible import day

_HOSTS = ("example.com", "api.example.org", "example.net")
_PEOPLE = ("alice", "jonas", "priya", "tom")


def formatted(name: str, draws: Draws) -> str | None:
    """None: no format of that name is known, so any string will do."""
    make = _FORMATS.get(name)
    return make(draws) if make else None


def _time(draws: Draws) -> str:
    return f"{draws.below(24):02}:{draws.below(60):02}:00Z"


def _uuid(draws: Draws) -> str:
    digits = "".join(f"{draws.below(16):x}" for _ in range(30))
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-a{digits[15:18]}-{digits[18:30]}"


def _uri(draws: Draws) -> str:
    return f"https://{draws.one(_HOSTS)}/{draws.one(('docs', 'items', 'status'))}/{draws.between(1, 99)}"


def _email(draws: Draws) -> str:
    return f"{draws.one(_PEOPLE)}@{draws.one(_HOSTS)}"


def _base64(draws: Draws) -> str:
    return "".join(draws.one("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") for _ in range(12))


_FORMATS: dict[str, Callable[[Draws], str]] = {
    "date-time": lambda draws: f"{day(draws).isoformat()}T{_time(draws)}",
    "date": lambda draws: day(draws).isoformat(),
    "time": _time,
    "duration": lambda draws: f"PT{draws.between(5, 90)}M",
    "email": _email,
    "idn-email": _email,
    "hostname": lambda draws: draws.one(_HOSTS),
    "idn-hostname": lambda draws: draws.one(_HOSTS),
    "ipv4": lambda draws: f"192.0.2.{draws.between(1, 254)}",
    "ipv6": lambda draws: f"2001:db8::{draws.between(1, 9999):x}",
    "uri": _uri,
    "url": _uri,
    "iri": _uri,
    "uri-reference": lambda draws: f"/items/{draws.between(1, 99)}",
    "iri-reference": lambda draws: f"/items/{draws.between(1, 99)}",
    "uri-template": lambda draws: f"https://{draws.one(_HOSTS)}/items/{{id}}",
    "uuid": _uuid,
    "json-pointer": lambda draws: f"/items/{draws.below(9)}",
    "relative-json-pointer": lambda draws: f"{draws.below(3)}/items",
    "regex": lambda draws: draws.one(("^[a-z]+$", "[0-9]{4}", "^v.*")),
    "byte": _base64,
}
