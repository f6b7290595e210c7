"""Embeddings: computed here and at once, since there is neither a queue nor a stream that they could wait in."""

import asyncio
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.desk import Desk
from gateway.dialects import OPENAI
from gateway.openai_speech import OpenAISpeech
from service.embeddings import EMBEDDERS, Embedder, embed
from service.errors import Unavailable
from service.tiers import Catalog, find
from service.wire import openai_embeddings


def routes(desk: Desk, catalog: Catalog) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/embeddings")
    async def embeddings(request: Request) -> Response:
        speech = OpenAISpeech(asyncio.get_running_loop().time())
        if desk.admission.draining:
            raise Unavailable("This server is shutting down. Please try again.", reason="draining", retry_after=1)
        answer = await desk.read(request, partial(_answer, catalog, desk.settings.strict_fields), laborious=True)
        return OPENAI.answer(answer, headers={name.decode(): text.decode() for name, text in speech.headers()})

    return router


def _answer(catalog: Catalog, strict: bool, body: bytes) -> bytes:
    request = openai_embeddings.parse(body, strict)
    model = _embedder(catalog, request.model)
    openai_embeddings.check(request, model)
    texts = request.texts()
    vectors = (embed(model, text.text, request.dimensions) for text in texts)
    return openai_embeddings.listing(request, vectors, sum(text.tokens for text in texts))


def _embedder(catalog: Catalog, name: str) -> Embedder:
    """Raises ModelNotFound, and Forbidden for a model that writes."""
    if name not in EMBEDDERS:
        find(catalog, name)
        raise openai_embeddings.not_an_embedder()
    return EMBEDDERS[name]
