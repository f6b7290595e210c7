"""A calibrated pool as the part of a catalog that defines it, every number with its source.

What cannot be seen from outside (replicas, slots) is written as assumed. Knows nothing about endpoints; nothing of a
host or a key can come in.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from planning.fit import FixedFit, Goodness, ScaleFit
from service.toml_table import dotted

MAX_BATCH = 64  # sequences; assumed
SECTIONS = ("deployment", "incidents")  # of a pool, with a heading of their own

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`what` was measured, in words, and on which day."""

    what: str
    day: date


def fixed_pool(name: str, fit: FixedFit, origin: Origin, remarks: Sequence[str]) -> str:
    """TOML of a pool with `timing = "fixed"` and of its sources; `remarks` become comments."""
    timing, measured, assumed = fit.timing, f"{name}-measured", f"{name}-assumed"
    pool = {
        "timing": "fixed",
        "replicas": 1,
        "max_batch": MAX_BATCH,
        "ambient": {"sequences": 0, "context": 1},
        "queue": {"max": 1000, "wait_max_s": 60},
        "utilisation": 1,
        "source": assumed,
    }
    fixed = {
        "ttft_ms": _rounded(timing.ttft * 1e3),
        "ttft_sigma": _rounded(timing.ttft_sigma),
        "tok_s": _rounded(timing.rate),
        "tok_s_sigma": _rounded(timing.rate_sigma),
        "load_slope": _rounded(timing.load_slope),
        "ttft_ms_per_1k_prompt": _rounded(timing.ttft_per_token * 1e6),
        "source": measured,
    }
    why = "Not visible from outside: how many replicas there are, and how many requests each takes at once"
    return "\n".join(
        (
            *_comments(fit.goodness, remarks),
            "",
            *_source(measured, "measured", origin, origin.what),
            *_source(assumed, "assumed", origin, why),
            *_section(("pools", name), pool),
            *_section(("pools", name, "fixed"), fixed),
        )
    )


def scaled_pool(name: str, pool: Values, fit: ScaleFit, origin: Origin, remarks: Sequence[str]) -> str:
    """TOML of a pool like `pool`, a pool's table in a catalog, but for `scale`. The catalog has the other sources."""
    measured = f"{name}-measured"
    deployment = dict(pool["deployment"])
    deployment["scale"] = _rounded(fit.scale)
    deployment["source_of"] = {**deployment.get("source_of", {}), "scale": measured}
    scaled = {**pool, "deployment": deployment}
    plain = {key: value for key, value in scaled.items() if key not in SECTIONS}
    lines = [
        *_comments(fit.goodness, remarks),
        "",
        *_source(measured, "measured", origin, origin.what),
        *_section(("pools", name), plain),
        *_section(("pools", name, "deployment"), deployment),
    ]
    for incident, values in scaled.get("incidents", {}).items():
        lines += _section(("pools", name, "incidents", incident), values)
    return "\n".join(lines)


def _comments(goodness: Goodness, remarks: Sequence[str]) -> list[str]:
    ttft, rate = goodness.ttft, goodness.rate
    return [
        f"# Fitted to {goodness.n} requests. Single ones are off by, in the median (p90; mean share):",
        f"#   TTFT {ttft.median * 1e3:.3g} ms ({ttft.p90 * 1e3:.3g} ms; {ttft.mape:.0%}),"
        f" tok/s {rate.median:.3g} ({rate.p90:.3g}; {rate.mape:.0%})",
        *(f"# - {' '.join(remark.split())}" for remark in remarks),
    ]


def _source(name: str, kind: str, origin: Origin, reference: str) -> list[str]:
    return _section(("sources", name), {"kind": kind, "date": origin.day.isoformat(), "reference": reference})


def _section(path: tuple[str, ...], values: Values) -> list[str]:
    return [f"[{dotted(path)}]", *(f"{dotted((key,))} = {_toml(value)}" for key, value in values.items()), ""]


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case float():
            return f"{value:.15g}"
        case str():
            return json.dumps(value, ensure_ascii=False)  # a TOML basic string knows the same escapes
        case Mapping():
            return "{ " + ", ".join(f"{dotted((key,))} = {_toml(inner)}" for key, inner in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            raise AssertionError(f"a catalog holds no {type(value).__name__}")


def _rounded(value: float) -> float:
    """Three significant digits: no median of some tens of requests has more."""
    return float(f"{value:.3g}")
