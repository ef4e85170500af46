"""Map the configurations of the Llama generation: RMS norms, rotary positions, gated MLPs, experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, sizes, tied

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields

#: Layers beyond which a file is no model's.
_MOST_LAYERS: Final = 100_000


def gated(c: Fields, **fields: Any) -> Mapping:
    """Return what Llama and its kin share: RMS norms, rotary positions, gated MLPs, grouped key-value heads."""
    attention_bias = c.flag("attention_bias", False)
    common: Mapping = {
        **sizes(c),
        "num_key_value_heads": c.whole("num_key_value_heads", default=None),
        "head_size": c.whole("head_dim", default=None),
        "max_sequence_length": c.whole("max_position_embeddings", default=2048),
        "intermediate_size": c.whole("intermediate_size"),
        "gated_mlp": True,
        "activation": c.activation("hidden_act", "hidden_activation", default="silu"),
        "normalization": "rmsnorm",
        "position_embedding": "rotary",
        "query_key_value_bias": attention_bias,
        "attention_output_bias": attention_bias,
        "tie_embeddings": tied(c, False),
        "attention_dropout": c.rate("attention_dropout"),
    }
    return decoder(c, **{**common, **fields})


def _llama(c: Fields) -> Mapping:
    return gated(c, mlp_bias=c.flag("mlp_bias", False))


def _mistral(c: Fields) -> Mapping:
    return gated(c, sliding_window=c.whole("sliding_window", default=None))


def _mixtral(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    return gated(
        c,
        sliding_window=c.whole("sliding_window", default=None),
        num_experts=c.whole("num_local_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        expert_input_jitter="once" if c.number("router_jitter_noise", 0.0) > 0.0 else "none",
    )


def windows(c: Fields, default_every: int | None = None) -> Mapping:
    """Return the window of layers that look back a limited distance, and how often a layer sees everything.

    ``layer_types`` must alternate regularly: every n-th layer attends to everything.
    """
    window, kinds = c.whole("sliding_window", default=None), c.words("layer_types")
    if window is None or (kinds is None and default_every is None):
        return {}
    layers = c.whole("num_hidden_layers")
    if kinds is None:
        every = default_every
    else:
        unknown = [kind for kind in kinds if kind not in ("sliding_attention", "full_attention")]
        if unknown:
            c.fail("layer_types", f"{unknown[0]!r} is not supported; expected sliding_attention or full_attention")
        if len(kinds) != layers:
            c.fail("layer_types", f"has {len(kinds)} entries for {layers} layers")
        if "sliding_attention" not in kinds:
            return {}
        every = layers_that_see_all(c, "layer_types", [kind == "full_attention" for kind in kinds])
    return {"sliding_window": window, "full_attention_every": every}


def depth(c: Fields) -> int:
    """Return the number of layers, where each is looked at."""
    layers: int = c.whole("num_hidden_layers")
    if layers > _MOST_LAYERS:
        c.fail("num_hidden_layers", f"expected at most {_MOST_LAYERS}; got {layers}")
    return layers


def layers_that_see_all(c: Fields, key: str, full: list[bool]) -> int | None:
    """Return n where every n-th layer attends to everything, None where none does; refuses any other order."""
    every = full.index(True) + 1 if True in full else None
    if full != [every is not None and (at + 1) % every == 0 for at in range(len(full))]:
        c.fail(key, "is irregular; supported is a full_attention layer after every n - 1 others")
    return every


def _qwen_windows(c: Fields) -> Mapping:
    """Return the windows of Qwen models, whose layers from ``max_window_layers`` on may look back less far."""
    if not c.flag("use_sliding_window", False):
        return {}
    if c.words("layer_types") is not None:
        return windows(c)
    first, layers = c.whole("max_window_layers", default=0, least=0), c.whole("num_hidden_layers")
    if 0 < first < layers:
        c.fail("max_window_layers", f"{first} layers with full attention before windowed ones are not supported")
    return {} if first else {"sliding_window": c.whole("sliding_window", default=4096)}


def _qwen2(c: Fields) -> Mapping:
    return gated(c, **_qwen_windows(c), query_key_value_bias=True, attention_output_bias=False)


def _qwen3(c: Fields) -> Mapping:
    return gated(c, **_qwen_windows(c), query_key_norm="head", head_size=c.whole("head_dim", default=128))


def _qwen_experts(c: Fields) -> Mapping:
    c.only("decoder_sparse_step", 1)
    c.only("output_router_logits", False)
    dense = sorted(c.wholes("mlp_only_layers", []))
    if dense != list(range(len(dense))):
        c.fail("mlp_only_layers", "supported are leading layers only, such as [0, 1]")
    return {
        "num_experts": c.whole("num_experts", "num_local_experts"),
        "experts_per_token": c.whole("num_experts_per_tok"),
        "expert_intermediate_size": c.whole("moe_intermediate_size"),
        "num_dense_layers": len(dense),
        "router_normalized": c.flag("norm_topk_prob", False),
        "router_weights_in_fp32": False,
    }


def _qwen2_moe(c: Fields) -> Mapping:
    return gated(
        c,
        **_qwen_windows(c),
        **_qwen_experts(c),
        query_key_value_bias=c.flag("qkv_bias", True),
        attention_output_bias=False,
        num_shared_experts=1,
        shared_expert_intermediate_size=c.whole("shared_expert_intermediate_size"),
        shared_expert_gate=True,
    )


def _qwen3_moe(c: Fields) -> Mapping:
    return gated(
        c, **_qwen_windows(c), **_qwen_experts(c), query_key_norm="head", head_size=c.whole("head_dim", default=None)
    )


def _gemma(c: Fields, **fields: Any) -> Mapping:
    # The library runs every Gemma with the tanh GELU, whatever the older files say.
    c.activation("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    common = {
        "activation": "gelu_tanh",
        "head_size": c.whole("head_dim", default=256),
        "normalization_weight": "zero_centered",
        "embedding_scale": True,
        "tie_embeddings": tied(c, True),
    }
    return gated(c, **{**common, **fields})


def _gemma2(c: Fields) -> Mapping:
    return _gemma(
        c,
        **windows(c, default_every=2),
        post_norms=True,
        attention_soft_cap=c.number("attn_logit_softcapping", 0.0) != 0.0,
        logit_soft_cap=c.number("final_logit_softcapping", 0.0) != 0.0,
    )


def _gemma3_text(c: Fields) -> Mapping:
    every = c.whole("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _gemma(
        c,
        **windows(c, default_every=every),
        post_norms=True,
        query_key_norm="head",
        attention_soft_cap=c.number("attn_logit_softcapping", 0.0) != 0.0,
        logit_soft_cap=c.number("final_logit_softcapping", 0.0) != 0.0,
    )


def _phi3(c: Fields) -> Mapping:
    return gated(
        c,
        sliding_window=c.whole("sliding_window", default=None),
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", 1.0),
        fused_query_key_value=True,
        fused_gate_up=True,
        dropout=c.rate("resid_pdrop"),
        embedding_dropout=0.0,
    )


def latent(c: Fields, **fields: Any) -> Mapping:
    """Return what DeepSeek and its kin share: latent attention and experts beside shared ones."""
    c.only("moe_layer_freq", 1)
    common = {
        "attention": "mla",
        "head_size": c.whole("qk_nope_head_dim", default=128) + c.whole("qk_rope_head_dim", default=64),
        "num_key_value_heads": None,
        "q_lora_rank": c.whole("q_lora_rank", default=None),
        "kv_lora_rank": c.whole("kv_lora_rank", default=512),
        "qk_nope_head_size": c.whole("qk_nope_head_dim", default=128),
        "qk_rope_head_size": c.whole("qk_rope_head_dim", default=64),
        "value_head_size": c.whole("v_head_dim", default=128),
        "num_experts": c.whole("n_routed_experts"),
        "experts_per_token": c.whole("num_experts_per_tok"),
        "expert_intermediate_size": c.whole("moe_intermediate_size"),
        "num_shared_experts": c.whole("n_shared_experts", least=0),
        "num_dense_layers": c.whole("first_k_dense_replace", default=0, least=0),
        "router_in_fp32": True,
        "router_scaled": True,
    }
    return gated(c, **{**common, **fields})


def _deepseek_v2(c: Fields) -> Mapping:
    c.only("topk_method", "greedy", "group_limited_greedy")
    c.only("scoring_func", "softmax")
    grouped = c.word("topk_method", "greedy") == "group_limited_greedy"
    return latent(
        c,
        mlp_bias=c.flag("mlp_bias", False),
        rotary_form="complex",
        router_normalized=False,
        router_groups=c.whole("n_group") if grouped else None,
        router_groups_per_token=c.whole("topk_group") if grouped else None,
    )


def _deepseek_v3(c: Fields) -> Mapping:
    c.only("topk_method", "noaux_tc")
    c.only("scoring_func", "sigmoid")
    return latent(
        c,
        rotary_form="slices" if c.flag("rope_interleave", True) else "rotate_half",
        router_scores="sigmoid",
        router_correction_bias=True,
        router_normalized=c.flag("norm_topk_prob", True),
        router_groups=c.whole("n_group", default=8),
        router_groups_per_token=c.whole("topk_group", default=4),
    )


def _deepseek_v32(c: Fields) -> Mapping:
    chosen = {
        "index_heads": c.whole("index_n_heads"),
        "index_head_size": c.whole("index_head_dim"),
        "index_tokens": c.whole("index_topk"),
    }
    return {**_deepseek_v3(c), **chosen}


def _minimax_m2(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    head_size = c.whole("head_dim", default=128)
    turned = c.whole("rotary_dim", default=head_size)
    return gated(
        c,
        head_size=head_size,
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", turned / head_size),
        query_key_norm="full",
        num_experts=c.whole("num_local_experts"),
        experts_per_token=c.whole("num_experts_per_tok"),
        router_scores="sigmoid",
        router_correction_bias=True,
    )


def _gpt_oss(c: Fields) -> Mapping:
    c.only("output_router_logits", False)
    return gated(
        c,
        **windows(c, default_every=2),
        head_size=c.whole("head_dim", default=64),
        query_key_value_bias=c.flag("attention_bias", True),
        attention_output_bias=c.flag("attention_bias", True),
        gate="clamped",
        normalization_weight="fp32",
        rotary_form="slices",
        attention_sinks=True,
        num_experts=c.whole("num_local_experts"),
        experts_per_token=c.whole("num_experts_per_tok", "experts_per_token"),
        router_scores="softmax_of_top",
        router_bias=True,
        expert_bias=True,
    )


#: model_type -> the function that reads it.
LLAMA_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "ministral3": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_vl_text": _qwen2,
    "qwen2_5_vl_text": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
    "qwen3_vl_moe_text": _qwen3_moe,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3_text,
    "phi3": _phi3,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "kimi_k2": _deepseek_v3,
    "deepseek_v32": _deepseek_v32,
    "glm_moe_dsa": _deepseek_v32,
    "minimax_m2": _minimax_m2,
    "gpt_oss": _gpt_oss,
}
