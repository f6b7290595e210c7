"""The OpenAPI document: what every route takes and gives, for tools that read such documents.

Requests are described by the models that they are checked with, so that the two cannot differ; what a field means for
another is said by errors, and not here. Served at /openapi.json.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from gateway import openapi_answers as answers
from gateway.dialects import JSON
from gateway.openapi_answers import Schema
from service.embeddings import EMBEDDERS
from service.profiles import Profile
from service.wire.anthropic_messages import CountRequest, MessagesRequest
from service.wire.openai_chat import ChatRequest
from service.wire.openai_completions import CompletionRequest
from service.wire.openai_embeddings import EmbeddingRequest
from service.wire.openai_responses import CompactRequest, ResponsesRequest
from service.wire.openai_responses import CountRequest as InputTokensRequest

JSONSchema = Callable[..., dict[str, Any]]  # of the model that a request body is checked with


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`takes` is the body; `gives` the answer, `text` if it is none of JSON; `streams`: as events, if it is asked to.

    `query` are parameters by their names. `always` is what the body needs beyond what its model says, and `example` a
    body, but for its model.
    """

    takes: JSONSchema | None = None
    gives: Schema | None = None
    text: bool = False
    streams: bool = False
    fails: Schema = field(default_factory=lambda: _OPENAI_FAILS)
    anthropic: bool = False
    query: Mapping[str, Schema] | None = None
    always: Mapping[str, Schema] | None = None
    example: Mapping[str, Any] | None = None


_OPENAI_FAILS: Schema = {"$ref": "#/components/schemas/OpenAIError"}
_ANTHROPIC_FAILS: Schema = {"$ref": "#/components/schemas/AnthropicError"}
_EITHER_FAILS = answers.either(_OPENAI_FAILS, _ANTHROPIC_FAILS)
_NUMBER: Schema = {"type": "string", "pattern": "^[0-9]{1,12}$"}
_TEXTS: Schema = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": 2048},
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 199_999}, "minItems": 1},
    ]
}
_INPUT: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}
_HELLO = [{"role": "user", "content": "Hello"}]
_PAGE = {"limit": {"type": "integer", "minimum": 1, "maximum": 1000}}

OPERATIONS = {
    "POST /v1/chat/completions": Operation(
        takes=ChatRequest.model_json_schema,
        gives=answers.CHAT_COMPLETION,
        streams=True,
        example={"messages": _HELLO, "service_tier": "priority", "max_tokens": 20},
    ),
    "POST /v1/completions": Operation(
        takes=CompletionRequest.model_json_schema,
        gives=answers.COMPLETION,
        streams=True,
        always={"prompt": _TEXTS},
        example={"prompt": "Once upon a time", "max_tokens": 20},
    ),
    "POST /v1/embeddings": Operation(
        takes=EmbeddingRequest.model_json_schema,
        gives=answers.EMBEDDINGS,
        always={"input": _TEXTS},
        example={"input": "Hello"},
    ),
    "POST /v1/responses": Operation(
        takes=ResponsesRequest.model_json_schema,
        gives=answers.RESPONSE,
        streams=True,
        always={"input": _INPUT},
        example={"input": "Hello", "service_tier": "priority", "max_output_tokens": 20},
    ),
    "POST /v1/responses/input_tokens": Operation(
        takes=InputTokensRequest.model_json_schema,
        gives=answers.INPUT_TOKENS,
        always={"input": _INPUT},
        example={"input": "Hello"},
    ),
    "POST /v1/responses/compact": Operation(
        takes=CompactRequest.model_json_schema,
        gives=answers.COMPACTED,
        always={"input": _INPUT},
        example={"input": "Hello"},
    ),
    "GET /v1/responses/{name}": Operation(
        gives=answers.RESPONSE, streams=True, query={"stream": answers.YES_NO, "starting_after": answers.WHOLE}
    ),
    "GET /v1/responses/{name}/input_items": Operation(gives=answers.INPUT_ITEMS),
    "DELETE /v1/responses/{name}": Operation(gives=answers.DELETED),
    "POST /v1/responses/{name}/cancel": Operation(gives=answers.RESPONSE),
    "POST /v1/messages": Operation(
        takes=MessagesRequest.model_json_schema,
        gives=answers.MESSAGE,
        streams=True,
        fails=_ANTHROPIC_FAILS,
        anthropic=True,
        example={"messages": _HELLO, "max_tokens": 20},
    ),
    "POST /v1/messages/count_tokens": Operation(
        takes=CountRequest.model_json_schema,
        gives=answers.COUNTED,
        fails=_ANTHROPIC_FAILS,
        anthropic=True,
        example={"messages": _HELLO},
    ),
    "GET /api/hello": Operation(gives=answers.THING),
    "GET /v1/models": Operation(gives=answers.MODELS, fails=_EITHER_FAILS, query=_PAGE),
    "GET /v1/models/{name}": Operation(gives=answers.MODEL, fails=_EITHER_FAILS),
    "GET /v1/tiers": Operation(gives=answers.LISTING),
    "GET /v1/tiers/{tier}": Operation(
        gives=answers.THING, query={"model": answers.TEXT, "context": _NUMBER, "output": _NUMBER}
    ),
    "GET /v1/prices": Operation(gives=answers.THING),
    "GET /v1/usage": Operation(
        gives=answers.THING,
        query={
            "group_by": {"type": "string", "enum": ["account", "model", "tier", "day", "model,day"]},
            "since": {"type": "string", "format": "date"},
        },
    ),
    "GET /livez": Operation(gives=answers.THING),
    "GET /readyz": Operation(gives=answers.THING, fails=answers.THING),
    "GET /metrics": Operation(text=True),
}


