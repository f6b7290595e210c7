"""Time per output token of a deployment that always has the same number of requests in flight, as benchmarks run it.

As soon as one of B requests ends, the next begins, so a share of the steps carries the prefill of the newcomers. With i
prompt and o output tokens each, contexts have i + o/2 tokens in the mean, n = min(B, what the KV cache holds) requests
decode, and

    f = min(1, n/o * ceil(i/chunk))          share of the steps that carry prefill
    p = n*i/o/f                              prefill tokens in each of those
    TPOT = t(n, S) + f * (t(n, S, p, p*i/2) - t(n, S))

Knows nothing about measurements.
"""

from math import ceil

from service.roofline import StepTime

PREFILL_CHUNK = 8192  # tokens of prefill in one step, as vLLM and SGLang ship it


def tpot(step: StepTime, in_flight: float, prompt: float, output: float) -> float:
    """Seconds per output token of each of `in_flight` requests with `prompt` and `output` tokens."""
    context = prompt + output / 2
    n = max(1.0, min(in_flight, step.kv_capacity / context))
    S = n * (min(context, step.sparse_topk) if step.sparse_topk else context)
    share = min(1.0, n / output * ceil(prompt / PREFILL_CHUNK))
    p = n * prompt / output / share
    base = step.seconds(n, S)
    return (base + share * (step.seconds(n, S, p, p * prompt / 2) - base)) / step.emitted
