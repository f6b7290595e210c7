"""Which models there are, in the dialect of who asks; for OpenAI's clients also those that embed."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from gateway.dialects import OPENAI
from service.embeddings import EMBEDDERS, Embedder
from service.tiers import Catalog, ServedModel, find
from service.wire import openai_models


def routes(catalog: Catalog) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/models")
    async def models() -> Response:
        return OPENAI.answer(
            openai_models.listing([*map(_model, catalog.models.values()), *map(_model, EMBEDDERS.values())])
        )

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        return OPENAI.answer(_model(EMBEDDERS.get(name) or find(catalog, name)))

    return router


def _model(model: ServedModel | Embedder) -> dict[str, Any]:
    return openai_models.model(model.id, model.created, model.owned_by)
