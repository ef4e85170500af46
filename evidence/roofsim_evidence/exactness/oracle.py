"""Compare a model of the catalog with the oracle tables: real model code, traced by PyTorch over fake CUDA tensors.

Conventions of the tables (tests/truth/data): sizes are tokens per sequence, pixels a side, or (Whisper) the decoder's
tokens; ``sdpa`` is the kernel that `scaled_dot_product_attention` picks, ``eager`` products written out; ``amp`` is
bf16 autocast over fp32 weights. Two of their habits are met here, not in the product: an embedding or grouped matmul
counts its whole table as read, and the gradient of SiLU is six kernels.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.graph.base import HEAVY_KINDS, AbstractOp, Kind, Phase
from roofsim.graph.ops import Embedding, GroupedMatmul
from roofsim.graph.tensor import BF16, FP32
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.lower.flavour import Flavour
from roofsim.passes.autograd import Autograd
from roofsim.passes.partition import Partition
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute
from roofsim.spec import catalog
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.validate import validate
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.spec.model.base import ModelSpec

DATA: Final = measurements() / "oracle"

#: Oracle name -> catalog name.
CATALOG: Final = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "convnext_tiny": "convnext-tiny",
    "convnext_base": "convnext-base",
    "vit_b16": "vit-b16",
    "vit_l16": "vit-l16",
    "bert_base": "bert-base",
    "bert_large": "bert-large",
    "gpt2_124m": "gpt2-124m",
    "gpt2_355m": "gpt2-355m",
    "gpt2_774m": "gpt2-774m",
    "gpt2_1558m": "gpt2-1558m",
    "llama2_7b": "llama2-7b",
    "llama2_13b": "llama2-13b",
    "llama2_70b": "llama2-70b",
    "llama3_8b": "llama3-8b",
    "llama3_70b": "llama3-70b",
    "mixtral_8x7b": "mixtral-8x7b",
    "qwen2_7b": "qwen2-7b",
    "qwen3_8b": "qwen3-8b",
    "deepseek_v2_lite": "deepseek-v2-lite",
    "deepseek_v3": "deepseek-v3",
    "whisper_small": "whisper-small",
    "whisper_large_v2": "whisper-large-v2",
    "sd15_unet": "sd15-unet",
    "sdxl_unet": "sdxl-unet",
    "dit_xl2": "dit-xl2",
    "sd3_medium": "sd3-medium",
    "llama_1b": "llama3.2-1b",
    "swin_tiny": "swin-tiny-patch4-window7-224",
    "mixtral_tiny": "mixtral-8x7b",
}

#: Models of the tables that have the code of a model in the catalog and sizes of their own.
SIZES: Final[dict[str, dict[str, int]]] = {
    "mixtral_tiny": {
        "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4, "head_size": 64, "intermediate_size": 3584,
    },
}  # fmt: skip

#: Families whose library code takes the loss on the logits as they come; the others widen them first.
NATIVE_LOSS: Final = frozenset({"encoder", "encoder-decoder"})

#: What the tables call heavy in bytes.
HEAVY_BYTES: Final = HEAVY_KINDS | {Kind.EMBEDDING, Kind.GATHER, Kind.POOLING}

PHASES: Final = {"fwd": Phase.FORWARD, "bwd": Phase.BACKWARD}

Row = dict[str, str]


@cache
def rows(table: str) -> tuple[Row, ...]:
    """Return the rows of ``oracle_<table>.csv``."""
    with (DATA / f"oracle_{table}.csv").open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


@cache
def model(oracle_name: str) -> ModelSpec:
    """Return the catalog's model of an oracle name."""
    document = catalog.load("model", CATALOG[oracle_name])
    spec = validate(family_schema(document.data["family"]), document)
    return spec.model_copy(update=SIZES[oracle_name]) if oracle_name in SIZES else spec


@cache
def step(
    name: str,
    batch: float,
    size: float,
    precision: str = "bf16",
    attention: str = "sdpa",
    dropout: str = "default",
    checkpointed: str = "0",
    layers: int | None = None,
) -> OpGraph:
    """Return the training step that a row measured, or that of the model with another number of layers."""
    spec = model(name)
    if layers is not None:
        spec = spec.model_copy(update={"num_layers": layers})
    compute, stored = (FP32 if precision == "fp32" else BF16), (BF16 if precision == "bf16" else FP32)
    flavour = Flavour.of(
        attention="unfused" if attention == "eager" else "sdpa",
        rms_norm="chain",
        gelu_new="chain",
        rotary="chain",
        cross_entropy="native" if spec.family in NATIVE_LOSS else "upcast",
        dropout=None if dropout == "default" else float(dropout),
    )
    lengths: dict[str, Any] = {"target_length" if spec.family == "encoder-decoder" else "length": size}
    amp = precision == "amp"
    call = Call(batch=batch, compute=compute, autocast=amp, flavour=flavour, **lengths)
    typed = AssignPrecision(compute=compute, parameters=stored, autocast=amp)(lower(spec, call))
    graph = Autograd(silu_backward="decomposed")(typed)
    return (Recompute()(graph) if checkpointed == "1" else graph).verify()


def step_of(row: Row, **changes: Any) -> OpGraph:
    """Return the training step of a row of any table."""
    given = {
        "precision": row.get("precision", "bf16"),
        "attention": row["attn"],
        "dropout": row.get("dropout", "default"),
        "checkpointed": row.get("grad_ckpt", "0"),
    }
    return step(row["model"], float(row["batch"]), float(row["size"]), **{**given, **changes})


def compiled_step_of(row: Row) -> OpGraph:
    """Return the training step of a row of the table of torch.compile, cut as its partitioner cuts it."""
    layers = None if row["layers"] == "full" else int(row["layers"])
    return Partition()(step_of(row, layers=layers)).verify()


def inference_of(row: Row) -> OpGraph:
    """Return the prefill, or the decode step after it, of a row of the decode table: a cache that is concatenated."""
    context = float(row["context"])
    cached = context if row["phase"] == "prefill" else context + 1.0
    flavour = Flavour.of(
        attention="sdpa",
        rms_norm="chain",
        gelu_new="chain",
        rotary="chain",
        key_value_cache="concatenated",
        training=False,
    )
    call = Call(
        phase=row["phase"],
        batch=float(row["batch"]),
        length=context,
        context_length=cached,
        flavour=flavour,
    )
    return AssignPrecision(compute=BF16, parameters=BF16)(lower(model(row["model"]), call)).verify()


def parameters(graph: OpGraph) -> float:
    """Return the number of parameters that a graph reads."""
    return float(sum(tensor.numel * copies for tensor, copies in graph.parameters().items()))


def heavy_flops(graph: OpGraph, phase: Phase) -> float:
    """Return the FLOPs of matmuls, convolutions and attention in a phase."""
    return float(sum(op.flops() * op.count for op in graph if op.phase is phase and op.group in HEAVY_KINDS))


def moved(graph: OpGraph, phase: Phase, *, heavy: bool = False) -> float:
    """Return the bytes that the kernels of a phase read and write, whole tables counted as read."""
    return float(
        sum(
            (_whole(op) + op.bytes_written()) * op.count
            for op in graph
            if op.phase is phase and (not heavy or op.group in HEAVY_BYTES)
        )
    )


def _whole(op: AbstractOp) -> float:
    if isinstance(op, Embedding | GroupedMatmul) and not getattr(op, "backward", False):
        return float(AbstractOp.bytes_read(op))
    return float(op.bytes_read())
