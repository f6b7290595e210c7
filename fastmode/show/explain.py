"""Why a tier is as fast and as dear as it is: the tables of `fastmode explain`."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from fastmode.show import LEGEND, MARKS, marked, number, table
from service.explain import Explanation, Physics
from service.explain.point import Series
from service.explain.premium import Premium
from service.figures import Figure

WIDE = ("", "What it is", "What of it", "Note")
BAR = 24  # characters for a whole step


def explain(out: Console, explained: Explanation) -> None:
    """Everything that follows from the pool's numbers, or what is known of a pool that was measured."""
    out.print(f"\n[bold]{explained.model}[/bold] at [bold]{explained.tier}[/bold]: {explained.summary}")
    out.print(explained.deployment)
    physics = explained.physics
    if physics is None:
        out.print(_known(explained))
        out.print("The pool was measured, not built from hardware: nothing else can be derived.")
        out.print(f"\n{LEGEND}")
        return
    context = number(physics.operation.context)
    out.print(
        f"Requests of {explained.prompt:,} tokens in and {explained.output:,} out: {context} of context in the mean."
    )
    for shown in _sections(explained, physics):
        out.print(shown)
    out.print(f"\n{LEGEND}  ᵈᵃ derived from something assumed; which it is: fastmode explain --json")
    out.print(f"Assumed here: {', '.join(dict.fromkeys(_assumed(physics)))}")


def _sections(explained: Explanation, physics: Physics) -> Iterator[RenderableType]:
    yield _operation(explained, physics)
    yield _step(physics)
    yield _curve(explained, physics)
    yield _first_token(physics)
    yield _capacity(physics)
    if physics.wafers:
        yield _wafers(physics)
        yield "More wafers hold more sessions; each costs a hop, and hardly any speed."
    if physics.premium:
        yield _premium(physics.premium)
        yield "Near the floor a premium is ill-conditioned: see what a floor that is 10 % off makes of it."
        yield _premium_curve(physics.premium)
    if physics.factors:
        yield _factors(physics)
    yield _theories(explained, physics)
    yield _requests(explained, physics)
    if physics.equal_speeds:
        yield _equal_speeds(explained, physics)
        yield "Where contexts are long, prefill and KV take their share at either speed, and a large batch saves less."


def _assumed(part: Any) -> Iterator[str]:
    """The names of all assumptions below `part`."""
    if isinstance(part, Figure | Series):
        yield from filter(None, part.assumes.split(", "))
    elif isinstance(part, tuple):
        for element in part:
            yield from _assumed(element)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _assumed(getattr(part, field.name))


def _known(explained: Explanation) -> Table:
    made = table("", ">", "Unit", title="what is known")
    for name, figure in explained.known.items():
        made.add_row(name.replace("_", " "), marked(figure), figure.unit)
    return made


def _figures(title: str, *rows: tuple[str, Figure]) -> Table:
    made = table("", ">", "Unit", "What it is", title=title, wordy=WIDE)
    for name, figure in rows:
        made.add_row(name, marked(figure), figure.unit, figure.note)
    return made


def _operation(explained: Explanation, physics: Physics) -> Table:
    at = physics.operation
    return _figures(
        "at work",
        ("in flight", at.batch),
        ("a step", at.step),
        ("each step yields", at.emitted),
        ("speed of a request", at.speed),
        ("beside the ambient load as it is", at.speed_lone),
        ("alone", at.speed_alone),
        ("floor", at.speed_floor),
        ("a replica", at.throughput),
        ("cost of output", at.cost_output),
        ("list price of output", explained.known["price_output"]),
    )


def _step(physics: Physics) -> Table:
    title = f"where the {number(physics.operation.step)} ms of a step go"
    made = table("Cause", ">ms", ">%", "Share", "What it is", title=title, wordy=WIDE)
    for part in physics.step:
        bar = "█" * round(BAR * part.share.value / 100)
        made.add_row(part.cause, marked(part.time), marked(part.share), bar, part.time.note)
    return made


def _curve(explained: Explanation, physics: Physics) -> Table:
    curve = physics.curve
    columns = {"in flight": curve.batch, "tok/s": curve.speed, "replica": curve.throughput, "$/MTok": curve.cost_output}
    full = "KV cache full" if curve.batch.values[-1] == curve.kv_end.value else ""
    signs = {physics.operation.batch.value: f"{explained.tier} at work", curve.batch.values[-1]: full}
    made = _in_columns("speed and cost against batch", columns)
    for row in zip(*(series.values for series in columns.values()), strict=True):
        batch = row[0] or 0.0
        if batch in signs or (batch.is_integer() and int(batch).bit_count() == 1):  # doublings are enough to read
            made.add_row(*map(_plain, row), signs.get(batch, ""))
    return made


