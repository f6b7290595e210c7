"""How long one step of an engine takes. A deployment folds to seven numbers; a step is one formula of them.

    t = c0 + ce*(1 - q^m) + cm*n + cp*p + ck*S + cs*n + ca*A        m = n*(1 + drafts) + p

n decode sequences with S context tokens in sum; p prefill tokens, A = sum over prefill chunks of (tokens x mean
attended context). Memory, compute and latency terms are summed, not maximised: this is as accurate on published
measurements and affine in (n, S) but for the expert term, which lets an engine skip over steps in closed form.

On a wafer the weights do not move. A token passes one stage per layer, so a step costs the same until every stage holds
a sequence, and then grows with the queue in front of the stages:

    t = c0*max(1, n/stages) + cp*p + ca*A

Each coefficient is a sum over causes, such as reading weights or waiting for layers. `fold` adds them up and `causes`
keeps them apart, so that what explains a step and what runs it cannot differ.

Constants are fitted to 1,719 published end-to-end measurements (github.com/ai-dynamo/aiconfigurator, Apache-2.0,
commit 095f58a of 2026-08-21, from InferenceX runs 2025-10 to 2026-04: H100, H200, B200, B300; ten models; batch 1 to
512): mean absolute error of the speed per user 15 %, median 11 %. Not validated: AMD, contexts above 9k tokens,
prefix-cache hits.

Knows nothing about queues, batches, prices or names.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from service.hardware import Accelerator, Gpu, Wafer
from service.models import Model

BANDWIDTH_EFFICIENCY = 0.90  # achieved / nominal memory bandwidth
LINK_EFFICIENCY = 0.60  # achieved / nominal scale-up bandwidth of an all-reduce
EXPERT_PREFILL_EFFICIENCY = 0.25  # routed-expert FLOP of prefill tokens, against the dense BF16 peak
MEMORY_SHARE = 0.90  # of a GPU's memory that weights and KV may fill
MEMORY_RESERVED = 3e9  # bytes a GPU loses to activations and graphs

# What a layer costs however small the batch: launches, norms, all-reduce, router (seconds).
LAYER_SECONDS_DENSE = 63e-6
LAYER_SECONDS_EXPERTS = 109e-6
LAYER_SECONDS_SPARSE_ATTENTION = 185e-6
LAYER_SECONDS_WIDE_EXPERTS = 200e-6  # experts spread over more chips than one scale-up board holds
BOARD_CHIPS = 8
SEQUENCE_SECONDS = 20e-6  # sampler, scheduler and detokeniser for each sequence in each step


@dataclass(frozen=True, slots=True)
class Speculation:
    """`drafts` tokens are guessed in each step and verified in one pass (Leviathan et al. 2023).

    Draft i (from 0) is accepted with probability alpha*delta^i if all before it were.
    """

    drafts: int
    alpha: float
    delta: float

    @property
    def emission(self) -> tuple[float, ...]:
        """P(1), ..., P(drafts + 1): how many tokens a step yields."""
        reached = [math.prod(self.alpha * self.delta**i for i in range(j)) for j in range(self.drafts + 1)] + [0.0]
        return tuple(here - beyond for here, beyond in pairwise(reached))

    @property
    def emitted(self) -> float:
        """Mean tokens a step yields: 1 + sum over j = 1..drafts of prod over i < j of alpha*delta^i."""
        return sum(math.prod(self.alpha * self.delta**i for i in range(j)) for j in range(self.drafts + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How a model is laid out on chips. `*_bytes` are bytes per element."""

    tensor_parallel: int = 1
    data_parallel: int = 1
    pipeline_parallel: int = 1  # wafers in a row; a GPU deployment has one stage
    dense_bytes: float = 1.0
    expert_bytes: float = 1.0
    kv_bytes: float = 1.0
    speculation: Speculation = Speculation(0, 0.0, 1.0)
    scale: float = 1.0  # one-point calibration against a measured step

    @property
    def chips(self) -> int:
        return self.tensor_parallel * self.data_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """A deployment, folded. Coefficients are in seconds and already those of a step with `drafts` drafts.

    S and A count at most `sparse_topk` tokens of each context where that is positive.
    """

    c0: float
    ce: float = 0.0
    q: float = 0.0  # probability that one token leaves an expert untouched
    cm: float = 0.0
    cp: float = 0.0
    ck: float = 0.0
    cs: float = 0.0
    ca: float = 0.0
    drafts: int = 0
    emitted: float = 1.0  # mean tokens a sequence gains in a decode step
    emission: tuple[float, ...] = (1.0,)  # P(1), ..., P(drafts + 1)
    stages: int = 0  # sequences in flight at full speed on a wafer; 0: not a wafer
    sparse_topk: int = 0
    kv_capacity: float = float("inf")  # tokens

    def seconds(self, n: float, S: float, p: float = 0, A: float = 0.0) -> float:
        """Duration of one step with n decode sequences of S context tokens in sum, and p prefill tokens."""
        if self.stages:
            return self.c0 * max(1.0, n / self.stages) + self.cp * p + self.ca * A
        touched = 1.0 - math.pow(self.q, n * (1 + self.drafts) + p)
        return self.c0 + self.ce * touched + (self.cm + self.cs) * n + self.cp * p + self.ck * S + self.ca * A

    def speed(self, n: float, context: float) -> float:
        """Tokens per second that each of n sequences gains, at `context` tokens each."""
        return self.emitted / self.seconds(n, n * self.attended(context))

    def attended(self, context: float) -> float:
        """Tokens of a context that count in S."""
        return min(context, self.sparse_topk) if self.sparse_topk else context

    def slope(self) -> float:
        """d seconds / d S: what one more context token costs in each step."""
        return self.ck


