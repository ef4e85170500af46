"""Map the configurations of decoders since 2025 that the layers of others describe: Qwen3.5, Apertus, Arcee, Ling 2.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.decoders import Mapping, rotary_fraction, sigmoid_router
from roofsim.importers.llama_decoders import gated
from roofsim.importers.newer_decoders import delta_layers

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields


def _qwen3_5(c: Fields) -> Mapping:
    return delta_layers(c, apart=True, intermediate_size=c.whole("intermediate_size"))


def _qwen3_5_moe(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    # No layer has a dense feed-forward part, and files say nothing of its width.
    filled = type(c)({"intermediate_size": c.whole("moe_intermediate_size"), **c.data}, c.where, c.path)
    return delta_layers(
        filled,
        apart=True,
        num_experts=c.whole("num_experts", "num_local_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        expert_intermediate_size=c.whole("moe_intermediate_size"),
        num_shared_experts=1,
        shared_expert_intermediate_size=c.whole("shared_expert_intermediate_size"),
        shared_expert_gate=True,
        router_weights_in_fp32=False,
    )


def _apertus(c: Fields) -> Mapping:
    c.only("qk_norm", True)
    c.only("post_norm", False)
    return gated(
        c,
        gated_mlp=False,
        biases=False,
        mlp_bias=c.flag("mlp_bias", False),
        activation=c.activation("hidden_act", default="xielu"),
        query_key_norm="head",
    )


def _arcee(c: Fields) -> Mapping:
    return gated(
        c,
        gated_mlp=False,
        biases=False,
        mlp_bias=c.flag("mlp_bias", False),
        activation=c.activation("hidden_act", default="relu2"),
    )


def _bailing_moe(c: Fields) -> Mapping:
    c.only("norm_head", False)
    c.only("output_router_logits", False)
    c.only("score_function", "sigmoid")
    c.only("moe_router_enable_expert_bias", True)
    biases = c.flag("use_bias", False)
    width = c.whole("moe_intermediate_size")
    shared = c.whole("num_shared_experts", default=0, least=0)
    return gated(
        c,
        fused_query_key_value=True,
        query_key_value_bias=c.flag("use_qkv_bias", False),
        attention_output_bias=biases,
        mlp_bias=biases,
        query_key_norm="head" if c.flag("use_qk_norm", False) else "none",
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", 1.0),
        num_experts=c.whole("num_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        expert_intermediate_size=width,
        num_shared_experts=shared,
        shared_expert_intermediate_size=c.whole("moe_shared_expert_intermediate_size", default=width) * shared or None,
        num_dense_layers=c.whole("first_k_dense_replace", default=0, least=0),
        **sigmoid_router(c, normalized=True),
    )


#: model_type -> the function that reads it.
LATEST_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "qwen3_5_text": _qwen3_5,
    "qwen3_5_moe_text": _qwen3_5_moe,
    "apertus": _apertus,
    "arcee": _arcee,
    "bailing_moe": _bailing_moe,
}
