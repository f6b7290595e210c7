"""One frozen settings value, read once from the environment at start: what a process needs to know but the catalog.

Variables are the field names in upper case behind `FASTMODE_`; the one exception is `REDIS_URL`, which has its
customary name. An unknown `FASTMODE_` variable or an impossible value is an error: a typo must not pass silently.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from service.errors import FastmodeError
from service.hosts import loopback

JOURNAL_MAX = 100_000
_WORDS = {"auth": ("auto", "required", "open"), "admin_from": ("loopback", "anywhere")}
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/,\s]+")
_MAY_BE_ZERO = {"drain_delay", "grace", "flush_every"}
BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class SettingsError(FastmodeError):
    """A variable is unknown or has an impossible value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All durations are in seconds, all sizes in bytes."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    host: str = "127.0.0.1"
    port: int = 8000
    reuse_port: bool = False  # several gateway processes listen on one port, and the kernel spreads connections
    catalog: Path | None = None  # None: the catalog that ships with the package
    profile: str = "2026-11"  # what the real APIs are like, and sell, at which date
    metrics_dir: Path | None = None  # shared by all processes of a host, so that one /metrics speaks for all
    metrics_port: int = 0  # a worker's own /metrics; 0: none
    log_level: str = "warning"

    auth: str = (
        "auto"  # who needs a key: "auto" (everybody once there is one, other machines always), "required", "open"
    )
    admin_key: str = ""  # what makes and lists keys; without it, only this machine may
    admin_from: str = "loopback"  # where that may be asked from: "loopback", or "anywhere" with the admin key

    plan: str = "open"  # what those may use in a minute whose keys have no plan: one of the catalog's

    ledger: Path | None = None  # SQLite file of what each request cost; None: that is not kept

    strict_fields: bool = True  # unknown fields are refused where OpenAI's API refuses them
    cors_origins: str = "loopback"  # whose web pages may ask: "loopback", "*", "" (nobody), or origins with commas

    rules: Path | None = None  # of what is answered to whom, and of the rates of faults
    faults: bool = True  # a request may ask for a fault of its own, in a header
    debug_headers: bool = False  # every answer says how it was served
    journal: int = 0  # requests a gateway remembers, and shows to clients on its machine; 0: no routes for that

    body_max: int = 32 * 1024 * 1024
    bodies_max: int = 128 * 1024 * 1024  # bodies one gateway holds at once, from their first byte until they are queued
    queue_bytes_max: int = 1024 * 1024 * 1024  # bodies of one pool in Redis, queued and running
    socket_age_max: float = 3600.0  # a WebSocket that is older has to be opened anew
    stored_ttl: float = 3600.0  # a response can be looked up for so long
    stored_bytes_max: int = 256 * 1024 * 1024  # all responses that are kept; the oldest go first
    mailbox_max: int = 256 * 1024  # undelivered text of one request; beyond: its stream fails
    mailbox_pause: int = 8 * 1024  # undelivered text at which its sequence is paused; it goes on when that is read
    stall_max: float = 30.0  # a client that does not read for this long is gone
    keepalive_every: float = 10.0  # an SSE comment while a stream waits for its first token
    event_wait_max: float = 60.0  # a started job silent for this long is lost
    redis_timeout: float = 1.0  # one Redis command; so long does a request wait to hear that there is no Redis
    reply_ttl: float = 10.0  # a gateway not heard of for this long is dead, and so are its jobs
    drain_delay: float = 0.0  # between "not ready" and "not accepting", for load balancers to notice
    grace: float = 30.0  # SIGTERM: streams may finish for this long

    lease: float = 5.0  # a worker not heard of for this long has lost its jobs
    attempts_max: int = 3  # claims of one job before it is set aside as one that kills its workers
    flush_every: float = 0.010  # coalescing of tokens that are neither a first nor a last
    lateness_max: float = 0.250  # mean lateness of events at which the emulator admits that it cannot keep up

    @property
    def keys_wanted(self) -> bool:
        """Whether a key is wanted even while there is none."""
        return self.auth == "required" or (self.auth == "auto" and not loopback(self.host))

    def __post_init__(self) -> None:
        if not _names_a_server(self.redis_url):
            raise SettingsError(
                f"REDIS_URL is {self.redis_url!r}; it must look like redis://HOST:PORT/0, rediss://... or unix:///PATH"
            )
        for name in _durations():
            value, least = getattr(self, name), "zero or more" if name in _MAY_BE_ZERO else "more than zero"
            if not (isfinite(value) and value >= 0 and (value > 0 or name in _MAY_BE_ZERO)):
                raise SettingsError(f"{_variable(name)} is {value}; it must be a number of seconds, {least}")
        for name in ("body_max", "queue_bytes_max", "stored_bytes_max", "attempts_max"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{_variable(name)} is {getattr(self, name)}; it must be at least 1")
        if self.log_level.lower() not in LOG_LEVELS:
            raise SettingsError(f"FASTMODE_LOG_LEVEL is {self.log_level!r}; it must be one of {', '.join(LOG_LEVELS)}")
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                said = getattr(self, name)
                raise SettingsError(f"{_variable(name)} is {said!r}; it must be one of {', '.join(words)}")
        if not 0 <= self.journal <= JOURNAL_MAX:
            raise SettingsError(f"FASTMODE_JOURNAL is {self.journal}; it must lie between 0 and {JOURNAL_MAX}")
        for name in ("port", "metrics_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise SettingsError(f"{_variable(name)} is {getattr(self, name)}; a port lies between 0 and 65535")
        if not 0 < self.mailbox_pause <= self.mailbox_max:
            raise SettingsError("FASTMODE_MAILBOX_PAUSE must be positive and at most FASTMODE_MAILBOX_MAX")
        if self.bodies_max < self.body_max:
            raise SettingsError("FASTMODE_BODIES_MAX must be at least FASTMODE_BODY_MAX: the largest body has to fit")
        for origin in self.cors_origins.split(",") if self.cors_origins not in ("", "*", "loopback") else ():
            if not _ORIGIN.fullmatch(origin):
                raise SettingsError(
                    f"FASTMODE_CORS_ORIGINS names {origin!r}; an origin looks like https://example.com or "
                    "http://localhost:3000, several are separated by commas"
                )
        if self.lease < 0.1:
            raise SettingsError("FASTMODE_LEASE below 0.1 s would lose jobs to scheduling noise")


def read(environ: Mapping[str, str]) -> Settings:
    """Settings from environment variables.

    Raises SettingsError for an unknown variable behind `FASTMODE_` or a value that does not parse.
    """
    known = {_variable(field.name): field for field in fields(Settings)}
    unknown = [name for name in environ if name.startswith("FASTMODE_") and name not in known]
    if unknown:
        raise SettingsError(f"unknown variable {unknown[0]}; known are: {', '.join(sorted(known))}")
    given = {known[name].name: _parse(name, known[name].name, text) for name, text in environ.items() if name in known}
    return Settings(**given)


def _variable(name: str) -> str:
    return "REDIS_URL" if name == "redis_url" else f"FASTMODE_{name.upper()}"


def _parse(variable: str, name: str, text: str) -> Any:
    default = getattr(Settings(), name)
    if name in ("catalog", "metrics_dir", "rules", "ledger"):
        return Path(text) if text else None
    if isinstance(default, bool):
        if text.lower() not in BOOLEANS:
            raise SettingsError(f"{variable} is {text!r}; it must be one of {', '.join(BOOLEANS)}")
        return BOOLEANS[text.lower()]
    try:
        return type(default)(text)
    except ValueError:
        raise SettingsError(f"{variable} is {text!r}; it must be a {type(default).__name__}") from None


def _names_a_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed, and refused if it is no number, when asked for
    except ValueError:
        return False
    return bool(parts.path if parts.scheme == "unix" else parts.hostname and parts.scheme in ("redis", "rediss"))


def _durations() -> list[str]:
    return [field.name for field in fields(Settings) if field.type in (float, "float")]
