"""Tiers, as `service_tier` asks for them and reports them."""

from features import feature
from features.openai_door import LATEST, MODEL, SPARK, Door
from features.raising import raises


@feature
def the_default_tier_is_reported(door: Door) -> None:
    """Without service_tier, and with auto or default, the answer says `default`, on every chunk, too"""
    for asked in (None, "auto", "default"):
        assert door.chat(service_tier=asked).service_tier == "default"
        assert {chunk.service_tier for chunk in door.stream(service_tier=asked)} == {"default"}


@feature
def fast_is_reported_as_the_generation_does(door: Door) -> None:
    """fast and priority are one tier: reported as `priority` by GPT-5, as `fast` by GPT-6"""
    for asked in ("fast", "priority"):
        for model, echo in ((MODEL, "priority"), (LATEST, "fast")):
            assert door.chat(model=model, service_tier=asked).service_tier == echo
            assert {chunk.service_tier for chunk in door.stream(model=model, service_tier=asked)} == {echo}


@feature
def flex_and_ultrafast_are_reported(door: Door) -> None:
    """flex and ultrafast are reported where they are sold"""
    assert door.chat(model="gpt-5", service_tier="flex").service_tier == "flex"
    assert door.chat(model=LATEST, service_tier="ultrafast").service_tier == "ultrafast"
    assert {chunk.service_tier for chunk in door.stream(model=LATEST, service_tier="ultrafast")} == {"ultrafast"}


@feature
def a_tier_that_a_model_is_not_sold_at_runs_as_default(door: Door) -> None:
    """A tier that a model is not sold at runs, and is reported, as `default`"""
    assert door.chat(model=MODEL, service_tier="ultrafast").service_tier == "default"


@feature
def an_unknown_tier_is_refused(door: Door) -> None:
    """An unknown service_tier is 400 and names the parameter"""
    for stream in (False, True):
        with raises(door.library.BadRequestError) as raised:
            door.client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "Hi"}], service_tier="warp", stream=stream
            )
        assert raised.error.param == "service_tier"
        assert "Invalid value" in raised.error.message


@feature
def the_full_model_says_the_same_at_every_speed(door: Door) -> None:
    """Standard and fast give the same answer for the same body and seed"""
    standard, fast = (door.chat(service_tier=tier, seed=7, max_tokens=60) for tier in ("default", "priority"))
    assert standard.choices[0].message.content == fast.choices[0].message.content


@feature
def the_distilled_model_says_something_else(door: Door) -> None:
    """The distilled model gives another answer than the full one"""
    full, distilled = (door.chat(model=model, seed=7, max_tokens=60) for model in (MODEL, SPARK))
    assert full.choices[0].message.content != distilled.choices[0].message.content