def _in_columns(title: str, columns: dict[str, Series]) -> Table:
    """Series side by side, marked in their headings; the last column is for remarks."""
    marks = (MARKS[series.kind] + (MARKS["assumed"] if series.assumes else "") for series in columns.values())
    headings = (f">{name}{mark}" for name, mark in zip(columns, marks, strict=True))
    return table(*headings, "", title=title, wordy=WIDE)


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _first_token(physics: Physics) -> Table:
    first = physics.first_token
    return _figures(
        "time to first token",
        ("queue, at most", first.queue),
        ("front end", first.front_end),
        ("step under way", first.boundary),
        ("prefill", first.prefill),
        ("without a queue", first.total),
    )


def _capacity(physics: Physics) -> Table:
    held = physics.capacity
    return _figures(
        "memory of a replica",
        ("memory", held.memory),
        ("weights", held.weights),
        ("their share", held.weights_share),
        ("KV capacity", held.kv),
        ("sessions", held.sessions),
        ("KV beside others", held.kv_beside_ambient),
        ("sessions beside others", held.sessions_beside_ambient),
    )


def _wafers(physics: Physics) -> Table:
    made = table(">wafers", ">tok/s alone", ">KV tokens", ">sessions", ">$/h", title="the same model on more wafers")
    for row in physics.wafers:
        figures = (row.speed_alone, row.kv, row.sessions, row.dollars_per_hour)
        made.add_row(str(row.wafers), *map(marked, figures))
    return made


def _premium(premium: Premium) -> Table:
    title = (
        f"{number(premium.speedup)}x the speed of {premium.base} on the same chips: if t(B) = a(1 + beta B),"
        f" a ratio R of prices implies"
    )
    headings = (">R", ">x2", ">floor\ntok/s", ">B ratio\ng R", ">batch", ">R if floor\n-10 %", ">R if floor\n+10 %")
    made = table("What of it", *headings, title=title, wordy=WIDE)
    for row in premium.implied:
        sizes = (row.ratio, row.load, row.floor_speed, row.batch_ratio, row.batch)
        lower = marked(row.premium_if_floor_lower) if row.premium_if_floor_lower else "no bound"
        made.add_row(row.of, *map(marked, sizes), lower, marked(row.premium_if_floor_higher))
    return made


def _premium_curve(premium: Premium) -> Table:
    curve = premium.curve
    columns = {"speed-up": curve.speedup, "in flight": curve.batch, "premium": curve.premium}
    made = _in_columns(f"chip time of an output token, against {premium.base}", columns)
    for row in list(zip(*(series.values for series in columns.values()), strict=True))[::3]:
        made.add_row(*map(_plain, row), "")
    return made


def _factors(physics: Physics) -> Table:
    made = table("What of it", ">factor", title=f"speed against {physics.base}", wordy=WIDE)
    for factor in physics.factors:
        made.add_row(factor.name, marked(factor.factor))
    return made


def _theories(explained: Explanation, physics: Physics) -> Table:
    title = f"other theories, each alone on the deployment of {physics.base or explained.tier}"
    made = table("What of it", ">without", ">with", ">speed-up", "Note", title=title, wordy=WIDE)
    for theory in physics.theories:
        made.add_row(theory.name, *map(marked, (theory.before, theory.after, theory.speedup)), theory.note)
    return made


def _requests(explained: Explanation, physics: Physics) -> Table:
    ours, base = explained.tier, physics.base
    named = (f">{base}\nin flight", f">{base}\ncost", ">cost\nratio", ">price\nratio") if base else ()
    headings = (f">{ours}\nin flight", f">{ours}\ncost", ">list\nprice")
    made = table("Request", *headings, *named, title="$ for 1,000 requests", wordy=("Request",))
    for row in physics.requests:
        compared = (row.base_batch, row.base_cost, row.cost_ratio, row.list_ratio) if base else ()
        figures = (row.batch, row.cost, row.list_price, *compared)
        made.add_row(f"{row.name}: {row.prompt:,} in, {row.output:,} out", *map(marked, figures))
    return made


def _equal_speeds(explained: Explanation, physics: Physics) -> Table:
    ours, base = explained.tier, physics.base
    headings = (f">{base}\ntok/s", f">{ours}\ntok/s", f">{base}\nin flight", f">{ours}\nin flight", ">cost\nratio")
    title = "cost of a request at the speeds the tiers are known for, the prefill of the others included"
    made = table("Request", f"{base} is", *headings, title=title, wordy=("Request", f"{base} is"))
    for row in physics.equal_speeds:
        figures = (row.base_speed, row.speed, row.base_batch, row.batch, row.cost_ratio)
        made.add_row(row.name, row.layout, *map(marked, figures))
    return made
