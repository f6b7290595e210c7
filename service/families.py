"""What a maker's API accepts of requests for the models of one generation: the `families` of a catalog."""

from dataclasses import dataclass
from typing import Literal, cast, get_args

from service.toml_table import Table

Sampling = Literal["any", "default"]
THINKING = ("enabled", "adaptive", "disabled")


@dataclass(frozen=True, slots=True)
class Family:
    """- `sampling`: values of temperature, top_p, top_k that are taken: any, or none but the default.
    - `prefill`: a conversation may end with the beginning of the answer.
    - `thinking`: the values of `thinking.type` that are taken.
    """

    sampling: Sampling = "any"
    prefill: bool = True
    thinking: frozenset[str] = frozenset(THINKING)


def read_family(table: Table) -> Family:
    """Raises CatalogError."""
    family = Family(
        sampling=cast(Sampling, table.one_of("sampling", get_args(Sampling), "any")),
        prefill=table.boolean("prefill", True),
        thinking=frozenset(table.texts("thinking") if "thinking" in table else THINKING),
    )
    strange = sorted(family.thinking.difference(THINKING))
    if strange:
        raise table.error("thinking", f"{strange[0]!r} is no way to think; known are {', '.join(THINKING)}")
    table.done()
    return family
