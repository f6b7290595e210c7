"""What a tier's own address asks for: which model, and requests of which size.

Knows the query and its faults; what is true of a tier is service.explain's business.
"""

from collections.abc import Mapping

from service.errors import InvalidRequest
from service.explain import Explanation, explain
from service.tiers import Catalog

DIGITS_MAX = 12  # of a number in a query


def explained(catalog: Catalog, tier: str, query: Mapping[str, str]) -> Explanation:
    """Other parameters are ignored, as everywhere. Raises NotFound, ModelNotFound, TierNotOffered, InvalidRequest."""
    return explain(catalog, tier, query.get("model"), _tokens(query, "context"), _tokens(query, "output"))


def _tokens(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        raise InvalidRequest(f"Invalid type for '{name}': expected an integer, but got {text[:64]!r}.", param=name)
    return int(text)
