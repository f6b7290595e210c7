"""What answers look like, as JSON Schemas: the fields that clients may rely on, each of them always there.

After the vendors' API references. Objects may have further fields; those that are listed are required.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
YES_NO: Schema = {"type": "boolean"}
THING: Schema = {"type": "object"}


def thing(**fields: Schema) -> Schema:
    """An object of these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def each(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def said(*words: str) -> Schema:
    """One of these words."""
    return {"enum": list(words)}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def with_optional(schema: Schema, **fields: Schema) -> Schema:
    """Fields that are not always there."""
    return {**schema, "properties": {**schema["properties"], **fields}}


EVENT = with_optional(thing(data=TEXT), event=TEXT)  # of a stream, as OpenAPI describes server-sent events

# --------------------------------------------------------------------------------------------------------------- errors

OPENAI_ERROR = thing(error=thing(message=TEXT, type=TEXT, param=maybe(TEXT), code=maybe(TEXT)))
ANTHROPIC_ERROR = thing(type=said("error"), error=thing(type=TEXT, message=TEXT), request_id=TEXT)

# ------------------------------------------------------------------------------------------------- OpenAI's completions

_PROMPT_DETAILS = thing(cached_tokens=WHOLE, audio_tokens=WHOLE)
_COMPLETION_DETAILS = thing(
    reasoning_tokens=WHOLE, audio_tokens=WHOLE, accepted_prediction_tokens=WHOLE, rejected_prediction_tokens=WHOLE
)
_USAGE = thing(
    prompt_tokens=WHOLE,
    completion_tokens=WHOLE,
    total_tokens=WHOLE,
    prompt_tokens_details=_PROMPT_DETAILS,
    completion_tokens_details=_COMPLETION_DETAILS,
)
_FUNCTION_CALL = thing(name=TEXT, arguments=TEXT)
_CALL = either(
    thing(id=TEXT, type=said("function"), function=_FUNCTION_CALL),
    thing(id=TEXT, type=said("custom"), custom=thing(name=TEXT, input=TEXT)),
)
_MESSAGE = with_optional(
    thing(role=said("assistant"), content=maybe(TEXT), refusal=maybe(TEXT), annotations=each(THING)),
    tool_calls=each(_CALL),
    function_call=_FUNCTION_CALL,
)
_CHOICE = thing(
    index=WHOLE,
    message=_MESSAGE,
    logprobs=maybe(thing(content=each(THING), refusal={"type": "null"})),
    finish_reason=said("stop", "length", "tool_calls", "content_filter", "function_call"),
)
CHAT_COMPLETION = thing(
    id=TEXT,
    object=said("chat.completion"),
    created=WHOLE,
    model=TEXT,
    service_tier=TEXT,
    system_fingerprint=TEXT,
    choices=each(_CHOICE),
    usage=_USAGE,
)
COMPLETION = thing(
    id=TEXT,
    object=said("text_completion"),
    created=WHOLE,
    model=TEXT,
    system_fingerprint=TEXT,
    choices=each(
        thing(
            index=WHOLE,
            text=TEXT,
            logprobs=maybe(thing(tokens=each(TEXT), token_logprobs=each(maybe({"type": "number"})))),
            finish_reason=said("stop", "length", "content_filter"),
        )
    ),
    usage=_USAGE,
)

# ------------------------------------------------------------------------------------------------ OpenAI's other routes

EMBEDDINGS = thing(
    object=said("list"),
    data=each(thing(object=said("embedding"), index=WHOLE, embedding=either(TEXT, each({"type": "number"})))),
    model=TEXT,
    usage=thing(prompt_tokens=WHOLE, total_tokens=WHOLE),
)
_RESPONSE_USAGE = thing(
    input_tokens=WHOLE,
    input_tokens_details=thing(cached_tokens=WHOLE),
    output_tokens=WHOLE,
    output_tokens_details=thing(reasoning_tokens=WHOLE),
    total_tokens=WHOLE,
)
RESPONSE = thing(
    id=TEXT,
    object=said("response"),
    created_at=WHOLE,
    status=said("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
    error=maybe(thing(code=TEXT, message=TEXT)),
    incomplete_details=maybe(thing(reason=TEXT)),
    model=TEXT,
    output=each(with_optional(thing(type=TEXT), id=TEXT, status=TEXT)),
    previous_response_id=maybe(TEXT),
    service_tier=maybe(TEXT),
    usage=maybe(_RESPONSE_USAGE),
)
INPUT_TOKENS = thing(object=said("response.input_tokens"), input_tokens=WHOLE)
INPUT_ITEMS = thing(object=said("list"), data=each(THING), first_id=maybe(TEXT), last_id=maybe(TEXT), has_more=YES_NO)
COMPACTED = thing(
    id=TEXT, object=said("response.compaction"), created_at=WHOLE, output=each(THING), usage=_RESPONSE_USAGE
)
DELETED = thing(id=TEXT, object=TEXT, deleted=YES_NO)
_OPENAI_MODEL = thing(id=TEXT, object=said("model"), created=WHOLE, owned_by=TEXT)
LISTING = thing(object=said("list"), data=each(THING))

# ---------------------------------------------------------------------------------------------------------- Anthropic's

_CACHED = thing(ephemeral_5m_input_tokens=WHOLE, ephemeral_1h_input_tokens=WHOLE)
_ANTHROPIC_USAGE = with_optional(
    thing(
        input_tokens=WHOLE,
        cache_creation_input_tokens=WHOLE,
        cache_read_input_tokens=WHOLE,
        cache_creation=_CACHED,
        output_tokens=WHOLE,
        service_tier=said("standard", "priority", "batch"),
        inference_geo=TEXT,
    ),
    speed=said("standard", "fast"),
)
_BLOCK = either(
    thing(type=said("text"), text=TEXT),
    thing(type=said("thinking"), thinking=TEXT, signature=TEXT),
    thing(type=said("tool_use"), id=TEXT, name=TEXT, input=THING),
)
MESSAGE = thing(
    id=TEXT,
    type=said("message"),
    role=said("assistant"),
    model=TEXT,
    content=each(_BLOCK),
    stop_reason=said("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"),
    stop_sequence=maybe(TEXT),
    usage=_ANTHROPIC_USAGE,
)
COUNTED = thing(input_tokens=WHOLE)
_ANTHROPIC_MODEL = thing(id=TEXT, type=said("model"), display_name=TEXT, created_at=TEXT)

# ---------------------------------------------------------------------------------------- Both, each in its own dialect

MODEL = either(_OPENAI_MODEL, _ANTHROPIC_MODEL)
MODELS = either(
    thing(object=said("list"), data=each(_OPENAI_MODEL)),
    thing(data=each(_ANTHROPIC_MODEL), has_more=YES_NO, first_id=maybe(TEXT), last_id=maybe(TEXT)),
)
