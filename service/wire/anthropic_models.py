"""The model objects of the Anthropic dialect, and pages of them. Fields after the types of Anthropic's Python SDK."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from service.errors import ModelNotFound
from service.profiles import AnthropicRules
from service.tiers import ServedModel
from service.wire.anthropic_errors import invalid

_LIMIT, _LIMIT_MAX = 20, 1000
_LINES = ("haiku", "sonnet", "opus", "fable", "mythos")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_STAGES = ("active", "deprecated", "retired")


def model(served: ServedModel, rules: AnthropicRules) -> dict[str, Any]:
    """One model. All that are served are active: what is retired is not found."""
    return {
        "type": "model",
        "id": served.id,
        "display_name": _shown(served.id),
        "created_at": datetime.fromtimestamp(served.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": next((line for line in _LINES if line in served.id.split("-")), None),
        "max_input_tokens": served.context_window,
        "max_tokens": served.max_output,
        "capabilities": _capabilities(served, rules),
    }


def listing(models: Sequence[dict[str, Any]], query: Mapping[str, str], stages: Sequence[str] = ()) -> dict[str, Any]:
    """A page of the models, the newest first: `query` may have limit, and after_id or before_id.

    `stages`: only models in one of these stages of their lives. Raises InvalidRequest.
    """
    for stage in stages:
        if stage not in _STAGES:
            raise invalid("lifecycle: Input should be 'active', 'deprecated' or 'retired'")
    kept = [each for each in models if not stages or each["lifecycle"] in stages]
    kept.sort(key=lambda each: each["created_at"], reverse=True)
    limit = _limit(query.get("limit"))
    if "before_id" in query:
        before = kept[: _place(kept, query["before_id"], "before_id")]
        page, more = before[-limit:], len(before) > limit
    else:
        after = kept[_place(kept, query["after_id"], "after_id") + 1 :] if "after_id" in query else kept
        page, more = after[:limit], len(after) > limit
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"data": page, "has_more": more, **ends}


def unknown(name: str) -> ModelNotFound:
    return ModelNotFound(f"model: {name[:100]}", param="model")


def _limit(given: str | None) -> int:
    if given is None:
        return _LIMIT
    if not given.isascii() or not given.isdigit():
        raise invalid("limit: Input should be a valid integer, unable to parse string as an integer")
    limit = int(given[:9])
    if limit < 1:
        raise invalid("limit: Input should be greater than or equal to 1")
    if limit > _LIMIT_MAX:
        raise invalid(f"limit: Input should be less than or equal to {_LIMIT_MAX}")
    return limit


def _place(models: Sequence[dict[str, Any]], name: str, param: str) -> int:
    for place, each in enumerate(models):
        if each["id"] == name:
            return place
    raise invalid(f"{param}: no model has the id '{name[:100]}'")


def _shown(name: str) -> str:
    """claude-opus-5-5 -> Claude Opus 5.5; what is no such name is shown as it is."""
    words = name.split("-")
    if words[0] != "claude":
        return name
    numbers = ".".join(word for word in words if word.isdigit() and len(word) < 3)
    return " ".join(filter(None, [*(word.capitalize() for word in words if not word.isdigit()), numbers]))


def _capabilities(served: ServedModel, rules: AnthropicRules) -> dict[str, Any]:
    sees = "image" in served.modalities
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    return {
        "batch": _supported(False),
        "citations": _supported(False),
        "code_execution": _supported(False),
        "context_management": _supported(False),
        "effort": {**_supported(True), **{effort: _supported(True) for effort in _EFFORTS}},
        "image_input": _supported(sees),
        "pdf_input": _supported(sees),
        "server_tools": {**_supported(False), "code_execution": _supported(False), "web_search": _supported(False)},
        "structured_outputs": _supported(True),
        "thinking": {
            **_supported(bool(rules.thinking & {"adaptive", "enabled"})),
            "types": {kind: _supported(kind in rules.thinking) for kind in kinds},
        },
    }


def _supported(supported: bool) -> dict[str, bool]:
    return {"supported": supported}
