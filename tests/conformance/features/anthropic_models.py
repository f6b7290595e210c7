"""Models, and whether the API is there at all."""

from features import feature
from features.anthropic_door import MODEL, Door
from features.plain_http import send
from features.raising import raises


@feature
def models_are_listed_in_anthropics_shape(door: Door) -> None:
    """The list has Anthropic's shape, the newest first, with display names and dates"""
    models = list(door.client.models.list())
    assert MODEL in [model.id for model in models]
    assert all(model.type == "model" and model.display_name for model in models)
    dates = [model.created_at for model in models if model.id.startswith("claude")]
    assert dates == sorted(dates, reverse=True)


@feature
def models_come_in_pages(door: Door) -> None:
    """The list comes in pages that the client follows"""
    page = door.client.models.list(limit=2)
    assert len(page.data) == 2
    assert page.has_more
    assert (page.first_id, page.last_id) == (page.data[0].id, page.data[1].id)
    everything = [model.id for model in door.client.models.list(limit=1000)]
    assert [model.id for model in page] == everything


@feature
def a_model_can_be_retrieved(door: Door) -> None:
    """A model can be retrieved, and one that does not exist is NotFoundError"""
    assert door.client.models.retrieve(MODEL).id == MODEL
    with raises(door.library.NotFoundError) as raised:
        door.client.models.retrieve("claude-nonexistent")
    assert raised.error.body["error"]["type"] == "not_found_error"


@feature
def probes_are_answered(door: Door) -> None:
    """HEAD /api/hello and HEAD / are answered"""
    assert send(door.url, "HEAD", "/api/hello").status == 200
    assert send(door.url, "HEAD", "/").status in (200, 404)
