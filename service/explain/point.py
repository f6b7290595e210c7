"""A pool at work on requests of one shape, and figures of it that name what they assume.

Knows nothing about what is compared with what.
"""

from dataclasses import dataclass
from typing import Literal

from service.figures import DIGITS, Figure
from service.pools import Pool, Roofline
from service.pricing import cost_to_serve
from service.provenance import Kind
from service.roofline import Deployment, StepTime
from service.tiers import Catalog, Offer

Input = Literal["chip", "hop", "prefill", "memory", "model", "layout", "drafts", "load", "dollars", "utilisation"]
SPEED: tuple[Input, ...] = ("chip", "hop", "model", "layout", "drafts")  # of a batch that is given
STORED: tuple[Input, ...] = ("memory", "model", "layout")
PAID: tuple[Input, ...] = ("dollars", "utilisation")

# Input -> the numbers of a catalog it stands for, and how a figure calls each that is assumed.
_NUMBERS: dict[Input, tuple[tuple[str, str], ...]] = {
    "chip": (
        ("accelerators/{accelerator}/bandwidth_tb_s", "bandwidth"),
        ("accelerators/{accelerator}/bf16_tflops", "peak"),
        ("accelerators/{accelerator}/layer_us", "time per layer"),
    ),
    "hop": (("accelerators/{accelerator}/hop_us", "wafer hop"),),
    "prefill": (("accelerators/{accelerator}/prefill_share", "prefill share of a wafer"),),
    "memory": (
        ("accelerators/{accelerator}/memory_gb", "memory"),
        ("accelerators/{accelerator}/usable_share", "usable share of a wafer"),
    ),
    "model": (("architectures/{architecture}/layers", "architecture"),),
    "layout": (("pools/{pool}/deployment/dense_bytes", "deployment"),),
    "drafts": (("pools/{pool}/deployment/speculation/alpha", "acceptance of drafts"),),
    "load": (("pools/{pool}/ambient/sequences", "ambient load"),),
    "dollars": (("accelerators/{accelerator}/dollars_per_hour", "$/h of a {accelerator}"),),
    "utilisation": (("pools/{pool}/utilisation", "utilisation"),),
}


@dataclass(frozen=True, slots=True)
class Series:
    """Figures of one kind in a row. None: there is none at that place."""

    values: tuple[float | None, ...]
    unit: str
    kind: Kind
    note: str
    assumes: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A request in tokens; `cached` of the prompt need not be computed."""

    prompt: int
    cached: int
    output: int

    @property
    def context(self) -> float:
        """Tokens it holds in the mean while it decodes."""
        return self.prompt + self.output / 2


@dataclass(frozen=True, slots=True)
class Point:
    """The pool of an offer with as many requests of one shape in flight as its catalog says or its KV cache holds."""

    catalog: Catalog
    offer: Offer
    shape: Shape

    @property
    def pool(self) -> Pool:
        return self.catalog.pools[self.offer.pool]

    @property
    def timing(self) -> Roofline:
        timing = self.pool.timing
        assert isinstance(timing, Roofline), (
            f"the pool {self.pool.name} has been measured: nothing follows from physics"
        )
        return timing

    @property
    def step(self) -> StepTime:
        return self.timing.step_time

    @property
    def layout(self) -> Deployment:
        return self.timing.deployment

    @property
    def context(self) -> float:
        return self.shape.context

    @property
    def batch_max(self) -> float:
        """Requests whose contexts fill the KV cache."""
        return max(1.0, self.step.kv_capacity / self.context)

    @property
    def batch(self) -> float:
        """The ambient load and one request more, each with this context."""
        return min(self.pool.ambient.sequences + 1, self.batch_max)

    @property
    def speed(self) -> float:
        """tok/s of each request."""
        return self.step.speed(self.batch, self.context)

    @property
    def dollars_per_hour(self) -> float:
        """Of a replica."""
        assert self.pool.dollars_per_hour is not None, "what has chips has a price per hour"
        return self.pool.dollars_per_hour

    @property
    def paid(self) -> str:
        """In words: what a replica costs."""
        dollars, used = f"{self.dollars_per_hour:g} $/h for each replica", f"in use {self.pool.utilisation:.0%}"
        return f"{_said(dollars, self.assumed('dollars'))}, {_said(used, self.assumed('utilisation'))}"

    def cost(self, tokens_per_second: float) -> float:
        """$/MTok."""
        return cost_to_serve(self.dollars_per_hour, tokens_per_second, self.pool.utilisation)

    def assumed(self, *inputs: Input) -> tuple[str, ...]:
        """Those of `inputs` that the catalog assumes."""
        names = {
            "accelerator": self.timing.accelerator.name,
            "architecture": self.timing.architecture.name,
            "pool": self.pool.name,
        }
        found = []
        for wanted in inputs:
            for template, name in _NUMBERS[wanted]:
                path = tuple(part.format(**names) for part in template.split("/"))
                source = self.catalog.provenance.get(path)
                if source is not None and source.kind == "assumed":
                    found.append(name.format(**names))
        if self.layout.chips == 1 and "wafer hop" in found:
            found.remove("wafer hop")  # nobody hops
        return tuple(found)

    def derived(self, value: float, unit: str, note: str, *inputs: Input, also: tuple[str, ...] = ()) -> Figure:
        return derived(value, unit, note, self.assumed(*inputs), also)

    def given(self, value: float, unit: str, *path: str) -> Figure:
        """A number of the catalog; what it does not say is assumed."""
        source = self.catalog.provenance.get(path)
        if source is None:
            return Figure(value, unit, "assumed", "not given")
        return Figure(value, unit, source.kind, f"{source.reference} ({source.date})")


def _said(what: str, assumed: tuple[str, ...]) -> str:
    return f"{what} (assumed)" if assumed else what


def derived(value: float, unit: str, note: str, *assumed: tuple[str, ...]) -> Figure:
    return Figure(rounded(value), unit, "derived", note, together(*assumed))


def together(*assumed: tuple[str, ...]) -> str:
    """Each name once, in the order of the first mention."""
    return ", ".join(dict.fromkeys(name for names in assumed for name in names))


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
