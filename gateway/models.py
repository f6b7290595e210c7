"""Which models there are, in the dialect of who asks; for OpenAI's clients also those that embed."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.dialects import ANTHROPIC, OPENAI, spoken
from service.embeddings import EMBEDDERS, Embedder
from service.profiles import Profile
from service.tiers import ServedModel, find
from service.wire import anthropic_models, anthropic_rules, openai_models


def routes(profile: Profile) -> APIRouter:
    router = APIRouter()
    catalog = profile.catalog
    listed = openai_models.listing([*map(_model, catalog.models.values()), *map(_model, EMBEDDERS.values())])
    theirs = {
        name: anthropic_models.model(each, profile.anthropic_rules(name)) for name, each in catalog.models.items()
    }

    @router.get("/v1/models")
    async def models(request: Request) -> Response:
        if spoken(request.scope) is OPENAI:
            return OPENAI.answer(listed)
        anthropic_rules.version(request.headers, profile.anthropic_versions)
        query = request.query_params
        stages = [*query.getlist("lifecycle"), *query.getlist("lifecycle[]")]
        return ANTHROPIC.answer(anthropic_models.listing(list(theirs.values()), query, stages))

    @router.get("/v1/models/{name:path}")
    async def model(name: str, request: Request) -> Response:
        if spoken(request.scope) is OPENAI:
            return OPENAI.answer(_model(EMBEDDERS.get(name) or find(catalog, name)))
        anthropic_rules.version(request.headers, profile.anthropic_versions)
        known = catalog.aliases.get(name, name)
        if known not in theirs:
            raise anthropic_models.unknown(name)
        return ANTHROPIC.answer(theirs[known])

    return router


def _model(model: ServedModel | Embedder) -> dict[str, Any]:
    return openai_models.model(model.id, model.created, model.owned_by)
