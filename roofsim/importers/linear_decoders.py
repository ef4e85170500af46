"""Map the configurations of decoders most of whose layers attend without a softmax, as lists of layers: MiniMax-01, Kimi Linear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, tied
from roofsim.importers.repeats import Steps, few_layers, stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields

#: How MiniMax's files call the kinds of layers: those of its own code by numbers, those of the library by words.
_KINDS: Final = {"linear_attention": 0, "full_attention": 1}


def listed(c: Fields, steps: Steps, norm: Any = "rms_norm", *, tied_unless_said: bool = False, **head: Any) -> Mapping:
    """Return a language model whose layers are a list: its embedding, them, a norm, its head."""
    decoder(c)  # refuses what ends in no language model
    entries = c.whole("vocab_size")
    ends = {"entries": entries, **({"tied": True} if tied(c, tied_unless_said) else {}), **head}
    return {
        "family": "layers",
        "inputs": "tokens",
        "max_sequence_length": c.whole("max_position_embeddings", "model_max_length"),
        "sizes": {"hidden": c.whole("hidden_size")},
        "layers": [{"embedding": {"entries": entries, "width": "hidden"}}, *steps, norm, {"logits": ends}],
    }


# -- MiniMax --------------------------------------------------------------------------------------------------------


def _minimax(c: Fields, *, normed_residuals: bool = True) -> Mapping:
    """Read MiniMax-Text-01 and M1: lightning attention, and a softmax in every eighth layer; experts behind each.

    `normed_residuals`: whether what a layer is added to went through its norm, where the file does not say.
    """
    c.only("hidden_act", "silu")
    c.only("output_router_logits", False)
    c.only("shared_intermediate_size", 0)
    if c.number("router_jitter_noise", 0.0) != 0.0:
        c.fail("router_jitter_noise", "jitter on the router's input is not supported; expected 0")
    normed = c.flag("postnorm", normed_residuals)
    heads = c.whole("num_attention_heads")
    size = c.whole("head_dim", default=c.whole("hidden_size") // heads or 1)
    lightning = {"num_heads": heads, "head_size": size, "block_size": c.whole("block_size", default=256)}
    attention = {
        "num_attention_heads": heads,
        "num_key_value_heads": c.whole("num_key_value_heads", default=8),
        "head_size": size,
        "position_embedding": "rotary",
        "rotary_fraction": rotary_fraction(c, "partial_rotary_factor", c.whole("rotary_dim", default=size) / size),
    }
    if c.has("sliding_window"):
        attention["sliding_window"] = c.whole("sliding_window")
    if c.rate("attention_dropout"):
        attention["attention_dropout"] = c.rate("attention_dropout")
    experts = {
        "num_experts": c.whole("num_local_experts", "num_experts"),
        "experts_per_token": c.whole("num_experts_per_tok"),
        "expert_intermediate_size": c.whole("intermediate_size"),
    }
    mixers = ({"lightning_attention": lightning}, {"attention": attention})

    def layer(kind: int) -> Steps:
        return [*_scaled(mixers[kind], normed=normed), *_scaled({"experts": experts}, normed=normed)]

    return listed(c, stack(_minimax_kinds(c), layer))


def _scaled(block: Mapping, *, normed: bool) -> Steps:
    """Return a block behind a norm, and a sum with what went into it (`normed`: as the norm left it), each with a factor."""
    if normed:
        return ["rms_norm", {"residual": [block, "scale"], "shortcut": ["scale"]}]
    return [{"residual": ["rms_norm", block, "scale"], "shortcut": ["scale"]}]


def _minimax_kinds(c: Fields) -> list[int]:
    layers, words = few_layers(c), c.words("layer_types")
    if words is not None:
        key, kinds = "layer_types", [_KINDS.get(word, -1) for word in words]
    else:
        key, kinds = "attn_type_list", c.wholes("attn_type_list")
    if len(kinds) != layers:
        c.fail(key, f"has {len(kinds)} entries for {layers} layers")
    if not {*kinds} <= {0, 1}:
        expected = " or ".join(_KINDS) if words is not None else "0 (lightning) or 1 (softmax)"
        c.fail(key, f"has a kind of layer that is not supported; expected {expected}")
    return kinds


def _minimax_released(c: Fields) -> Mapping:
    return _minimax(c, normed_residuals=False)


# -- Kimi Linear ----------------------------------------------------------------------------------------------------


def _kimi_linear(c: Fields) -> Mapping:
    """Read Kimi Linear: Kimi Delta Attention, latent attention without positions in every fourth layer, experts behind both."""
    c.only("hidden_act", "silu")
    c.only("mla_use_nope", True)
    c.only("moe_layer_freq", 1)
    c.only("moe_router_activation_func", "sigmoid")
    c.only("output_router_logits", False)
    c.only("num_nextn_predict_layers", 0)
    c.only("attention_bias", False)
    for key in ("mla_use_output_gate", "routed_expert_hidden_size", "attn_res_block_size"):  # Kimi K3's
        c.only(key, None, False)
    linear = c.part("linear_attn_config")
    linear.only("use_full_rank_gate", False)
    if linear.number("gate_lower_bound", 0.0) != 0.0:
        linear.fail("gate_lower_bound", "a bound on decays is not supported; expected null")
    delta = {
        "num_heads": linear.whole("num_heads", default=c.whole("linear_num_heads", default=32)),
        "head_size": linear.whole("head_dim", default=c.whole("linear_head_dim", default=128)),
        "conv_kernel": linear.whole("short_conv_kernel_size", default=c.whole("linear_conv_kernel_dim", default=4)),
    }
    layers = few_layers(c)
    steps = stack(
        list(zip(_kimi_mixers(c, linear, layers), _kimi_dense(c, layers), strict=True)),
        lambda kind: [
            {"residual": ["rms_norm", {"attention": _kimi_latent(c)} if kind[0] else {"kimi_delta": delta}]},
            {"residual": ["rms_norm", _kimi_mlp(c) if kind[1] else {"experts": _kimi_experts(c)}]},
        ],
    )
    return listed(c, steps)


def _kimi_latent(c: Fields) -> Mapping:
    given = {
        "num_attention_heads": c.whole("num_attention_heads"),
        "attention": "mla",
        "q_lora_rank": c.whole("q_lora_rank", default=None),
        "kv_lora_rank": c.whole("kv_lora_rank", default=512),
        "qk_nope_head_size": c.whole("qk_nope_head_dim", default=128),
        "qk_rope_head_size": c.whole("qk_rope_head_dim", default=64),
        "value_head_size": c.whole("v_head_dim", default=128),
        "attention_dropout": c.rate("attention_dropout") or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def _kimi_mlp(c: Fields) -> Mapping:
    return {"mlp": {"intermediate_size": c.whole("intermediate_size"), "gated_mlp": True}}


def _kimi_experts(c: Fields) -> Mapping:
    return {
        "num_experts": c.whole("num_experts", "num_local_experts", "n_routed_experts"),
        "experts_per_token": c.whole("num_experts_per_token", "num_experts_per_tok"),
        "expert_intermediate_size": c.whole("moe_intermediate_size"),
        "num_shared_experts": c.whole("num_shared_experts", "n_shared_experts", default=1, least=0),
        "router_in_fp32": True,
        "router_scaled": True,
        "router_scores": "sigmoid",
        "router_correction_bias": True,
        "router_normalized": c.flag("moe_renormalize", c.flag("norm_topk_prob", True)),
        "router_groups": c.whole("num_expert_group", "n_group", default=1),
        "router_groups_per_token": c.whole("topk_group", default=1),
    }


def _kimi_mixers(c: Fields, linear: Fields, layers: int) -> list[bool]:
    """Return which layers attend to everything: numbers from one on in the released file, words in the library's."""
    words = c.words("layer_types")
    if words is not None:
        unknown = [word for word in words if word not in _KINDS]
        if unknown or len(words) != layers:
            why = f"{unknown[0]!r} is not supported; expected {' or '.join(_KINDS)}" if unknown else ""
            c.fail("layer_types", why or f"has {len(words)} entries for {layers} layers")
        return [word == "full_attention" for word in words]
    full, other = linear.wholes("full_attn_layers"), linear.wholes("kda_layers")
    if sorted([*full, *other]) != list(range(1, layers + 1)):
        linear.fail("full_attn_layers", f"with kda_layers, expected each number from 1 to {layers} once")
    return [at + 1 in set(full) for at in range(layers)]


def _kimi_dense(c: Fields, layers: int) -> list[bool]:
    words = c.words("mlp_layer_types")
    if words is None:
        return [at < c.whole("first_k_dense_replace", default=1, least=0) for at in range(layers)]
    if len(words) != layers or not {*words} <= {"dense", "sparse"}:
        c.fail("mlp_layer_types", f"expected dense or sparse for each of {layers} layers")
    return [word == "dense" for word in words]


#: model_type -> the function that reads it.
LINEAR_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "kimi_linear": _kimi_linear,
    "minimax": _minimax,
    "minimax_text_01": _minimax_released,
    "minimax_m1": _minimax_released,
}
