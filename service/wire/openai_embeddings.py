"""Embeddings: the request body inwards, the vectors outwards; and who may be asked for them. Sans-IO.

Limits and words after OpenAI's API reference and the errors it answers with: 2,048 inputs, 8,192 tokens each, 300,000
together. `base64` is the little-endian 32-bit floats of a vector; the official SDK asks for it unless told otherwise.
"""

from array import array
from base64 import b64encode
from collections.abc import Iterable
from sys import byteorder
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from service.embeddings import EMBEDDERS, TOKENS_MAX, Embedder
from service.errors import Forbidden, InvalidRequest
from service.wire.openai_body import Fields, read
from service.wire.openai_errors import missing
from service.wire.openai_texts import Text, texts

TOGETHER_MAX = 300_000  # tokens of one request
FLOATS_MAX = 2048 * 1536  # of one answer, as digits: 70 MB; base64 takes a fifth of that


class EmbeddingRequest(Fields):
    model: Annotated[str, Field(min_length=1)]
    input: Any = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None

    def texts(self) -> tuple[Text, ...]:
        """What is to be embedded. Raises InvalidRequest."""
        found = texts(self.input, "input", may_be_empty=False)
        longest = max(text.tokens for text in found)
        if longest > TOKENS_MAX:
            raise InvalidRequest(
                f"This model's maximum context length is {TOKENS_MAX} tokens, however you requested {longest} tokens "
                f"({longest} in your prompt; 0 for the completion). Please reduce your prompt; or completion length.",
                param="input",
            )
        if sum(text.tokens for text in found) > TOGETHER_MAX:
            raise InvalidRequest(
                f"Invalid 'input': maximum request size is {TOGETHER_MAX} tokens per request.",
                code="max_tokens_per_request",
                param="input",
            )
        return found


def parse(body: bytes, strict: bool = True) -> EmbeddingRequest:
    """A request body, checked but for its texts and its model. Raises InvalidRequest."""
    request = read(body, EmbeddingRequest, strict)
    if request.input is None:
        raise missing("input")
    return request


def check(request: EmbeddingRequest, model: Embedder) -> None:
    """Whether the model has as many dimensions. Raises InvalidRequest."""
    if request.dimensions is None:
        return
    if not model.shortens:
        raise InvalidRequest("This model does not support specifying dimensions.", param="dimensions")
    if request.dimensions > model.dimensions:
        raise InvalidRequest(
            f"Invalid value for 'dimensions' = {request.dimensions}. Must be less than or equal to {model.dimensions}.",
            param="dimensions",
        )


def check_volume(request: EmbeddingRequest, model: Embedder, inputs: int) -> None:
    """Whether the answer can be held. Raises InvalidRequest."""
    floats = inputs * (request.dimensions or model.dimensions)
    if request.encoding_format != "base64" and floats > FLOATS_MAX:
        raise InvalidRequest(
            f"Invalid 'input': {floats} numbers are too many to be written as digits, at most {FLOATS_MAX} can. Send "
            "fewer inputs, or ask for 'encoding_format': 'base64'.",
            param="input",
        )


def refuse_sampling(model: str) -> None:
    """An embedding model writes nothing. Raises Forbidden."""
    if model in EMBEDDERS:
        raise Forbidden("You are not allowed to sample from this model", param="model")


def not_an_embedder() -> Forbidden:
    return Forbidden("You are not allowed to generate embeddings from this model", param="model")


def listing(request: EmbeddingRequest, vectors: Iterable["array[float]"], tokens: int) -> bytes:
    """The answer; `tokens` are those of all texts."""
    wording = _base64 if request.encoding_format == "base64" else _floats
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, wording(vector))
        for index, vector in enumerate(vectors)
    )
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (
        data,
        orjson.dumps(request.model),
        orjson.dumps(usage),
    )


def _floats(vector: "array[float]") -> bytes:
    return orjson.dumps(vector.tolist())


def _base64(vector: "array[float]") -> bytes:
    if byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return b'"%b"' % b64encode(vector.tobytes())
