"""API versions and the two ways to carry a key."""

from typing import Any

from features import feature
from features.anthropic_door import HELLO, Door
from features.plain_http import Answer, post

OLDER = "claude-opus-4-6"  # takes sampling parameters
FIRST, SECOND = "2023-06-01", "2026-10-21"


def _post(door: Door, version: str | None, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    body = {"model": OLDER, "messages": HELLO, "max_tokens": 9, **fields}
    versioned = {} if version is None else {"anthropic_version": version}
    return post(door.url, "/v1/messages", body, **versioned, **(headers or {}))


@feature
def both_versions_are_served(door: Door) -> None:
    """Both API versions are served, with either header for the key"""
    for version in (FIRST, SECOND):
        for key in ({"x_api_key": "k"}, {"authorization": "Bearer k"}):
            assert _post(door, version, key).status == 200


@feature
def the_version_is_required_and_known(door: Door) -> None:
    """A missing or unknown version is 400 invalid_request_error"""
    for version in (None, "2020-01-01"):
        answer = _post(door, version)
        assert answer.status == 400
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert "anthropic-version" in answer.json["error"]["message"]


@feature
def sampling_belongs_to_the_first_version(door: Door) -> None:
    """temperature, top_p and top_k are taken under 2023-06-01, and 400 under 2026-10-21"""
    for name, value in (("temperature", 1), ("top_p", 0.9), ("top_k", 40)):
        asked: dict[str, Any] = {name: value}
        assert _post(door, FIRST, **asked).status == 200
        refused = _post(door, SECOND, **asked)
        assert refused.status == 400
        assert name in refused.json["error"]["message"]


@feature
def unknown_betas_are_no_matter(door: Door) -> None:
    """Unknown betas, their fields, and an agent's own headers and query are no matter"""
    headers = {"anthropic_beta": "claude-code-20250219,something-new-2026-11-11", "x_claude_code_session_id": "s"}
    body = {"model": OLDER, "messages": HELLO, "max_tokens": 9, "context_management": {"edits": []}}
    assert post(door.url, "/v1/messages?beta=true", body, anthropic_version=FIRST, **headers).status == 200
