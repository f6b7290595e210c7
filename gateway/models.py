"""Which models there are, in the dialect of who asks; for OpenAI's clients also those that embed."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.dialects import ANTHROPIC, OPENAI, spoken
from gateway.door import account_of
from service.embeddings import EMBEDDERS, Embedder
from service.profiles import Profile
from service.tiers import ServedModel, find, not_found
from service.wire import anthropic_models, anthropic_rules, openai_models


def routes(profile: Profile) -> APIRouter:
    router = APIRouter()
    catalog = profile.catalog
    listed = [*map(_model, catalog.models.values()), *map(_model, EMBEDDERS.values())]
    theirs = {
        name: anthropic_models.model(each, profile.anthropic_rules(name)) for name, each in catalog.models.items()
    }

    @router.get("/v1/models")
    async def models(request: Request) -> Response:
        allowed = account_of(request).models
        if spoken(request.scope) is OPENAI:
            mine = [each for each in listed if not allowed or each["id"] in allowed]
            return OPENAI.answer(openai_models.listing(mine))
        anthropic_rules.version(request.headers, profile.anthropic_versions)
        query = request.query_params
        stages = [*query.getlist("lifecycle"), *query.getlist("lifecycle[]")]
        mine = [each for name, each in theirs.items() if not allowed or name in allowed]
        return ANTHROPIC.answer(anthropic_models.listing(mine, query, stages))

    @router.get("/v1/models/{name:path}")
    async def model(name: str, request: Request) -> Response:
        allowed, known = account_of(request).models, catalog.aliases.get(name, name)
        hidden = bool(allowed) and known not in allowed
        if spoken(request.scope) is OPENAI:
            if hidden:
                raise not_found(name)
            return OPENAI.answer(_model(EMBEDDERS.get(name) or find(catalog, name)))
        anthropic_rules.version(request.headers, profile.anthropic_versions)
        if hidden or known not in theirs:
            raise anthropic_models.unknown(name)
        return ANTHROPIC.answer(theirs[known])

    return router


def _model(model: ServedModel | Embedder) -> dict[str, Any]:
    return openai_models.model(model.id, model.created, model.owned_by)
