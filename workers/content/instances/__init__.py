"""Values that satisfy a JSON Schema, made up from a conversation and a seed.

A value is built up from what its subschemas need (`needs`), with names, hints and formats for plausibility, and held
against a validator part by part; what does not pass is drawn again, a bounded number of times. Work, depth and size
are bounded whatever the schema, by counting and not by time, so that the same request gives the same value anywhere.
"""

import json
from functools import lru_cache
from random import Random
from typing import Any

from service import schemas
from workers.content.draws import Draws
from workers.content.hints import Hints
from workers.content.instances.making import FUEL, Maker
from workers.content.instances.needs import Dead, Need
from workers.content.instances.plans import plan

_ROUNDS = 4  # whole values that are tried, each with draws of its own


class Unsatisfiable(Exception):
    """No answer satisfies the schema that was asked for, or none that can be found. The message says where."""


def instance(text: bytes, random: Random, hints: Hints) -> Any:
    """A value that is valid under the schema (JSON; empty: any object). Raises Unsatisfiable."""
    if not text:
        return {}
    try:
        known = plan(text)
        draws = Draws(random)
        dead = Dead("no value was found")
        fuel = FUEL
        for _ in range(_ROUNDS):
            maker = Maker(known, draws, hints, fuel)
            try:
                value = maker.root()
            except Dead as reason:
                dead = reason
                fuel = maker.fuel
                if fuel < 0:
                    break
                continue
            if known.schema.valid(value):
                return value
        proof = schemas.contradiction(text)
    except schemas.InvalidSchema as error:
        raise Unsatisfiable(f"The schema is not usable: {error}.") from None
    raise Unsatisfiable(
        f"No value satisfies the schema {proof}." if proof else f"No value was found that satisfies the schema: {dead}."
    )


def dumped(value: Any) -> str:
    """As models write it: compact, in the characters that are meant."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or text.isprintable() else json.dumps(value, separators=(",", ":"))


def valid(text: bytes, value: Any) -> bool:
    """Under the schema (empty: any object). Not if there is no such schema."""
    try:
        return plan(text).schema.valid(value) if text else isinstance(value, dict)
    except (schemas.InvalidSchema, ValueError):
        return False


def satisfies(text: bytes, said: str) -> bool:
    """Whether it is JSON that is valid under the schema."""
    try:
        return valid(text, json.loads(said))
    except (ValueError, RecursionError):
        return False


@lru_cache(maxsize=512)
def parameters(text: bytes) -> dict[str, str]:
    """The members that a schema names at its root, and what they are: a type, or "any"."""
    need = _root(text)
    if need is None:
        return {}
    kinds = {}
    for name in need.named():
        part = Need(need.schema)
        try:
            for node in need.member(name):
                part.add(node)
        except Dead:
            continue
        types = [each for each in part.types or () if each != "null"]
        kinds[name] = "enum" if part.values is not None else types[0] if len(types) == 1 else "any"
    return kinds


def required(text: bytes) -> tuple[str, ...]:
    """The members that a schema requires at its root."""
    need = _root(text)
    return tuple(need.required) if need is not None else ()


def _root(text: bytes) -> Need | None:
    try:
        need = Need(plan(text).schema)
        need.add(need.schema.document)
    except (schemas.InvalidSchema, Dead, ValueError):
        return None
    return need