Cause = Literal[
    "latency",  # launches, norms, all-reduce start-up, router, layer after layer; on a wafer, the way through them
    "weights",  # the dense weights that every step reads
    "experts",  # the expert weights that the tokens of the step touch
    "kv",  # keys, values and states of the contexts
    "compute",
    "all-reduce",
    "sequences",  # sampler, scheduler, detokeniser
    "hops",  # from wafer to wafer
    "draft",  # guessing; verifying the guesses is part of the other causes
    "queueing",  # for the stages of a wafer
]


def fold(accelerator: Accelerator, model: Model, deployment: Deployment) -> StepTime:
    """The seven numbers of `model` on `accelerator`, laid out as `deployment` says."""
    return _step_time(_total(_causes(accelerator, model, deployment).values()), accelerator, model, deployment)


def causes(
    accelerator: Accelerator, model: Model, deployment: Deployment, n: float, S: float, p: float = 0, A: float = 0.0
) -> dict[Cause, float]:
    """Seconds of a step by cause. They sum to what `fold` says of the same step, but for rounding."""
    parts = {
        cause: _step_time(coefficients, accelerator, model, deployment)
        for cause, coefficients in _causes(accelerator, model, deployment).items()
    }
    if not isinstance(accelerator, Wafer):
        return {cause: part.seconds(n, S, p, A) for cause, part in parts.items()}
    staged = min(n, model.layers)
    queueing = sum(part.seconds(n, S) - part.seconds(staged, S) for part in parts.values())
    return {**{cause: part.seconds(staged, S, p, A) for cause, part in parts.items()}, "queueing": queueing}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Where the bytes of a whole deployment go. `kv_token` is what one token of context takes on all its chips."""

    total: float
    usable: float  # by weights and KV
    weights: float
    kv_token: float

    @property
    def kv_capacity(self) -> float:
        """Tokens."""
        return max(0.0, self.usable - self.weights) / self.kv_token


def memory(accelerator: Accelerator, model: Model, deployment: Deployment) -> Memory:
    t, chips = deployment.tensor_parallel, deployment.chips
    dense = deployment.dense_bytes * (model.dense_params + model.embedding_params)
    experts = deployment.expert_bytes * model.expert_params * model.expert_layers * model.experts
    kv_token = deployment.kv_bytes * (model.kv_per_token + model.indexer_kv_per_token)
    match accelerator:
        case Gpu():
            return Memory(
                total=chips * accelerator.memory,
                usable=chips * (accelerator.memory * MEMORY_SHARE - MEMORY_RESERVED),
                weights=dense * chips / t + experts,  # each group of t chips holds the dense weights
                kv_token=kv_token * t / min(t, model.kv_heads),
            )
        case Wafer():
            usable = chips * accelerator.memory * accelerator.usable_share
            return Memory(total=chips * accelerator.memory, usable=usable, weights=dense + experts, kv_token=kv_token)


class _Coefficients(NamedTuple):
    c0: float = 0.0
    ce: float = 0.0
    cm: float = 0.0
    cp: float = 0.0
    ck: float = 0.0
    cs: float = 0.0
    ca: float = 0.0

    def times(self, factor: float) -> "_Coefficients":
        return _Coefficients(*(factor * coefficient for coefficient in self))


def _total(parts: Iterable[_Coefficients]) -> _Coefficients:
    return _Coefficients(*map(sum, zip(*parts, strict=True)))


def _step_time(coefficients: _Coefficients, accelerator: Accelerator, model: Model, deployment: Deployment) -> StepTime:
    return StepTime(
        **coefficients._asdict(),
        q=1 - model.experts_active / model.experts,
        drafts=deployment.speculation.drafts,
        emitted=deployment.speculation.emitted,
        emission=deployment.speculation.emission,
        stages=model.layers if isinstance(accelerator, Wafer) else 0,
        sparse_topk=model.sparse_topk,
        kv_capacity=memory(accelerator, model, deployment).kv_capacity,
    )


def _causes(accelerator: Accelerator, model: Model, deployment: Deployment) -> Mapping[Cause, _Coefficients]:
    match accelerator:
        case Gpu():
            found = _causes_gpu(accelerator, model, deployment)
        case Wafer():
            found = _causes_wafer(accelerator, model, deployment)
    return {cause: coefficients.times(deployment.scale) for cause, coefficients in found.items()}


def _causes_gpu(gpu: Gpu, model: Model, deployment: Deployment) -> dict[Cause, _Coefficients]:
    t, d, chips = deployment.tensor_parallel, deployment.data_parallel, deployment.chips
    bandwidth = gpu.bandwidth * BANDWIDTH_EFFICIENCY
    # Every weight format is charged against the BF16 peak: measured narrow-format kernels do not pass it in serving.
    flops = chips * gpu.flops_bf16
    expert_weights = model.expert_params * model.expert_layers
    prefill_params = model.dense_params + expert_weights * model.experts_active / EXPERT_PREFILL_EFFICIENCY
    kv_shards = min(t, model.kv_heads)
    kv_bytes = deployment.kv_bytes * (model.kv_per_token + model.indexer_kv_per_token)
    window_bytes = deployment.kv_bytes * model.window * model.window_kv_per_token
    reduce = 4 * model.layers * (t - 1) / t * model.hidden * 2 / (gpu.link * LINK_EFFICIENCY) / d
    attention = model.attention_flops / flops

    # One pass verifies the drafts with the token before them, for every sequence ...
    k = deployment.speculation.drafts
    verified = 1 + k
    found: dict[Cause, _Coefficients] = {
        "latency": _Coefficients(c0=model.layers * _layer_seconds(model, chips)),
        "weights": _Coefficients(c0=deployment.dense_bytes * model.dense_params / (t * bandwidth)),
        "experts": _Coefficients(ce=deployment.expert_bytes * expert_weights * model.experts / (chips * bandwidth)),
        "kv": _Coefficients(
            ck=kv_bytes / (kv_shards * d * bandwidth),
            cs=(window_bytes / kv_shards + 4 * model.state / t) / (d * bandwidth),
        ),
        "compute": _Coefficients(
            cm=verified * 2 * model.active_params / flops,
            cp=2 * prefill_params / flops,
            ck=verified * attention,
            ca=attention,
        ),
        "all-reduce": _Coefficients(cm=verified * reduce, cp=reduce),
        "sequences": _Coefficients(cs=SEQUENCE_SECONDS / d),
    }
    # ... after k passes of a draft of one layer, each with an output head of its own. Prefill is not drafted.
    head = _Coefficients(c0=k * model.embedding_params * 2 / (t * bandwidth))
    passes = _total(found.values())._replace(cp=0.0, ca=0.0).times(k / model.layers)
    return {**found, "draft": _total((head, passes))}


def _layer_seconds(model: Model, chips: int) -> float:
    if model.expert_layers and chips > BOARD_CHIPS:
        return LAYER_SECONDS_WIDE_EXPERTS
    if model.sparse_topk:
        return LAYER_SECONDS_SPARSE_ATTENTION
    return LAYER_SECONDS_EXPERTS if model.expert_layers else LAYER_SECONDS_DENSE


def _causes_wafer(wafer: Wafer, model: Model, deployment: Deployment) -> dict[Cause, _Coefficients]:
    """Drafts of one layer each lengthen the way of a token; verifying k + 1 tokens takes no longer than one."""
    wafers = deployment.pipeline_parallel
    flops = wafers * wafer.flops * wafer.prefill_share
    return {
        "latency": _Coefficients(c0=model.layers * wafer.layer_seconds),
        "hops": _Coefficients(c0=(wafers - 1) * wafer.hop_seconds),
        "draft": _Coefficients(c0=deployment.speculation.drafts * wafer.layer_seconds),
        "compute": _Coefficients(cp=2 * model.active_params / flops, ca=model.attention_flops / flops),
    }
