"""What an answer is to say, before it is cut into tokens: what was scripted, a call, JSON, a prediction, or prose.

Knows nothing of lengths and limits.
"""

from collections.abc import Sequence
from random import Random

from service.messages import Tool, Turn, Wish
from workers.content import calls, hints, objects, prediction, thoughts
from workers.content.forms import Form
from workers.content.hints import Hints
from workers.content.instances import dumped, instance, satisfies
from workers.content.mistakes import Draft, erred


def draft(wish: Wish, conversation: Sequence[Turn], form: Form | None, key: str) -> Draft:
    """With the mistake that is made in it. `form` is what the user's message asks for. Raises Unsatisfiable."""
    looked_at = wish.tools or wish.schema or form == "json"
    message = hints.of(conversation) if looked_at else Hints()
    planned = _scripted(wish) or _planned(wish, conversation, form, message, key)
    return erred(planned, wish, message, Random(f"{key}/mistake"))


def _scripted(wish: Wish) -> Draft | None:
    written = wish.scripted
    if written is None or (written.text is None and not written.calls and not written.reasoning):
        return None
    return Draft(written.text, written.calls, written.reasoning, scripted=True)


def _planned(wish: Wish, conversation: Sequence[Turn], form: Form | None, message: Hints, key: str) -> Draft:
    random = Random(f"{key}/values")
    called = _calls(wish, conversation, message)
    if called:
        return Draft(calls=tuple(calls.written(tool, part, random) for tool, part in called))
    if wish.prediction and (not wish.schema or satisfies(wish.schema, wish.prediction)):
        changes = () if wish.schema else prediction.edits(wish.prediction, hints.last(conversation), random)
        return Draft(prediction.edited(wish.prediction, changes), schema=wish.schema, changes=tuple(changes))
    if wish.schema:
        free = objects.says_nothing(wish.schema)
        value = objects.plain_object(random, message) if free else instance(wish.schema, random, message)
        return Draft(dumped(value), schema=wish.schema)
    opening = thoughts.taken_up(conversation)
    if opening is not None:
        return Draft(opening=opening)
    if form == "json":
        return Draft(dumped(objects.plain_object(random, message)), shaped=True)
    return Draft(shaped=form is not None)


def _calls(wish: Wish, conversation: Sequence[Turn], message: Hints) -> list[tuple[Tool, Hints]]:
    """An answer to a tool's result calls no further one, unless it has to."""
    if not wish.tools or wish.tool_choice == "none":
        return []
    required = wish.tool_choice == "required"
    turn = hints.latest(conversation)
    if not required and (turn is None or turn.role != "user"):
        return []
    return calls.called(wish.tools, message, required, wish.parallel)
