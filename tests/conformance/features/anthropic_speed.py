"""Speed, as it is asked for and reported."""

from features import Lacking, feature
from features.anthropic_door import BETA, FORMER, MODEL, PREVIEW, SLOW, Door
from features.raising import raises


@feature
def fast_is_reported(door: Door) -> None:
    """speed fast is reported in usage, standard as standard, and where nothing is asked for"""
    assert door.at("fast").usage.speed == "fast"
    assert door.at("standard").usage.speed == "standard"
    assert door.say().usage.model_extra is not None or door.has_speed


@feature
def fast_is_reported_in_streams(door: Door) -> None:
    """In a stream, message_start reports the speed"""
    events = door.client.messages.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Hi"}],
        max_tokens=9,
        stream=True,
        extra_body={"speed": "fast"},
    )
    started = next(iter(events))
    assert started.message.usage.speed == "fast"
    events.close()


@feature
def speeds_say_the_same(door: Door) -> None:
    """Fast and standard give the same message"""
    fast, standard = door.at("fast"), door.at("standard")
    assert fast.content[0].text == standard.content[0].text


@feature
def models_without_fast_mode_refuse(door: Door) -> None:
    """speed fast is 400 for a model that does not support it"""
    with raises(door.library.BadRequestError) as raised:
        door.at("fast", model=SLOW)
    assert f"'{SLOW}' does not support the `speed` parameter" in raised.error.body["error"]["message"]


@feature
def previews_need_their_beta(door: Door) -> None:
    """A model whose fast mode is a preview needs the beta header: without it `speed` is an extra input"""
    if not door.has_speed:
        raise Lacking("this generation sends the header by itself")
    with raises(door.library.BadRequestError) as raised:
        door.at("fast", model=PREVIEW)
    assert raised.error.body["error"]["message"] == "speed: Extra inputs are not permitted"
    assert door.at("fast", model=PREVIEW, extra_headers={"anthropic-beta": f"x-2026, {BETA}"}).usage.speed == "fast"


@feature
def a_former_fast_mode_runs_as_standard(door: Door) -> None:
    """The one model whose fast mode ended quietly runs, and reports, standard"""
    assert door.at("fast", model=FORMER, extra_headers={"anthropic-beta": BETA}).usage.speed == "standard"


@feature
def the_beta_surface_is_the_same(door: Door) -> None:
    """The beta surface, with its query parameter and header, is served alike"""
    message = door.client.beta.messages.create(
        model=MODEL, messages=[{"role": "user", "content": "Hi"}], max_tokens=9, speed="fast", betas=[BETA]
    )
    assert message.usage.speed == "fast"


@feature
def unknown_speeds_are_refused(door: Door) -> None:
    """Another word for speed is 400"""
    with raises(door.library.BadRequestError):
        door.at("ludicrous")


@feature
def the_header_alone_changes_nothing(door: Door) -> None:
    """The beta header without `speed` is a standard request, on any model"""
    for model in (MODEL, SLOW, PREVIEW):
        answer = door.say(model=model, extra_headers={"anthropic-beta": BETA})
        assert getattr(answer.usage, "speed", None) in (None, "standard")
