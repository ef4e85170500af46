"""Map the configurations of further decoders that the layers of others describe: Granite, EXAONE, ERNIE 4.5, Hunyuan and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, sigmoid_router, tied
from roofsim.importers.llama_decoders import depth, gated, latent, layers_that_see_all, windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields


def _exaone(c: Fields) -> Mapping:
    return gated(
        c,
        activation=c.activation("activation_function", "hidden_act", default="silu"),
        attention_dropout=c.rate("attention_dropout"),
        embedding_dropout=c.rate("embed_dropout"),
        dropout=0.0,
    )


def _exaone4(c: Fields) -> Mapping:
    every = c.whole("sliding_window_pattern", default=4)
    looks_back = windows(c, default_every=every)
    rotates = {"full_attention_rotates": False} if looks_back else {}
    return gated(c, pre_norms=False, post_norms=True, query_key_norm="head", **looks_back, **rotates)


def _smollm3(c: Fields) -> Mapping:
    c.only("use_sliding_window", False)
    layers, every = depth(c), c.whole("no_rope_layer_interval", default=4)
    rotates = c.wholes("no_rope_layers", []) or [int((at + 1) % every != 0) for at in range(layers)]
    if len(rotates) != layers:
        c.fail("no_rope_layers", f"has {len(rotates)} entries for {layers} layers")
    unturned = layers_that_see_all(c, "no_rope_layers", [flag == 0 for flag in rotates])
    mixed = {} if unturned is None else {"full_attention_every": unturned, "full_attention_rotates": False}
    return gated(c, mlp_bias=c.flag("mlp_bias", False), tie_embeddings=tied(c, True), **mixed)


def _factor(c: Fields, key: str) -> bool:
    """Tell whether the library multiplies: it does by a factor of one, too, where the key is there."""
    if c.number(key, 1.0) <= 0.0:
        c.fail(key, "expected a factor above 0")
    return True


def _granite(c: Fields, **fields: Any) -> Mapping:
    c.number("attention_multiplier", 1.0)  # a scale of the scores, which attention has in any case
    scales = {
        "embedding_scale": _factor(c, "embedding_multiplier"),
        "logit_scale": _factor(c, "logits_scaling"),
        "residual_scale": _factor(c, "residual_multiplier"),
    }
    return gated(c, mlp_bias=c.flag("mlp_bias", False), **scales, **fields)


def _granitemoe(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    return _granite(
        c,
        num_experts=c.whole("num_local_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        router_scores="wide_softmax_of_top",
        router_weights_in_fp32=False,
    )


def _minicpm(c: Fields) -> Mapping:
    for key in ("num_experts", "kv_lora_rank"):
        if c.has(key) and c.whole(key, least=0):
            c.fail(key, "MiniCPM with experts or latent attention is not supported")
    return gated(c, embedding_scale=True, residual_scale=True, logit_scale=True, tie_embeddings=tied(c, True))


def _olmoe(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    return gated(
        c,
        query_key_norm="full",
        clipped_query_key_value=c.has("clip_qkv") and c.number("clip_qkv", 0.0) != 0.0,
        num_experts=c.whole("num_experts", "num_local_experts", default=64),
        experts_per_token=c.whole("num_experts_per_tok", default=8),
        router_normalized=c.flag("norm_topk_prob", False),
        router_weights_in_fp32=False,
    )


def _stablelm(c: Fields) -> Mapping:
    c.only("qk_layernorm", False)
    parallel = c.flag("use_parallel_residual", False)
    return gated(
        c,
        normalization="layernorm",
        normalization_bias=True,
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", 0.25),
        query_key_value_bias=c.flag("use_qkv_bias", False),
        attention_output_bias=False,
        parallel_block=parallel,
        shared_norm=parallel,
        dropout=c.rate("hidden_dropout"),
        embedding_dropout=0.0,
    )


def _gpt_bigcode(c: Fields) -> Mapping:
    shared = 1 if c.flag("multi_query", True) else None
    return decoder(
        c,
        num_layers=c.whole("n_layer", "num_hidden_layers"),
        hidden_size=c.whole("n_embd", "hidden_size"),
        num_attention_heads=c.whole("n_head", "num_attention_heads"),
        num_key_value_heads=shared,
        vocab_size=c.whole("vocab_size"),
        max_sequence_length=c.whole("n_positions", "max_position_embeddings", default=1024),
        intermediate_size=c.whole("n_inner", default=None),
        activation=c.activation("activation_function", default="gelu_pytorch_tanh"),
        fused_query_key_value=True,
        softmax_in_fp32=c.flag("attention_softmax_in_fp32", True),
        tie_embeddings=tied(c, True),
        dropout=c.rate("resid_pdrop", 0.1),
        embedding_dropout=c.rate("embd_pdrop", 0.1),
        attention_dropout=c.rate("attn_pdrop", 0.1),
    )


def _ernie4_5(c: Fields, **fields: Any) -> Mapping:
    biases = c.flag("use_bias", False)
    common = {
        "biases": biases,
        "query_key_value_bias": biases,
        "attention_output_bias": biases,
        "tie_embeddings": tied(c, True),
        "head_size": c.whole("head_dim", default=None),
    }
    return gated(c, **{**common, **fields})


def _ernie4_5_moe(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    c.only("moe_layer_interval", 1)
    layers, last = c.whole("num_hidden_layers"), c.whole("moe_layer_end_index", default=-1, least=-1)
    if last not in (-1, layers - 1):
        c.fail(
            "moe_layer_end_index", f"layers without experts after others are not supported; expected {layers - 1} or -1"
        )
    return _ernie4_5(
        c,
        num_experts=c.whole("moe_num_experts", "num_experts"),
        experts_per_token=c.whole("moe_k", "num_experts_per_tok"),
        expert_intermediate_size=c.whole("moe_intermediate_size"),
        num_shared_experts=c.whole("moe_num_shared_experts", default=2, least=0),
        num_dense_layers=c.whole("moe_layer_start_index", default=1, least=0),
        router_in_fp32=True,
        router_correction_bias=True,
    )


def _hunyuan_dense(c: Fields, **fields: Any) -> Mapping:
    common = {"query_key_norm": "head", "head_size": c.whole("head_dim", default=None)}
    return gated(c, **{**common, **fields})


def _hunyuan_moe(c: Fields) -> Mapping:
    for key in ("moe_topk", "num_experts", "moe_intermediate_size", "num_shared_expert"):
        if isinstance(c.data.get(key), list) and len(set(c.data[key])) > 1:
            c.fail(key, "layers with other numbers of experts than others are not supported")
    first = {key: value[0] if isinstance(value, list) and value else value for key, value in c.data.items()}
    same = type(c)(
        {**c.data, **{key: first[key] for key in ("moe_topk", "num_experts") if key in first}}, c.where, c.path
    )
    return _hunyuan_dense(
        same,
        num_experts=same.whole("num_experts"),
        experts_per_token=same.whole("moe_topk"),
        num_shared_experts=1,
        router_in_fp32=True,
    )


def _dots1(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    window, layers = c.whole("sliding_window", default=None), c.whole("num_hidden_layers")
    if window is not None and c.whole("max_window_layers", default=layers, least=0) < layers:
        c.fail(
            "max_window_layers", f"layers with full attention before windowed ones are not supported; expected {layers}"
        )
    return gated(
        c,
        query_key_norm="head",
        num_experts=c.whole("n_routed_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        expert_intermediate_size=c.whole("moe_intermediate_size"),
        num_shared_experts=c.whole("n_shared_experts", default=0, least=0),
        num_dense_layers=c.whole("first_k_dense_replace", default=0, least=0),
        **sigmoid_router(c, normalized=False),
    )


def _glm4_moe_lite(c: Fields) -> Mapping:
    kinds = c.words("mlp_layer_types") or []
    dense = kinds.count("dense") if kinds else 1
    if kinds and kinds != ["dense"] * dense + ["sparse"] * (len(kinds) - dense):
        c.fail("mlp_layer_types", "dense layers after sparse ones are not supported")
    return latent(
        c,
        num_dense_layers=dense,
        rotary_form="slices" if c.flag("rope_interleave", True) else "rotate_half",
        router_scores="sigmoid",
        router_correction_bias=True,
        router_normalized=c.flag("norm_topk_prob", True),
        router_groups=c.whole("n_group", default=1),
        router_groups_per_token=c.whole("topk_group", default=1),
    )


def _internlm2(c: Fields) -> Mapping:
    biases = c.flag("bias", False)
    return gated(c, fused_query_key_value=True, query_key_value_bias=biases, attention_output_bias=biases)


def _internlm3(c: Fields) -> Mapping:
    return gated(
        c,
        query_key_value_bias=c.flag("qkv_bias", False),
        attention_output_bias=c.flag("bias", False),
        mlp_bias=c.flag("bias", False),
    )


def _mimo(c: Fields) -> Mapping:
    return gated(c, query_key_value_bias=c.flag("attention_bias", True), attention_output_bias=False)


#: model_type -> the function that reads it.
FURTHER_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "exaone": _exaone,
    "exaone4": _exaone4,
    "smollm3": _smollm3,
    "granite": _granite,
    "granitemoe": _granitemoe,
    "minicpm": _minicpm,
    "olmoe": _olmoe,
    "stablelm": _stablelm,
    "gpt_bigcode": _gpt_bigcode,
    "ernie4_5": _ernie4_5,
    "ernie4_5_moe": _ernie4_5_moe,
    "hunyuan_v1_dense": _hunyuan_dense,
    "hunyuan_v1_moe": _hunyuan_moe,
    "dots1": _dots1,
    "glm4_moe_lite": _glm4_moe_lite,
    "internlm2": _internlm2,
    "internlm3": _internlm3,
    "mimo": _mimo,
}
