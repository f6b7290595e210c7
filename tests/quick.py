"""The shipped catalog with nothing to wait for: every offer of every model is served by one pool of great speed.

Models, tiers, prices and rules are those that are sold; only what they run on is not.
"""

import re
from pathlib import Path

from service.tiers import SHIPPED

SETTINGS = {"FASTMODE_KEEPALIVE_EVERY": "0.2"}  # s; else a test would wait ten for one


def catalog(directory: Path) -> Path:
    """The path of the catalog, written into `directory`."""
    blocks = re.split(r"(?m)^(?=\[)", SHIPPED.read_text())
    models = "".join(block for block in blocks if block.startswith("[models."))
    path = directory / "catalog.toml"
    path.write_text('extends = "default"\n\n' + re.sub(r'\bpool = "[^"]+"', 'pool = "swift"', models) + _SWIFT)
    return path


_SWIFT = """
[sources.synthetic]
kind = "assumed"
date = "2026-11"
reference = "Made up, so that nothing but the path takes time"

[architectures.stages]
layers = 4096
hidden = 1
dense_params = 1000
embedding_params = 1000
kv_per_token = 1
kv_heads = 1
attention_flops = 0
source = "synthetic"

[accelerators.step-20us] # 50,000 tok/s
kind = "wafer"
memory_gb = 1000
usable_share = 1
layer_us = 0.0048828125
hop_us = 0
pflops = 1e9
prefill_share = 1
dollars_per_hour = 1
source = "synthetic"

[pools.swift]
replicas = 1
max_batch = 256
prefill_chunk = 1_000_000
ambient = { sequences = 0, context = 1 }
front_end = { median_ms = 0, sigma = 0 }
queue = { max = 1000, wait_max_s = 30 }
prefix_cache = { block = 128, minimum = 1024 }
utilisation = 1
source = "synthetic"

[pools.swift.deployment]
accelerator = "step-20us"
architecture = "stages"
dense_bytes = 1
kv_bytes = 1
source = "synthetic"
"""
