"""Say what the tables of aiconfigurator-core mean in the columns of `kernel_table`: sizes, formats, what is left out.

The meaning of the columns follows from github.com/ai-dynamo/aiconfigurator, `collector` (Apache-2.0), which writes them.
Every row of that source in evidence/measurements/kernels.csv.gz comes out of this mapping again, digit by digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.calibrate.kernels.classes import ITEMSIZES
from roofsim.calibrate.kernels.table import SIZES
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.numeric import Array

Columns = dict[str, np.ndarray[Any, np.dtype[Any]]]

#: Folder of a system -> name of its card in hardware/gpus; a system that is not here is looked up by its own name.
SYSTEMS: Final = {
    "a100_pcie": "a100-pcie-80gb", "a100_sxm": "a100-sxm4-80gb", "b200_sxm": "b200-sxm-180gb",
    "b300_sxm": "b300-sxm-288gb", "b60": "arc-pro-b60", "h100_pcie": "h100-pcie-80gb", "h100_sxm": "h100-sxm5-80gb",
    "h200_sxm": "h200-sxm-141gb", "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}  # fmt: skip

#: Number format there -> here; names that are the same in both are not listed.
FORMATS: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8_e4m3": "fp8"}

#: Part of a table's name -> why its rows are left out; the first that matches counts.
LEFT_OUT: Final = (
    ("allreduce", "several GPUs take part"),
    ("nccl", "several GPUs take part"),
    ("oneccl", "several GPUs take part"),
    ("alltoall", "several GPUs take part"),
    ("_a2a", "several GPUs take part"),
    ("deepep", "several GPUs take part"),
    ("megamoe", "several GPUs take part"),
    ("_module", "one time for the kernels of a whole module"),
    ("wideep_", "one time for the kernels of a whole module"),
    ("context_mla", "keys and values differ in width, which rows have no column for"),
    ("gdn", "no model of this kernel"),
    ("kda", "no model of this kernel"),
    ("mamba", "no model of this kernel"),
    ("topk", "no model of this kernel"),
    ("computescale", "no model of this kernel"),
    ("scale_matrix", "no model of this kernel"),
)
UNKNOWN: Final = "a table that roofsim does not know"

#: Widths of multi-head latent attention in the models measured (DeepSeek-V2 and V3): a cached entry of 512 with a position
#: of 64 beside it, heads of 128 without position.
LATENT: Final = 512.0
LATENT_ENTRY: Final = 576.0
LATENT_HEAD: Final = 128.0
FIRST_OF_TWO: Final = "mla_gen_pre"
CONVERTED: Final = "fp8 converted to 16 bits"


@dataclass(frozen=True, kw_only=True)
class TableMeaning:
    """How one table reads.

    Attributes
    ----------
    op
        Operation of its rows.
    columns, optional
        Columns that are read; without an optional one its rows hold 0.
    sizes
        Columns -> sizes under the names of `kernel_table.SIZES`.
    formats
        Columns -> number format of each row.
    other
        Columns -> what only this operation has, by row; equal rows share one mapping.
    """

    op: str
    columns: tuple[str, ...]
    sizes: Callable[[Columns], dict[str, Array]]
    formats: Callable[[Columns], list[str]]
    other: Callable[[Columns], tuple[dict[str, Any], ...]]
    optional: tuple[str, ...] = ()


def reason_left_out(name: str) -> str:
    """Return why the rows of a table without a meaning are left out.

    >>> reason_left_out("nccl_perf"), reason_left_out("sudoku_perf")
    ('several GPUs take part', 'a table that roofsim does not know')
    """
    return next((reason for part, reason in LEFT_OUT if part in name), UNKNOWN)


def known_format(name: str) -> bool:
    """Whether the kernel models know a number format."""
    return name.removesuffix("_kvfp8") in ITEMSIZES


def full_sizes(sizes: dict[str, Array], rows: int) -> dict[str, Array]:
    """Return all columns of sizes, those that an operation lacks filled."""
    return {name: np.asarray(sizes.get(name, np.full(rows, fill)), dtype=float) for name, fill in SIZES.items()}


def _name(name: str) -> str:
    return FORMATS.get(name, name)


def _plain_formats(column: str) -> Callable[[Columns], list[str]]:
    return lambda columns: [_name(name) for name in columns[column]]


def _attention_formats(arithmetic: str) -> Callable[[Columns], list[str]]:
    """Return formats of attention: that of the arithmetic, with a suffix where only the cache is narrow."""

    def formats(columns: Columns) -> list[str]:
        pairs = zip(columns[arithmetic], columns["kv_cache_dtype"], strict=True)
        return [
            _name(math) + ("_kvfp8" if _name(cache) == "fp8" and _name(math) != "fp8" else "") for math, cache in pairs
        ]

    return formats


def _shared(make: Callable[..., dict[str, Any]], *columns: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Return a mapping for each row; rows that agree share one, for there are millions."""
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    rows = []
    for key in zip(*columns, strict=True):
        if key not in known:
            known[key] = make(*key)
        rows.append(known[key])
    return tuple(rows)


