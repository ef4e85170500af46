"""Small scenarios that tests share: one model of each family, and shortcuts to graphs and prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.api import resolve
from roofsim.evaluate import Evaluation, evaluate

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.spec.resolve import Resolved

#: A decoder that is small enough to unroll and still has every kind of layer a decoder has.
TINY = {
    "family": "decoder",
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "max_sequence_length": 256,
}
TINY_LLAMA = TINY | {
    "gated_mlp": True,
    "normalization": "rmsnorm",
    "position_embedding": "rotary",
    "num_key_value_heads": 2,
    "tie_embeddings": False,
    "intermediate_size": 160,
}
TINY_EXPERTS = TINY_LLAMA | {"num_experts": 8, "experts_per_token": 2, "num_dense_layers": 1, "num_shared_experts": 1}

#: A list of layers: a scan, attention and experts in units that repeat.
TINY_LAYERS: dict[str, Any] = {
    "family": "layers",
    "name": "tiny-layers",
    "max_sequence_length": 256,
    "sizes": {"hidden": 128, "heads": 4, "inner": "ceil(8 * hidden / 3 / 32) * 32"},
    "layers": [
        {"embedding": {"entries": 512, "width": "hidden"}},
        {
            "repeat": 2,
            "layers": [
                {"repeat": 2, "layers": [{"residual": ["rms_norm", {"mamba2": {"num_heads": 4, "chunk_size": 32}}]}]},
                {
                    "residual": [
                        "rms_norm",
                        {"attention": {"num_attention_heads": "heads", "position_embedding": "rotary"}},
                    ]
                },
                {"residual": ["rms_norm", {"mlp": {"intermediate_size": "inner", "gated_mlp": True}}]},
            ],
        },
        "rms_norm",
        {"logits": 512},
    ],
}

#: One catalog model of every family, with a size that keeps graphs small.
FAMILIES: dict[str, dict[str, Any]] = {
    "decoder": {"model": "gpt2-124m", "workload": {"sequence_length": 128}},
    "encoder": {"model": "bert-base", "workload": {"sequence_length": 128}},
    "encoder-decoder": {"model": "whisper-small", "workload": {"target_length": 32}},
    "vit": {"model": "vit-b16", "workload": {}},
    "swin": {"model": "swin-tiny-patch4-window7-224", "workload": {}},
    "mixer": {"model": "mixer-b16-224", "workload": {}},
    "resnet": {"model": "resnet50", "workload": {}},
    "vgg": {"model": "vgg16", "workload": {}},
    "densenet": {"model": "densenet121", "workload": {}},
    "inception": {"model": "inception-v3", "workload": {}},
    "regnet": {"model": "regnety-032", "workload": {}},
    "convnext": {"model": "convnext-tiny", "workload": {}},
    "efficientnet": {"model": "efficientnet-b0", "workload": {}},
    "mobilenet": {"model": "mobilenetv2-100", "workload": {}},
    "unet": {"model": "unet", "workload": {}},
    "ssd": {"model": "ssd300-resnet50", "workload": {}},
    "retinanet": {"model": "retinanet-resnet50-fpn", "workload": {}},
    "diffusion-unet": {"model": "sd15-unet", "workload": {}},
    "dit": {"model": "dit-xl2", "workload": {}},
    "mamba": {"model": "mamba-130m", "workload": {"sequence_length": 128}},
    "dlrm": {"model": "dlrm", "workload": {}},
    "layers": {"model": TINY_LAYERS, "workload": {"sequence_length": 128}},
}


def resolved(model: Any = None, **workload: Any) -> Resolved:
    """Resolve a model (a mapping or a name) with workload keys; hardware keys begin with ``hardware_``."""
    hardware = {
        key.removeprefix("hardware_"): workload.pop(key) for key in list(workload) if key.startswith("hardware_")
    }
    return resolve({"model": TINY if model is None else model, "workload": workload, "hardware": hardware})


def evaluated(model: Any = None, **workload: Any) -> Evaluation:
    """Evaluate a model with workload keys."""
    return evaluate(resolved(model, **workload))


def graph_of(model: Any = None, **workload: Any) -> OpGraph:
    """Return the graph of a model's only stage after all passes."""
    return evaluated(model, **workload).program.stages[0].graph


def spread(model: Any, parallel: dict[str, Any], **workload: Any) -> Evaluation:
    """Evaluate a model under a parallel layout."""
    hardware = {"gpu": workload.pop("gpu")} if "gpu" in workload else {}
    return evaluate(resolve({"model": model, "workload": workload, "parallel": parallel, "hardware": hardware}))
