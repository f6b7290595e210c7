"""Embeddings: computed here and at once, since there is neither a queue nor a stream that they could wait in."""

import asyncio
from collections.abc import Mapping
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.answers import ABORT
from gateway.desk import Desk
from gateway.dialects import JSON
from gateway.openai_speech import OpenAISpeech
from service.embeddings import EMBEDDERS, Embedder, embed
from service.errors import Unavailable
from service.tiers import Catalog, find
from service.wire import openai_embeddings

_WRITTEN = 256 * 1024  # bytes of an answer at once


def routes(desk: Desk, catalog: Catalog) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/embeddings")
    async def embeddings(request: Request) -> Response:
        speech = OpenAISpeech(asyncio.get_running_loop().time())
        if desk.admission.draining:
            raise Unavailable("This server is shutting down. Please try again.", reason="draining", retry_after=1)
        answer = await desk.read(request, partial(_answer, catalog, desk.settings.strict_fields), laborious=True)
        return _Vectors(answer, desk, {name.decode(): text.decode() for name, text in speech.headers()})

    return router


class _Vectors(JSON):
    """Maybe many megabytes: they take room like bodies do until the client has read them, and are not kept for ever."""

    def __init__(self, answer: bytes, desk: Desk, headers: Mapping[str, str]) -> None:
        super().__init__(answer, headers=headers)
        self._desk = desk

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        with self._desk.bodies.room() as room:
            room.hold(len(self.body))
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                for start in range(0, len(self.body), _WRITTEN):
                    part, more = self.body[start : start + _WRITTEN], start + _WRITTEN < len(self.body)
                    async with asyncio.timeout(self._desk.settings.stall_max):
                        await send({"type": "http.response.body", "body": part, "more_body": more})
            except TimeoutError:
                scope["state"][ABORT]()


def _answer(catalog: Catalog, strict: bool, body: bytes) -> bytes:
    request = openai_embeddings.parse(body, strict)
    model = _embedder(catalog, request.model)
    openai_embeddings.check(request, model)
    texts = request.texts()
    openai_embeddings.check_volume(request, model, len(texts))
    vectors = (embed(model, text.text, request.dimensions) for text in texts)
    return openai_embeddings.listing(request, vectors, sum(text.tokens for text in texts))


def _embedder(catalog: Catalog, name: str) -> Embedder:
    """Raises ModelNotFound, and Forbidden for a model that writes."""
    if name not in EMBEDDERS:
        find(catalog, name)
        raise openai_embeddings.not_an_embedder()
    return EMBEDDERS[name]
