"""Models."""

from features import feature
from features.openai_door import EMBEDDER, LATEST, MODEL, SPARK, Door
from features.raising import raises


@feature
def models_are_listed(door: Door) -> None:
    """The list has the models that are served, each with id, created and owner"""
    listed = door.client.models.list()
    assert listed.object == "list"
    models = {model.id: model for model in listed}
    assert {MODEL, LATEST, SPARK, EMBEDDER, "claude-opus-5-5"} <= models.keys()
    assert all(model.object == "model" and model.created > 0 and model.owned_by for model in models.values())


@feature
def a_model_can_be_retrieved(door: Door) -> None:
    """A model can be retrieved by its id, and one that does not exist is NotFoundError"""
    assert door.client.models.retrieve(MODEL).id == MODEL
    with raises(door.library.NotFoundError) as raised:
        door.client.models.retrieve("gpt-nonexistent")
    assert raised.error.code == "model_not_found"


@feature
def every_listed_model_answers(door: Door) -> None:
    """Every model in the list that generates, answers, whoever made it"""
    for model in door.client.models.list():
        if not model.id.startswith("text-embedding"):
            answer = door.chat(model=model.id, max_tokens=3)
            assert answer.model == model.id
            assert answer.choices[0].message.content
