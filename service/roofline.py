"""How long one step of an engine takes. A deployment folds to seven numbers; a step is one formula of them.

    t = c0 + ce*(1 - q^m) + cm*n + cp*p + ck*S + cs*n + ca*A        m = n*(1 + drafts) + p

n decode sequences with S context tokens in sum; p prefill tokens, A = sum over prefill chunks of (tokens x mean
attended context). Memory, compute and latency terms are summed, not maximised: this is as accurate on published
measurements and affine in (n, S) but for the expert term, which lets an engine skip over steps in closed form.

On a wafer the weights do not move. A token passes one stage per layer, so a step costs the same until every stage holds
a sequence, and then grows with the queue in front of the stages:

    t = c0*max(1, n/stages) + cp*p + ca*A

Constants are fitted to 1,719 published end-to-end measurements (github.com/ai-dynamo/aiconfigurator, Apache-2.0,
commit 095f58a of 2026-08-21, from InferenceX runs 2025-10 to 2026-04: H100, H200, B200, B300; ten models; batch 1 to
512): mean absolute error of the speed per user 15 %, median 11 %. Not validated: AMD, contexts above 9k tokens,
prefix-cache hits.

Knows nothing about queues, batches, prices or names.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

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
        attended = min(context, self.sparse_topk) if self.sparse_topk else context
        return self.emitted / self.seconds(n, n * attended)

    def slope(self) -> float:
        """d seconds / d S: what one more context token costs in each step."""
        return self.ck


def fold(accelerator: Accelerator, model: Model, deployment: Deployment) -> StepTime:
    """The seven numbers of `model` on `accelerator`, laid out as `deployment` says."""
    match accelerator:
        case Gpu():
            return _fold_gpu(accelerator, model, deployment)
        case Wafer():
            return _fold_wafer(accelerator, model, deployment)


def _fold_gpu(gpu: Gpu, model: Model, deployment: Deployment) -> StepTime:
    t, d, chips = deployment.tensor_parallel, deployment.data_parallel, deployment.chips
    bandwidth = gpu.bandwidth * BANDWIDTH_EFFICIENCY
    # Every weight format is charged against the BF16 peak: measured narrow-format kernels do not pass it in serving.
    flops = chips * gpu.flops_bf16
    expert_weights = model.expert_params * model.expert_layers
    kv_shards = min(t, model.kv_heads)

    reduce = 4 * model.layers * (t - 1) / t * model.hidden * 2 / (gpu.link * LINK_EFFICIENCY) / d
    c0 = model.layers * _layer_seconds(model, chips) + deployment.dense_bytes * model.dense_params / (t * bandwidth)
    ce = deployment.expert_bytes * expert_weights * model.experts / (chips * bandwidth)
    cm = 2 * model.active_params / flops + reduce
    prefill_params = model.dense_params + expert_weights * model.experts_active / EXPERT_PREFILL_EFFICIENCY
    cp = 2 * prefill_params / flops + reduce
    ca = model.attention_flops / flops
    ck = deployment.kv_bytes * _kv_elements(model) / (kv_shards * d * bandwidth)
    window_bytes = deployment.kv_bytes * model.window * model.window_kv_per_token / kv_shards
    cs = SEQUENCE_SECONDS / d + (window_bytes + 4 * model.state / t) / (d * bandwidth)

    # k sequential one-layer drafts, then one pass that verifies k + 1 tokens of every sequence.
    k = deployment.speculation.drafts
    stretch = 1 + k / model.layers
    draft_head = model.embedding_params * 2 / (t * bandwidth)
    scale = deployment.scale
    return StepTime(
        c0=scale * (c0 * stretch + k * draft_head),
        ce=scale * ce * stretch,
        q=1 - model.experts_active / model.experts,
        cm=scale * cm * (1 + k) * stretch,
        cp=scale * cp,
        ck=scale * (ck + (1 + k) * ca) * stretch,
        cs=scale * cs * stretch,
        ca=scale * ca,
        drafts=k,
        emitted=deployment.speculation.emitted,
        emission=deployment.speculation.emission,
        sparse_topk=model.sparse_topk,
        kv_capacity=_kv_capacity_gpu(gpu, model, deployment),
    )


def _layer_seconds(model: Model, chips: int) -> float:
    if model.expert_layers and chips > BOARD_CHIPS:
        return LAYER_SECONDS_WIDE_EXPERTS
    if model.sparse_topk:
        return LAYER_SECONDS_SPARSE_ATTENTION
    return LAYER_SECONDS_EXPERTS if model.expert_layers else LAYER_SECONDS_DENSE


def _kv_capacity_gpu(gpu: Gpu, model: Model, deployment: Deployment) -> float:
    t, chips = deployment.tensor_parallel, deployment.chips
    dense = deployment.dense_bytes * (model.dense_params + model.embedding_params) / t
    experts = deployment.expert_bytes * model.expert_params * model.expert_layers * model.experts / chips
    free = max(0.0, gpu.memory * MEMORY_SHARE - MEMORY_RESERVED - (dense + experts))
    copies = t / min(t, model.kv_heads)
    return free * chips / (deployment.kv_bytes * _kv_elements(model) * copies)


def _fold_wafer(wafer: Wafer, model: Model, deployment: Deployment) -> StepTime:
    """Drafts of one layer each lengthen the way of a token; verifying k + 1 tokens takes no longer than one."""
    wafers, k, scale = deployment.pipeline_parallel, deployment.speculation.drafts, deployment.scale
    way = (model.layers + k) * wafer.layer_seconds + (wafers - 1) * wafer.hop_seconds
    prefill_flops = wafers * wafer.flops * wafer.prefill_share
    dense = deployment.dense_bytes * (model.dense_params + model.embedding_params)
    experts = deployment.expert_bytes * model.expert_params * model.expert_layers * model.experts
    free = max(0.0, wafers * wafer.memory * wafer.usable_share - dense - experts)
    return StepTime(
        c0=scale * way,
        cp=scale * 2 * model.active_params / prefill_flops,
        ca=scale * model.attention_flops / prefill_flops,
        drafts=k,
        emitted=deployment.speculation.emitted,
        emission=deployment.speculation.emission,
        stages=model.layers,
        sparse_topk=model.sparse_topk,
        kv_capacity=free / (deployment.kv_bytes * _kv_elements(model)),
    )


def _kv_elements(model: Model) -> float:
    return model.kv_per_token + model.indexer_kv_per_token
