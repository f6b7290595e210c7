"""How far the step-time formula is from measurements: every row of a file is predicted from the catalog's constants.

A file has one row for each measured point. The error of a point is predicted / measured - 1, of the speed of one user's
stream, which is 1 / TPOT. Three predictions are scored beside each other:

- the formula with its global constants, which know nothing of the row;
- the same after one calibration for each curve: a curve is all points that differ in nothing but batch and date; the
  points at batch 16 fix one factor on its times, and the other points are scored, those that fixed it are not;
- naive ones: the bytes of active weights over bandwidth, and a constant time for each layer, fitted to the file.

Knows nothing about tables or plots.
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from service.closed_loop import tpot
from service.errors import MeasurementsError
from service.hardware import Accelerator, Gpu
from service.models import Model
from service.roofline import Deployment, fold
from service.tiers import Catalog

NAMES = ("model", "chip")
NUMBERS = ("batch", "input_tokens", "output_tokens", "tpot_ms", "dense_bytes", "kv_bytes")
OPTIONAL = {"expert_bytes": 1.0, "tensor_parallel": 1.0, "data_parallel": 1.0, "pipeline_parallel": 1.0}
WHOLE = ("tensor_parallel", "data_parallel", "pipeline_parallel")
LABELS = ("engine", "precision")  # further columns that a breakdown may use; "" where absent
CURVE = (  # what the points of one curve have in common; only their batch, and the day, may differ
    "model",
    "chip",
    "precision",
    "engine",
    "engine_version",
    "tensor_parallel",
    "data_parallel",
    "pipeline_parallel",
    "input_tokens",
    "output_tokens",
    "dense_bytes",
    "expert_bytes",
    "kv_bytes",
)
CALIBRATED_AT = 16  # batch


@dataclass(frozen=True, slots=True)
class Point:
    """One measured row, with what the formula says. Times per output token in seconds."""

    labels: Mapping[str, str]
    curve: tuple[str, ...]
    batch: float
    prompt: float
    output: float
    accelerator: Accelerator
    architecture: Model
    deployment: Deployment
    measured: float
    predicted: float


@dataclass(frozen=True, slots=True)
class Skipped:
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Measurements:
    points: tuple[Point, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """Relative errors of `n` points: of the speed, and for comparison of the time."""

    n: int
    mape: float  # mean absolute error of tok/s/user
    median: float  # median absolute error
    bias: float  # mean of the signed errors: above 0, predictions are too fast
    median_bias: float
    mape_time: float  # mean absolute error of TPOT


@dataclass(frozen=True, slots=True)
class Accuracy:
    """`by` maps the name of a column to the scores of its values, plain and calibrated.

    `seconds_per_layer` is what the naive constant came to.
    """

    overall: Score
    calibrated: Score | None  # None: no curve has a point at that batch and another one
    calibrated_curves: int
    curves: int
    active_bytes: Score | None  # None: no point is of a chip that streams its weights
    per_layer: Score
    seconds_per_layer: float
    by: Mapping[str, Mapping[str, tuple[Score, Score | None]]]


def read(path: Path, catalog: Catalog) -> Measurements:
    """Rows of a CSV file with a header, predicted.

    Rows whose model or chip the catalog does not know, or whose layout it cannot time, are skipped, and say why.
    Raises MeasurementsError: the file cannot be read, lacks a column, has a wrong value, or no row can be predicted.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            missing = [name for name in (*NAMES, *NUMBERS) if name not in (rows.fieldnames or ())]
            if missing:
                raise MeasurementsError(f"{path}: the header lacks {', '.join(missing)}; it needs {_form()}")
            read_rows = [_read_row(path, rows.line_num, row, catalog) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MeasurementsError(f"{path}: cannot be read as CSV: {error}") from error
    points = tuple(row for row in read_rows if isinstance(row, Point))
    skipped = tuple(row for row in read_rows if isinstance(row, Skipped))
    if not points:
        first = f"; the first: line {skipped[0].line}, {skipped[0].why}" if skipped else ""
        raise MeasurementsError(f"{path}: no row can be predicted, of {len(skipped)}{first}")
    return Measurements(points, skipped)


def score(points: Iterable[Point]) -> Accuracy:
    """Raises ValueError if there is no point."""
    points = list(points)
    factors = calibrations(points)
    held_out = [point for point in points if point.curve in factors and point.batch != CALIBRATED_AT]
    calibrated = _calibrated(held_out, factors)
    streaming = [point for point in points if isinstance(point.accelerator, Gpu)]
    layer = median(point.measured / point.architecture.layers for point in points)
    return Accuracy(
        overall=_score(points, lambda point: point.predicted),
        calibrated=calibrated,
        calibrated_curves=len({point.curve for point in held_out}),
        curves=len({point.curve for point in points}),
        active_bytes=_score(streaming, active_bytes_seconds) if streaming else None,
        per_layer=_score(points, lambda point: layer * point.architecture.layers),
        seconds_per_layer=layer,
        by={
            name: {value: _of_both(part, factors) for value, part in _split(points, key)}
            for name, key in BREAKDOWNS.items()
        },
    )


def calibrations(points: Iterable[Point]) -> dict[tuple[str, ...], float]:
    """The factor on the times of each curve that has points at CALIBRATED_AT: their geometric mean, if several."""
    logs: dict[tuple[str, ...], list[float]] = {}
    for point in points:
        if point.batch == CALIBRATED_AT:
            logs.setdefault(point.curve, []).append(math.log(point.measured / point.predicted))
    return {curve: math.exp(fmean(values)) for curve, values in logs.items()}


def active_bytes_seconds(point: Point) -> float:
    """Time to stream the weights that one token needs from memory: a memory roofline and nothing else."""
    assert isinstance(point.accelerator, Gpu)
    model, deployment = point.architecture, point.deployment
    experts = model.expert_params * model.expert_layers * model.experts_active
    weights = deployment.dense_bytes * model.dense_params + deployment.expert_bytes * experts
    return weights / (deployment.chips * point.accelerator.bandwidth)


BREAKDOWNS: Mapping[str, Callable[[Point], str]] = {
    "model": lambda point: point.architecture.name,
    "accelerator": lambda point: point.accelerator.name,
    "engine": lambda point: point.labels["engine"] or "not said",
    "batch": lambda point: _range(point.batch),
}


def _range(batch: float) -> str:
    """From one power of two up to the next: a file has batches in between, and few of each."""
    low = 2 ** int(math.log2(max(1.0, batch)))
    return f"{low}-{2 * low - 1}" if low > 1 else "1"


def _split(points: list[Point], key: Callable[[Point], str]) -> list[tuple[str, list[Point]]]:
    parts: dict[str, list[Point]] = {}
    for point in points:
        parts.setdefault(key(point), []).append(point)
    return sorted(parts.items(), key=lambda part: _order(part[0]))


def _order(value: str) -> tuple[float, str]:
    """Batches as numbers, names as names."""
    first = value.split("-")[0]
    return (float(first), value) if first.isdigit() else (math.inf, value)


def _of_both(points: list[Point], factors: Mapping[tuple[str, ...], float]) -> tuple[Score, Score | None]:
    held_out = [point for point in points if point.curve in factors and point.batch != CALIBRATED_AT]
    return _score(points, lambda point: point.predicted), _calibrated(held_out, factors)


def _calibrated(held_out: list[Point], factors: Mapping[tuple[str, ...], float]) -> Score | None:
    return _score(held_out, lambda point: point.predicted * factors[point.curve]) if held_out else None


def _score(points: list[Point], seconds: Callable[[Point], float]) -> Score:
    errors = [point.measured / seconds(point) - 1 for point in points]
    return Score(
        n=len(points),
        mape=fmean(map(abs, errors)),
        median=median(map(abs, errors)),
        bias=fmean(errors),
        median_bias=median(errors),
        mape_time=fmean(abs(1 / (1 + error) - 1) for error in errors),
    )


def _read_row(path: Path, line: int, row: Mapping[str, str | None], catalog: Catalog) -> Point | Skipped:
    numbers = {name: _number(path, line, name, row.get(name)) for name in NUMBERS}
    numbers |= {
        name: _number(path, line, name, row[name]) if row.get(name) else default for name, default in OPTIONAL.items()
    }
    for name in WHOLE:
        if numbers[name] != int(numbers[name]):
            raise MeasurementsError(f"{path}: line {line}, {name} is {row[name]}; it must be a whole number")
    model, chip = (row[name] or "" for name in NAMES)
    if model not in catalog.architectures:
        return Skipped(line, f"the catalog has no architecture {model!r}")
    if chip not in catalog.accelerators:
        return Skipped(line, f"the catalog has no accelerator {chip!r}")
    deployment = Deployment(
        tensor_parallel=int(numbers["tensor_parallel"]),
        data_parallel=int(numbers["data_parallel"]),
        pipeline_parallel=int(numbers["pipeline_parallel"]),
        dense_bytes=numbers["dense_bytes"],
        expert_bytes=numbers["expert_bytes"],
        kv_bytes=numbers["kv_bytes"],
    )
    accelerator, architecture = catalog.accelerators[chip], catalog.architectures[model]
    step = fold(accelerator, architecture, deployment)
    if isinstance(accelerator, Gpu) and deployment.pipeline_parallel > 1:
        return Skipped(line, "the step time of pipelined GPUs is not known")
    return Point(
        labels={name: row.get(name) or "" for name in LABELS},
        curve=tuple(row.get(name) or "" for name in CURVE),
        batch=numbers["batch"],
        prompt=numbers["input_tokens"],
        output=numbers["output_tokens"],
        accelerator=accelerator,
        architecture=architecture,
        deployment=deployment,
        measured=numbers["tpot_ms"] / 1e3,
        predicted=tpot(step, numbers["batch"], numbers["input_tokens"], numbers["output_tokens"]),
    )


def _number(path: Path, line: int, name: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise MeasurementsError(f"{path}: line {line}, {name} is {text!r}; it must be a number above 0")
    return value


def _form() -> str:
    return ", ".join((*NAMES, *NUMBERS)) + "; and may have " + ", ".join((*OPTIONAL, *LABELS))
