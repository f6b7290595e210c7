"""What a chip is: the facts a step time, a KV capacity and a bill are computed from. Knows no model and no deployment.

Two kinds of machine differ in what bounds a step: a GPU streams its weights from memory; a wafer keeps them in SRAM
next to the arithmetic and pays only for the layers a token passes through.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One chip. `bandwidth` and `link` (scale-up, one way) in bytes/s, `memory` in bytes, dense peaks in FLOP/s."""

    name: str
    bandwidth: float
    memory: float
    flops_bf16: float
    flops_fp8: float
    flops_fp4: float
    link: float
    dollars_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wafer:
    """One wafer of SRAM and cores.

    `memory` in bytes, of which `usable_share` can hold weights and KV; `layer_seconds` is what one token spends in one
    layer, `hop_seconds` what it pays to reach the next wafer; prefill runs at `prefill_share` of `flops` (FLOP/s).
    """

    name: str
    memory: float
    usable_share: float
    layer_seconds: float
    hop_seconds: float
    flops: float
    prefill_share: float
    dollars_per_hour: float


Accelerator = Gpu | Wafer
