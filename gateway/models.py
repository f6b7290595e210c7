"""Which models there are."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from gateway.dialects import OPENAI
from service.tiers import Catalog, ServedModel, find
from service.wire import openai_models


def routes(catalog: Catalog) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/models")
    async def models() -> Response:
        return OPENAI.answer(openai_models.listing(_model(model) for model in catalog.models.values()))

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        return OPENAI.answer(_model(find(catalog, name)))

    return router


def _model(model: ServedModel) -> dict[str, Any]:
    return openai_models.model(model.id, model.created, model.owned_by)
