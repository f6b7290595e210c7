"""How long OpenAI's API keeps the beginning of a prompt, and what of that a request can say. Sans-IO.

Nothing has to be marked. From GPT-5.6 on, what is put into the cache is charged, and `prompt_cache_options.ttl` buys
how long it stays at least; before, it is free, and stays as `prompt_cache_retention` says. (OpenAI's guide on prompt
caching, and the types of its Python SDK 3.57, according to which the two do not interact.) Who sets `mode` to explicit
marks what is to be kept by breakpoints, which are not known here: then nothing is.
"""

from typing import Literal, NamedTuple

from service.wire.openai_body import Fields

Retention = Literal["in_memory", "in-memory", "24h"]

_TTLS = {"30m": 1800, "12h": 43_200}  # s
_RETENTIONS = {"in_memory": 600, "in-memory": 600, "24h": 86_400}  # s; in memory: "5 to 10 minutes of inactivity"


class CacheOptions(Fields):
    mode: Literal["implicit", "explicit"] | None = None
    ttl: Literal["30m", "12h"] | None = None
    comparison_response_id: str | None = None
    prewarm: bool | None = None


class Caching(NamedTuple):
    """Prompts share what is kept under one `key`, for some seconds: `bought` where that is charged, `free` where not.

    None: nothing is kept.
    """

    key: str = ""
    bought: int | None = _TTLS["30m"]
    free: int | None = _RETENTIONS["in_memory"]


USUAL = Caching()


def caching(key: str | None, options: CacheOptions | None, retention: Retention | None) -> Caching:
    if options is not None and options.mode == "explicit":
        return Caching(key or "", None, None)
    ttl = options.ttl if options is not None else None
    return Caching(key or "", _TTLS[ttl or "30m"], _RETENTIONS[retention or "in_memory"])
