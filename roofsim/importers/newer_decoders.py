"""Map the configurations of decoders since 2024 that differ from Llama in their layers: Llama 4, Qwen3-Next, OLMo 2, GLM-4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, sigmoid_router, sizes, tied
from roofsim.importers.llama_decoders import depth, gated, layers_that_see_all, windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields


def _llama4(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    layers, width = depth(c), c.whole("intermediate_size")
    step = c.whole("interleave_moe_layer_step", default=1)
    with_experts = c.wholes("moe_layers", []) or list(range(step - 1, layers, step))
    if not set(with_experts) <= set(range(layers)):
        c.fail("moe_layers", f"expected numbers of layers from 0 to {layers - 1}")
    every = c.whole("no_rope_layer_interval", default=4)
    rotates = c.wholes("no_rope_layers", []) or [int((at + 1) % every != 0) for at in range(layers)]
    if len(rotates) != layers:
        c.fail("no_rope_layers", f"has {len(rotates)} entries for {layers} layers")
    chunk = c.whole("attention_chunk_size", default=8192) if c.data.get("attention_chunk_size", 0) is not None else None
    if chunk is None and 0 in rotates:
        c.fail("attention_chunk_size", "layers without rotation beside whole attention everywhere are not supported")
    full = layers_that_see_all(c, "no_rope_layers", [flag == 0 for flag in rotates])
    return gated(
        c,
        head_size=c.whole("head_dim", default=128),
        intermediate_size=c.whole("intermediate_size_mlp", default=16384),
        expert_intermediate_size=width,
        shared_expert_intermediate_size=width,
        num_experts=c.whole("num_local_experts", default=16),
        experts_per_token=c.whole("num_experts_per_tok", default=1),
        num_shared_experts=1,
        num_dense_layers=layers - len(set(with_experts)),
        router_scores="sigmoid",
        router_normalized=False,
        query_key_norm="unit" if c.flag("use_qk_norm", True) else "none",
        rotary_form="complex",
        sliding_window=chunk,
        attention_chunks=chunk is not None,
        full_attention_every=full,
        full_attention_rotates=False,
    )


def delta_layers(c: Fields, *, apart: bool, **fields: Any) -> Mapping:
    """Return what Qwen3-Next and its kin share: gated delta rules with attention in every n-th layer.

    `apart` where the gate and the two rates have projections of their own.
    """
    if c.wholes("mlp_only_layers", []):
        c.fail("mlp_only_layers", "layers without experts are not supported; expected []")
    layers, kinds = c.whole("num_hidden_layers"), c.words("layer_types")
    every = c.whole("full_attention_interval", default=4)
    known = ("linear_attention", "full_attention")
    if kinds is not None:
        unknown = [kind for kind in kinds if kind not in known]
        if unknown:
            c.fail("layer_types", f"{unknown[0]!r} is not supported; expected {' or '.join(known)}")
        every = layers_that_see_all(c, "layer_types", [kind == "full_attention" for kind in kinds])
    if every is None or every > layers:
        c.fail("layer_types", "no layer of full attention; supported is one after every n - 1 of linear attention")
    return gated(
        c,
        head_size=c.whole("head_dim", default=256),
        normalization_weight="zero_centered",
        query_key_norm="head",
        attention_gate=True,
        attention_output_bias=c.flag("attention_bias", False),
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", 0.25),
        full_attention_every=every,
        delta_net={
            "key_heads": c.whole("linear_num_key_heads", default=16),
            "value_heads": c.whole("linear_num_value_heads", default=32),
            "key_head_size": c.whole("linear_key_head_dim", default=128),
            "value_head_size": c.whole("linear_value_head_dim", default=128),
            "conv_kernel": c.whole("linear_conv_kernel_dim", default=4),
            **({"apart": True} if apart else {}),
        },
        **fields,
    )


def _qwen3_next(c: Fields) -> Mapping:
    c.only("decoder_sparse_step", 1)
    c.only("output_router_logits", False)
    return delta_layers(
        c,
        apart=False,
        intermediate_size=c.whole("intermediate_size", default=5632),
        num_experts=c.whole("num_experts", "num_local_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        expert_intermediate_size=c.whole("moe_intermediate_size"),
        num_shared_experts=1,
        shared_expert_intermediate_size=c.whole("shared_expert_intermediate_size"),
        shared_expert_gate=True,
        router_normalized=c.flag("norm_topk_prob", True),
        router_weights_in_fp32=False,
    )


def _glm(c: Fields, **fields: Any) -> Mapping:
    common = {
        "head_size": c.whole("head_dim", default=128),
        "rotary_fraction": rotary_fraction(c, "partial_rotary_factor", 0.5),
        "query_key_value_bias": c.flag("attention_bias", True),
        "attention_output_bias": False,
        "fused_gate_up": True,
    }
    return gated(c, **{**common, **fields})


def _glm4(c: Fields) -> Mapping:
    return _glm(c, post_norms=True)


def _glm4_moe(c: Fields) -> Mapping:
    return _glm(
        c,
        query_key_value_bias=c.flag("attention_bias", False),
        fused_gate_up=False,
        query_key_norm="head" if c.flag("use_qk_norm", False) else "none",
        num_experts=c.whole("n_routed_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        expert_intermediate_size=c.whole("moe_intermediate_size"),
        num_shared_experts=c.whole("n_shared_experts", least=0),
        num_dense_layers=c.whole("first_k_dense_replace", default=1, least=0),
        **sigmoid_router(c, normalized=True),
    )


def _olmo2(c: Fields) -> Mapping:
    return gated(c, pre_norms=False, post_norms=True, query_key_norm="full", normalization_weight="fp32")


def _olmo3(c: Fields) -> Mapping:
    return gated(
        c,
        pre_norms=False,
        post_norms=True,
        query_key_norm="full",
        normalization_weight="fp32",
        **windows(c, default_every=4),
    )


def _seed_oss(c: Fields) -> Mapping:
    return gated(
        c,
        head_size=c.whole("head_dim", default=128),
        query_key_value_bias=c.flag("attention_bias", True),
        attention_output_bias=c.flag("attention_out_bias", False),
        mlp_bias=c.flag("mlp_bias", False),
        dropout=c.rate("residual_dropout", 0.1),
        attention_dropout=c.rate("attention_dropout", 0.1),
        embedding_dropout=0.0,
    )


def _cohere(c: Fields, **fields: Any) -> Mapping:
    common = {
        "query_key_norm": "heads_layer" if c.flag("use_qk_norm", False) else "none",
        "normalization": "layernorm",
        "normalization_bias": False,
        "normalization_weight": "fp32",
        "parallel_block": True,
        "shared_norm": True,
        "logit_scale": True,
        "tie_embeddings": tied(c, True),
    }
    return gated(c, **{**common, **fields})


def _cohere2(c: Fields) -> Mapping:
    every = c.whole("sliding_window_pattern", "_sliding_window_pattern", default=4)
    return _cohere(
        c,
        head_size=c.whole("head_dim", default=None),
        **windows(c, default_every=every),
        full_attention_rotates=False,
    )


def _nemotron(c: Fields) -> Mapping:
    biases = c.flag("attention_bias", False)
    return decoder(
        c,
        **sizes(c),
        num_key_value_heads=c.whole("num_key_value_heads", default=None),
        head_size=c.whole("head_dim", default=None),
        max_sequence_length=c.whole("max_position_embeddings", default=4096),
        intermediate_size=c.whole("intermediate_size"),
        activation=c.activation("hidden_act", default="relu2"),
        position_embedding="rotary",
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", 0.5),
        query_key_value_bias=biases,
        attention_output_bias=biases,
        mlp_bias=c.flag("mlp_bias", False),
        normalization_bias=True,
        tie_embeddings=tied(c, False),
        attention_dropout=c.rate("attention_dropout"),
    )


def _starcoder2(c: Fields) -> Mapping:
    c.only("mlp_type", "default")
    c.only("norm_type", "layer_norm")
    return decoder(
        c,
        **sizes(c),
        num_key_value_heads=c.whole("num_key_value_heads", default=2),
        max_sequence_length=c.whole("max_position_embeddings", default=4096),
        intermediate_size=c.whole("intermediate_size", default=12288),
        activation=c.activation("hidden_act", default="gelu_pytorch_tanh"),
        position_embedding="rotary",
        sliding_window=c.whole("sliding_window", default=None),
        biases=c.flag("use_bias", True),
        normalization_bias=True,
        tie_embeddings=tied(c, True),
        dropout=c.rate("residual_dropout"),
        embedding_dropout=c.rate("embedding_dropout"),
        attention_dropout=c.rate("attention_dropout"),
    )


#: model_type -> the function that reads it.
NEWER_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "llama4_text": _llama4,
    "qwen3_next": _qwen3_next,
    "glm": _glm,
    "glm4": _glm4,
    "glm4_moe": _glm4_moe,
    "olmo2": _olmo2,
    "olmo3": _olmo3,
    "seed_oss": _seed_oss,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "nemotron": _nemotron,
    "starcoder2": _starcoder2,
}
