"""Map the configurations of decoders that the layers of others describe: Qwen3.5, Apertus, Arcee, Ling 2.0, DBRX, Phi-3.5-MoE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, sigmoid_router, tied
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


def _dbrx(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    attention, experts = c.part("attn_config"), c.part("ffn_config")
    if experts.number("moe_normalize_expert_weights", 1.0) != 1.0:
        experts.fail(
            "moe_normalize_expert_weights", "weights of another norm than the sum are not supported; expected 1"
        )
    jitters = experts.has("moe_jitter_eps")
    experts.number("moe_jitter_eps", 0.0)
    return decoder(
        c,
        num_layers=c.whole("n_layers", "num_hidden_layers", default=24),
        hidden_size=c.whole("d_model", "hidden_size", default=2048),
        num_attention_heads=c.whole("n_heads", "num_attention_heads", default=16),
        num_key_value_heads=attention.whole("kv_n_heads", default=1),
        vocab_size=c.whole("vocab_size", default=32000),
        max_sequence_length=c.whole("max_seq_len", "max_position_embeddings", default=2048),
        intermediate_size=experts.whole("ffn_hidden_size", default=3584),
        gated_mlp=True,
        activation=experts.part("ffn_act_fn").activation("name", default="silu"),
        position_embedding="rotary",
        fused_query_key_value=True,
        clipped_query_key_value=attention.number("clip_qkv", 0.0) != 0.0,
        tie_embeddings=tied(c, False),
        dropout=c.rate("resid_pdrop"),
        embedding_dropout=c.rate("emb_pdrop"),
        attention_dropout=attention.rate("attn_pdrop"),
        num_experts=experts.whole("moe_num_experts", default=4),
        experts_per_token=experts.whole("moe_top_k", default=1),
        router_scores_in_fp32=False,
        router_weights_in_fp32=False,
        expert_input_jitter="once" if jitters else "none",
    )


def _phimoe(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    return gated(
        c,
        normalization="layernorm",
        normalization_bias=True,
        head_bias=c.flag("lm_head_bias", False),
        sliding_window=c.whole("sliding_window", default=None),
        num_experts=c.whole("num_local_experts", default=16),
        experts_per_token=c.whole("num_experts_per_tok", default=2),
        router_scores="sparse_mixer",
        router_scores_in_fp32=False,
        router_normalized=False,
        router_weights_in_fp32=False,
        expert_input_jitter="twice" if c.number("input_jitter_noise", 0.0) > 0.0 else "none",
    )


#: model_type -> the function that reads it.
LATEST_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "qwen3_5_text": _qwen3_5,
    "qwen3_5_moe_text": _qwen3_5_moe,
    "apertus": _apertus,
    "arcee": _arcee,
    "bailing_moe": _bailing_moe,
    "dbrx": _dbrx,
    "phimoe": _phimoe,
}
