"""Catalogs of synthetic pools whose streams run at known rates, each with no more pools than its test needs.

A wafer with 4,096 stages serves as many sequences at one speed: a step is 4,096 x layer_us. A prompt costs what
`prefill` says, and KV nothing.
"""

from dataclasses import dataclass
from pathlib import Path

STAGES = 4096
PARAMETERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool and a model of the same name that it serves. Rates in tokens per second, times in seconds."""

    name: str
    rate: float = 1000.0
    slots: int = 256
    queue: int = 10_000
    wait: float = 60.0
    prefill: float = 1e9
    input_price: float = 1.0  # $/MTok
    output_price: float = 2.0


SWIFT = Pool(name="swift", prefill=20_000)
NARROW = Pool(name="narrow", slots=1, queue=4)
HASTY = Pool(name="hasty", slots=1, wait=0.5)
READER = Pool(name="reader", prefill=100)

# s; what takes a minute by default, and has to be waited for in a test
STALL_MAX = 2.0
LEASE, REPLY_TTL, GRACE, DRAIN_DELAY = 0.8, 4.0, 2.0, 0.5
IMPATIENT = {
    "FASTMODE_LEASE": str(LEASE),
    "FASTMODE_REPLY_TTL": str(REPLY_TTL),
    "FASTMODE_GRACE": str(GRACE),
    "FASTMODE_DRAIN_DELAY": str(DRAIN_DELAY),
}


def catalog(directory: Path, *pools: Pool) -> Path:
    path = directory / "catalog.toml"
    path.write_text(_SHARED + "".join(map(_pool, pools)))
    return path


_SHARED = f"""
extends = "default"

[sources.synthetic]
kind = "assumed"
date = "2026-11"
reference = "Made up, so that the rate of a stream is known exactly"

[architectures.stages]
layers = {STAGES}
hidden = 1
dense_params = {PARAMETERS}
embedding_params = 1000
kv_per_token = 1
kv_heads = 1
attention_flops = 0
source = "synthetic"
"""


def _pool(pool: Pool) -> str:
    return f"""
[accelerators.{pool.name}]
kind = "wafer"
memory_gb = 1000
usable_share = 1
layer_us = {1e6 / pool.rate / STAGES!r}
hop_us = 0
pflops = {2 * PARAMETERS * pool.prefill / 1e15!r}
prefill_share = 1
dollars_per_hour = 1
source = "synthetic"

[pools.{pool.name}]
replicas = 1
max_batch = {pool.slots}
prefill_chunk = 1_000_000
ambient = {{ sequences = 0, context = 1 }}
front_end = {{ median_ms = 0, sigma = 0 }}
queue = {{ max = {pool.queue}, wait_max_s = {pool.wait} }}
utilisation = 1
source = "synthetic"

[pools.{pool.name}.deployment]
accelerator = "{pool.name}"
architecture = "stages"
dense_bytes = 1
kv_bytes = 1
source = "synthetic"

[models.{pool.name}]
owned_by = "fastmode"
created = 2026-11-30
context_window = 128_000
max_output = 128_000
modalities = ["text"]
default_tier = "standard"
source = "synthetic"

[models.{pool.name}.offers.standard]
pool = "{pool.name}"
reported_as = "default"
price = {{ input = {pool.input_price}, cached_input = {pool.input_price / 10!r}, output = {pool.output_price} }}
"""