def _sources(columns: Columns) -> tuple[dict[str, Any], ...]:
    return _shared(lambda source: {"ks": source}, columns["kernel_source"])


def _attention_other(columns: Columns) -> tuple[dict[str, Any], ...]:
    return _shared(
        lambda source, window: {"ks": source, "causal": 1, "window": max(window, 0.0)},
        columns["kernel_source"],
        columns["window_size"].tolist(),
    )


def _encoder_other(columns: Columns) -> tuple[dict[str, Any], ...]:
    return _shared(lambda source: {"ks": source, "causal": 0, "window": 0.0}, columns["kernel_source"])


def _expert_other(columns: Columns) -> tuple[dict[str, Any], ...]:
    names = ("num_experts", "topk", "moe_tp_size", "moe_ep_size", "distribution", "kernel_source")
    return _shared(
        lambda experts, topk, tp, ep, dist, source: {
            "experts": experts,
            "topk": topk,
            "tp": tp,
            "ep": ep,
            "dist": dist,
            "ks": source,
        },
        *(columns[name].tolist() for name in names),
    )


def _attention_sizes(columns: Columns) -> dict[str, Array]:
    return {
        "batch": columns["batch_size"],
        "heads": columns["num_heads"],
        "kv_heads": columns["num_key_value_heads"],
        "head_dim": columns["head_dim"],
        "q_len": columns["isl"],
        "kv_len": columns["isl"] + columns["step"],
    }


def _encoder_sizes(columns: Columns) -> dict[str, Array]:
    same = {**columns, "num_key_value_heads": columns["num_heads"], "step": np.zeros(len(columns["isl"]))}
    return _attention_sizes(same)


def _latent_sizes(columns: Columns) -> dict[str, Array]:
    ones = np.ones(len(columns["isl"]))
    return _attention_sizes({**columns, "num_key_value_heads": ones, "head_dim": ones * LATENT_ENTRY})


def _latent_product_sizes(columns: Columns) -> dict[str, Array]:
    """Return the products, one per head, that take queries into the latent space and results out of it."""
    into = np.array([name == FIRST_OF_TWO for name in columns["op_name"]])
    return {
        "m": columns["num_tokens"],
        "batch": columns["num_heads"],
        "n": np.where(into, LATENT, LATENT_HEAD),
        "k": np.where(into, LATENT_HEAD, LATENT),
    }


def _latent_product_formats(columns: Columns) -> list[str]:
    """Return formats; fp8 products are none, for some engines convert their weights and multiply in 16 bits."""
    return [
        CONVERTED if _name(math) == "fp8" and "dequant" in source else _name(math)
        for math, source in zip(columns["bmm_dtype"], columns["kernel_source"], strict=True)
    ]


_ATTENTION: Final = (
    "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype", "step",
    "kernel_source",
)  # fmt: skip


def _attention_table(op: str) -> TableMeaning:
    """Return the meaning of a table of causal attention."""
    return TableMeaning(
        op=op,
        columns=_ATTENTION,
        optional=("window_size",),
        sizes=_attention_sizes,
        formats=_attention_formats("attn_dtype"),
        other=_attention_other,
    )


#: Table -> its meaning. Times are milliseconds, in the column `latency`.
TABLES: Final = {
    "gemm_perf": TableMeaning(
        op="gemm",
        columns=("m", "n", "k", "gemm_dtype", "kernel_source"),
        sizes=lambda columns: {name: columns[name] for name in ("m", "n", "k")},
        formats=_plain_formats("gemm_dtype"),
        other=_sources,
    ),
    "context_attention_perf": _attention_table("attention_prefill"),
    "generation_attention_perf": _attention_table("attention_decode"),
    "encoder_attention_perf": TableMeaning(
        op="attention_prefill",
        columns=("batch_size", "isl", "num_heads", "head_dim", "attn_dtype", "kernel_source"),
        sizes=_encoder_sizes,
        formats=_plain_formats("attn_dtype"),
        other=_encoder_other,
    ),
    "generation_mla_perf": TableMeaning(
        op="mla_decode",
        columns=("batch_size", "isl", "num_heads", "mla_dtype", "kv_cache_dtype", "step", "kernel_source"),
        optional=("window_size",),
        sizes=_latent_sizes,
        formats=_attention_formats("mla_dtype"),
        other=_attention_other,
    ),
    "mla_bmm_perf": TableMeaning(
        op="bmm",
        columns=("num_tokens", "num_heads", "bmm_dtype", "op_name", "kernel_source"),
        sizes=_latent_product_sizes,
        formats=_latent_product_formats,
        other=_sources,
    ),
    "moe_perf": TableMeaning(
        op="moe_gemm",
        columns=(
            "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
            "distribution", "moe_dtype", "kernel_source",
        ),
        sizes=lambda columns: {
            "m": columns["num_tokens"], "n": columns["inter_size"], "k": columns["hidden_size"],
        },
        formats=_plain_formats("moe_dtype"),
        other=_expert_other,
    ),
}  # fmt: skip
