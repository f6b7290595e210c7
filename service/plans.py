"""What an account may use in a minute: plans, as a catalog has them. Values; nothing here counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.errors import CatalogError
from service.toml_table import Table

KINDS = ("requests", "tokens", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Per minute; None: no such limit.

    `tokens` are counted as OpenAI does: the prompt and what may come of it when a request comes, and what really came
    when it ends. The other two as Anthropic does: `input_tokens` without what was found in a cache, `output_tokens` as
    they are generated, and not before.
    """

    requests: int | None = None
    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Offers of one group share what the group may use. One that is not `counted` only says what it would be."""

    name: str
    counted: bool
    default: Allowance
    groups: Mapping[str, Allowance]

    def of(self, group: str) -> Allowance:
        return self.groups.get(group, self.default)


UNLIMITED = Plan(name="open", counted=False, default=Allowance(), groups=MappingProxyType({}))


def chosen(plans: Mapping[str, Plan], name: str) -> Plan:
    """The plan of that name; where there is none that is open, nothing is limited. Raises CatalogError."""
    if name in plans:
        return plans[name]
    if name == UNLIMITED.name:
        return UNLIMITED
    raise CatalogError(f"there is no plan {name[:100]!r}; known are: {', '.join(plans) or UNLIMITED.name}")


def read_plan(name: str, table: Table) -> Plan:
    """Raises CatalogError."""
    plan = Plan(
        name=name,
        counted=table.boolean("counted", True),
        default=_allowance(table.table("default")) if "default" in table else Allowance(),
        groups=MappingProxyType({group: _allowance(each) for group, each in table.tables("groups").items()}),
    )
    table.done()
    return plan


def _allowance(table: Table) -> Allowance:
    found = {kind: table.integer(kind, at_least=0) for kind in KINDS if kind in table}
    table.done()
    return Allowance(**found)