class Described(FastAPI):
    """An application that knows what its routes are for, and for which models."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(title="fastmode", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self._profile = profile
        self._told: dict[str, Any] | None = None

        @self.get("/openapi.json", include_in_schema=False)
        async def described() -> JSON:
            return JSON(await asyncio.to_thread(self.openapi))  # making it takes as long as many tokens

    def openapi(self) -> dict[str, Any]:
        """Made once, when it is first asked for."""
        if self._told is None:
            found = super().openapi()["paths"]  # the framework knows its routes, but not what they read and write
            routes = {f"{method.upper()} {path}" for path, methods in found.items() for method in methods}
            self._told = _document(self._profile, routes)
        return self._told


def _document(profile: Profile, routes: set[str]) -> dict[str, Any]:
    components: dict[str, Schema] = {
        "OpenAIError": answers.OPENAI_ERROR,
        "AnthropicError": answers.ANTHROPIC_ERROR,
    }
    paths: dict[str, Any] = {}
    for name in sorted(routes):
        method, _, path = name.partition(" ")
        paths.setdefault(path, {})[method.lower()] = _described(name, path, OPERATIONS[name], profile, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fastmode", "version": version("fastmode")},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(
    name: str, path: str, operation: Operation, profile: Profile, components: dict[str, Schema]
) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": name, "responses": _responses(operation)}
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": answers.TEXT}
        for part in path.split("/")
        if part.startswith("{")
    ]
    parameters += [
        {"name": each, "in": "query", "required": False, "schema": schema}
        for each, schema in (operation.query or {}).items()
    ]
    if operation.anthropic:
        versions = answers.said(*profile.anthropic_versions)
        parameters.append({"name": "anthropic-version", "in": "header", "required": True, "schema": versions})
    if parameters:
        described["parameters"] = parameters
    if operation.takes is not None:
        example = {"model": _models(profile, operation)[0], **(operation.example or {})}
        content = {"schema": _body(name, operation, profile, components), "example": example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _responses(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.gives is not None:
        content["application/json"] = {"schema": operation.gives}
    if operation.streams:
        content["text/event-stream"] = {"schema": answers.EVENT}
    if operation.text:
        content["text/plain"] = {"schema": answers.TEXT}
    failed = {"application/json": {"schema": operation.fails}}
    return {
        "200": {"description": "The answer", "content": content},
        "4XX": {"description": "What is wrong with the request", "content": failed},
        "5XX": {"description": "What keeps the service from answering", "content": failed},
    }


def _body(name: str, operation: Operation, profile: Profile, components: dict[str, Schema]) -> Schema:
    """A reference to what the body is checked with, which is put among the components."""
    assert operation.takes is not None
    prefix = name.partition(" /v1/")[2].replace("/", ".")
    schema = operation.takes(ref_template=f"#/components/schemas/{prefix}.{{model}}")
    components.update({f"{prefix}.{each}": part for each, part in schema.pop("$defs", {}).items()})
    schema["properties"]["model"] = answers.said(*_models(profile, operation))
    schema["properties"].update(operation.always or {})
    schema["required"] = sorted({*schema.get("required", ()), *(operation.always or ())})
    whole = f"{prefix}.{schema['title']}"
    components[whole] = schema
    return {"$ref": f"#/components/schemas/{whole}"}


def _models(profile: Profile, operation: Operation) -> list[str]:
    if operation.gives is answers.EMBEDDINGS:
        return list(EMBEDDERS)
    return [*profile.catalog.models, *profile.catalog.aliases]
