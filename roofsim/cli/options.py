"""Give every verb the same scenario options, generated from one list, and turn them into overrides."""

from __future__ import annotations

import functools
import inspect
from typing import Annotated, Any, Final

import typer

#: Option -> help. The names are those of the scenario's keys; a test holds this list against the schema.
SCENARIO_OPTIONS: Final = {
    "gpu": "GPU: a catalog name such as a100, h100, rtx4090.",
    "gpus": "Number of GPUs.",
    "system": "Node: a catalog name such as dgx-a100.",
    "calibration": "Constants measured on the card: a file of `roofsim calibrate fit --overlay`.",
    "mtbf": "Mean time between failures of the whole job: 5 h.",
    "mtbf_per_gpu": "The same of one GPU: 50000 h.",
    "restart": "Time from a failure to the next step, beside reading the checkpoint; 5 min.",
    "jitter": "Standard deviation of the time of one rank's step, as a share of it: 0.02.",
    "phase": "train, forward, prefill, decode or generate.",
    "micro_batch_size": "Sequences or images per pass of one rank.",
    "batch_size": "The inference word for the same.",
    "global_batch_size": "Sequences per optimizer step, over all ranks.",
    "sequence_length": "Tokens per sequence; of an encoder-decoder positions of the encoder.",
    "image_size": "Side of an image in pixels.",
    "target_length": "Decoder tokens of an encoder-decoder.",
    "num_inference_steps": "Passes of the denoiser of a diffusion pipeline.",
    "prompt_length": "Tokens of a prompt; of an encoder-decoder those that the decoder starts from.",
    "output_length": "Tokens to generate.",
    "context_length": "Tokens in the cache before decoding.",
    "concurrency": "serve: so many requests are always under way.",
    "request_rate": "serve: requests per second that arrive.",
    "serving": "serve: {max_num_seqs: 256, prefix_cache_hit_rate: 0.5, speculative: {...}, disaggregated: {...}, ...}.",
    "precision": "fp32, tf32, fp16, bf16, fp16-amp, bf16-amp, fp8, mxfp8, nvfp4, mxfp4, int8, int4, nf4, q4_k_m, exl2-4.0bpw ...",
    "optimizer": "adamw, adamw-fused, adamw-loop, lamb, adam8bit, adam4bit, sgd, sgd-momentum, adafactor, lion, muon, none.",
    "adapter": "lora, qlora, or {kind: qlora, rank: 16, targets: [query, value]}.",
    "recompute": "none, selective, full, or {policy: full, every: 2}.",
    "engine": "Software stack: pytorch-eager, huggingface, ...",
    "attention": "flash, sdpa or unfused.",
    "memory_format": "channels_first or channels_last.",
    "dropout": "Dropout rate instead of the model's own.",
    "checkpoint": "{every: 500} steps, {interval: 30 min}, or {} for the best interval of --mtbf.",
    "input": "{bytes_per_sample: 110 kB, decode_time: 8 ms, workers: 8}: what feeds the steps.",
    "tensor": "Tensor-parallel degree.",
    "pipeline": "Pipeline stages.",
    "virtual_stages": "Model chunks per pipeline stage.",
    "schedule": "gpipe, 1f1b, interleaved or zero-bubble.",
    "data": "Data-parallel degree.",
    "context": "Context-parallel degree.",
    "context_communication": "p2p, all_gather, gathered_ring, a2a or a2a+p2p.",
    "context_heads": "Context ranks that deal heads out, of a2a+p2p.",
    "expert": "Expert-parallel degree.",
    "expert_tensor": "Ranks that split each expert.",
    "expert_imbalance": "Tokens of the busiest expert rank against the mean.",
    "expert_capacity": "Capacity factor of experts.",
    "stage_layers": "Layers of each pipeline stage: '[10, 12, 12, 11]'.",
    "account_for_embedding": "The embedding counts as a layer: true or false.",
    "account_for_loss": "Head and loss count as a layer: true or false.",
    "sequence": "Sequence parallelism along tensor: true or false.",
    "sharding": "none, optimizer, gradients, full.",
}


def scenario_options(verb: Any) -> Any:
    """Add the scenario options to a verb; it receives them as one mapping, `overrides`, in the order given."""
    own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "overrides"]
    taken = {p.name for p in own}
    options = {name: text for name, text in SCENARIO_OPTIONS.items() if name not in taken}
    shared = [_parameter(name, text) for name, text in options.items()]
    settings = inspect.Parameter(
        "settings",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="SECTION.KEY=VALUE",
                help="Set any key, for example hardware.override.gpu.memory.bandwidth='3 TB/s'.",
            ),
        ],
    )

    @functools.wraps(verb)
    def wrapped(**given: Any) -> Any:
        values = {name: given.pop(name) for name in options}
        chosen = [(name, value, "flag") for name, value in values.items() if value is not None]
        chosen += [_setting(text) for text in given.pop("settings") or []]
        return verb(**given, overrides=chosen)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared + [settings]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _parameter(name: str, text: str) -> inspect.Parameter:
    option = typer.Option(f"--{name.replace('_', '-')}", help=text, rich_help_panel="Scenario", metavar="VALUE")
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
    )


def _setting(text: str) -> tuple[str, str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise typer.BadParameter(
            f"expected SECTION.KEY=VALUE, for example workload.micro_batch_size=8; got {text!r}", param_hint="--set"
        )
    return key.strip(), value, "--set"
