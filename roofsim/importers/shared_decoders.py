"""Map the configurations of decoders that use some layers again, as lists of layers: Zamba2."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from roofsim.importers.linear_decoders import listed
from roofsim.importers.repeats import Steps, few_layers

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.decoders import Mapping
    from roofsim.importers.fields import Fields

#: Kinds of Zamba2's layers, in the words of released files and of the library: whether attention stands before the scan.
_HYBRID: Final = {"mamba": False, "linear_attention": False, "hybrid": True}


def _zamba2(c: Fields) -> Mapping:
    """Read Zamba2: Mamba-2 in each layer, and before some of them attention that they share, with products of their own."""
    c.only("add_bias_linear", False)
    c.only("use_conv_bias", True)
    c.only("gated_linear_unit", True)
    c.only("use_long_context", False)
    c.only("use_shared_block_lora", True)
    c.only("sliding_window", None)
    scan = {"residual": ["rms_norm", {"mamba2": _zamba_mixer(c)}]}
    blocks, steps, number = c.whole("num_mem_blocks", default=1), [], 0
    for hybrid, alike in groupby(_zamba_kinds(c)):
        for _ in alike if hybrid else ():
            steps += _zamba_hybrid(c, scan, f"block{number % blocks + 1}")
            number += 1
        if not hybrid:
            steps.append({"repeat": len(list(alike)), "layers": [scan]})
    mapping = listed(c, steps, tied_unless_said=True)
    mapping["layers"][0]["as"] = "embedded"
    return mapping


def _zamba_hybrid(c: Fields, scan: Mapping, name: str) -> Steps:
    """Return the steps of a hybrid layer: what attention tells the scan is added to what that reads, not to what it adds to."""
    width, heads = c.whole("hidden_size"), c.whole("num_attention_heads")
    rank = c.whole("adapter_rank", "lora_rank", default=128)
    if 2 * width % heads:
        c.fail("num_attention_heads", f"twice hidden_size {width} is not a multiple of {heads}")
    attention: Mapping = {
        "num_attention_heads": heads,
        "num_key_value_heads": c.whole("num_key_value_heads", default=heads),
        "head_size": 2 * width // heads,
        "output_size": "hidden",
    }
    if c.flag("use_mem_rope", False):
        attention["position_embedding"] = "rotary"
    if c.flag("use_shared_attention_adapter", c.flag("use_shared_attention_lora", False)):
        attention["adapter_rank"] = rank
    if c.rate("attention_dropout"):
        attention["attention_dropout"] = c.rate("attention_dropout")
    mlp = {
        "intermediate_size": c.whole("intermediate_size", "ffn_hidden_size", default=4 * width),
        "gated_mlp": True,
        "fused_gate_up": True,
        "activation": c.activation("hidden_act", default="gelu"),
        "adapter_rank": rank,
    }
    shared = ["rms_norm", {"attention": attention}, "rms_norm", {"mlp": mlp}]
    own = {"linear": {"width": "hidden", "bias": False, "split": "whole"}}
    (behind,) = (scan["residual"],)
    told = {"aside": [{"concat": "embedded"}, {"name": name, "weights": name, "layers": shared}, own], "as": "told"}
    return [{"name": "hybrid", "repeat": 1, "layers": [told, {"residual": [{"add": "told"}, *behind]}]}]


def _zamba_mixer(c: Fields) -> Mapping:
    inner = c.whole("mamba_expand", "expansion_factor", default=2) * c.whole("hidden_size")
    heads = c.whole("n_mamba_heads", default=inner // c.whole("mamba_headdim", default=64) or 1)
    if inner % heads:
        c.fail("n_mamba_heads", f"{heads} heads do not divide {inner} channels")
    return {
        "num_heads": heads,
        "head_size": inner // heads,
        "state_size": c.whole("mamba_d_state", "state_size", default=64),
        "num_groups": c.whole("mamba_ngroups", default=1),
        "conv_kernel": c.whole("mamba_d_conv", "conv_dimension", default=4),
        "chunk_size": c.whole("chunk_size", default=256),
    }


def _zamba_kinds(c: Fields) -> list[bool]:
    layers = few_layers(c)
    key = "layers_block_type" if c.has("layers_block_type") else "layer_types"
    words = c.words(key)
    if words is None:
        c.fail(key, "required key is missing")
    unknown = [word for word in words if word not in _HYBRID]
    if unknown or len(words) != layers:
        why = f"{unknown[0]!r} is not supported; expected mamba or hybrid" if unknown else ""
        c.fail(key, why or f"has {len(words)} entries for {layers} layers")
    return [_HYBRID[word] for word in words]


#: model_type -> the function that reads it.
SHARED_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {"zamba2": _zamba2}
