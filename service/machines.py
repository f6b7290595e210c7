"""Accelerators, architectures and deployments as a catalog writes them, in the units of data sheets.

Knows nothing of what is sold on them.
"""

from collections.abc import Mapping

from service.hardware import Accelerator, Gpu, Wafer
from service.models import Model
from service.roofline import Deployment, Speculation, fold
from service.toml_table import Table

LEAST_BYTES = 0.125  # one bit per element


def read_accelerator(name: str, table: Table) -> Accelerator:
    accelerator: Accelerator
    if table.one_of("kind", ["gpu", "wafer"]) == "gpu":
        accelerator = Gpu(
            name=name,
            bandwidth=table.number("bandwidth_tb_s", above=0) * 1e12,
            memory=table.number("memory_gb", above=0) * 1e9,
            flops_bf16=table.number("bf16_tflops", above=0) * 1e12,
            flops_fp8=table.number("fp8_tflops", above=0) * 1e12,
            flops_fp4=table.number("fp4_tflops", above=0) * 1e12,
            link=table.number("link_gb_s", above=0) * 1e9,
            dollars_per_hour=table.number("dollars_per_hour", at_least=0),
        )
    else:
        accelerator = Wafer(
            name=name,
            memory=table.number("memory_gb", above=0) * 1e9,
            usable_share=table.number("usable_share", above=0, at_most=1),
            layer_seconds=table.number("layer_us", above=0) / 1e6,
            hop_seconds=table.number("hop_us", at_least=0) / 1e6,
            flops=table.number("pflops", above=0) * 1e15,
            prefill_share=table.number("prefill_share", above=0, at_most=1),
            dollars_per_hour=table.number("dollars_per_hour", at_least=0),
        )
    table.done()
    return accelerator


def read_architecture(name: str, table: Table) -> Model:
    layers = table.integer("layers", at_least=1)
    experts = table.integer("experts", 1, at_least=1)
    model = Model(
        name=name,
        layers=layers,
        hidden=table.integer("hidden", at_least=1),
        dense_params=table.number("dense_params", above=0),
        embedding_params=table.number("embedding_params", above=0),
        kv_per_token=table.number("kv_per_token", above=0),
        kv_heads=table.integer("kv_heads", at_least=1),
        attention_flops=table.number("attention_flops", at_least=0),
        expert_params=table.number("expert_params", 0, at_least=0),
        expert_layers=table.integer("expert_layers", 0, at_least=0, at_most=layers),
        experts=experts,
        experts_active=table.integer("experts_active", 1, at_least=1, at_most=experts),
        window=table.integer("window", 0, at_least=0),
        window_kv_per_token=table.number("window_kv_per_token", 0, at_least=0),
        state=table.number("state", 0, at_least=0),
        sparse_topk=table.integer("sparse_topk", 0, at_least=0),
        indexer_kv_per_token=table.number("indexer_kv_per_token", 0, at_least=0),
    )
    if bool(model.expert_layers) != (model.expert_params > 0):
        raise table.error("expert_params", "expert_params and expert_layers belong together: give both or neither")
    table.done()
    return model


def read_deployment(
    table: Table, accelerators: Mapping[str, Accelerator], architectures: Mapping[str, Model]
) -> tuple[Accelerator, Model, Deployment]:
    accelerator = accelerators[table.one_of("accelerator", list(accelerators))]
    architecture = architectures[table.one_of("architecture", list(architectures))]
    deployment = Deployment(
        tensor_parallel=table.integer("tensor_parallel", 1, at_least=1),
        data_parallel=table.integer("data_parallel", 1, at_least=1),
        pipeline_parallel=table.integer("pipeline_parallel", 1, at_least=1),
        dense_bytes=table.number("dense_bytes", at_least=LEAST_BYTES, at_most=4),
        expert_bytes=table.number("expert_bytes", 1, at_least=LEAST_BYTES, at_most=4),
        kv_bytes=table.number("kv_bytes", at_least=LEAST_BYTES, at_most=4),
        speculation=_read_speculation(table),
        scale=table.number("scale", 1, above=0),
    )
    table.done()
    if isinstance(accelerator, Gpu) and deployment.pipeline_parallel > 1:
        raise table.error("pipeline_parallel", "the step time of pipelined GPUs is not known; use tensor_parallel")
    if isinstance(accelerator, Wafer) and deployment.chips > deployment.pipeline_parallel:
        raise table.error(
            "tensor_parallel", "wafers stand in a row, each with some of the layers; use pipeline_parallel"
        )
    heads, ways = architecture.kv_heads, deployment.tensor_parallel
    if heads % ways and ways % heads:
        raise table.error("tensor_parallel", f"is {ways}: {heads} KV heads can neither be dealt nor copied out evenly")
    if fold(accelerator, architecture, deployment).kv_capacity <= 0:
        billions = architecture.total_params / 1e9
        raise table.error(
            "architecture", f"its {billions:.0f}B weights leave no memory for KV on {deployment.chips} chips"
        )
    return accelerator, architecture, deployment


def _read_speculation(deployment: Table) -> Speculation:
    if "speculation" not in deployment:
        return Deployment().speculation
    table = deployment.table("speculation")
    speculation = Speculation(
        table.integer("drafts", at_least=0, at_most=16),
        table.number("alpha", above=0, at_most=1),
        table.number("delta", above=0, at_most=1),
    )
    table.done()
    return speculation
