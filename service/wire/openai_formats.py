"""What form a chat completion's text is asked to have: any, some JSON object, or JSON of a schema.

Rules and words after the errors that the OpenAI API answers with.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from service.errors import InvalidRequest
from service.messages import Turn
from service.wire.openai_body import Fields, as_json
from service.wire.openai_errors import missing
from service.wire.openai_tools import Name, schema_fault

ANY_OBJECT = b'{"type":"object"}'


class JsonSchema(Fields):
    name: Name
    description: str | None = None
    # `schema` is taken in pydantic's own models
    document: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Fields):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def schema_text(self, turns: Sequence[Turn]) -> bytes:
        """The JSON Schema, as JSON, that the text has to satisfy; empty: none. Raises InvalidRequest."""
        if self.type == "text":
            return b""
        if self.type == "json_object":
            _require_the_word(turns)
            return ANY_OBJECT
        if self.json_schema is None:
            raise missing("response_format.json_schema")
        if self.json_schema.document is None:
            return ANY_OBJECT
        text = as_json(self.json_schema.document, "response_format.json_schema.schema")
        fault = schema_fault(self.json_schema.document, text, self.strict)
        if fault is not None:
            raise InvalidRequest(
                f"Invalid schema for response_format '{self.json_schema.name}': {fault}",
                code="invalid_json_schema",
                param="response_format",
            )
        return text

    @property
    def strict(self) -> bool:
        return self.type == "json_object" or bool(self.json_schema and self.json_schema.strict)


def _require_the_word(turns: Sequence[Turn]) -> None:
    """Models that are not told to write JSON write blanks for ever: so the API insists."""
    if not any("json" in turn.text.lower() for turn in turns):
        raise InvalidRequest(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            param="messages",
        )
