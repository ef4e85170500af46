"""Map the configurations of decoders whose layers differ in heads or parts: MiMo-V2-Flash, LongCat-Flash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.decoders import Mapping, sigmoid_router
from roofsim.importers.linear_decoders import listed
from roofsim.importers.repeats import Steps, few_layers, stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields

#: Kinds of attention, in words -> whether a layer looks back a limited distance.
WINDOWED: Final = {"full_attention": False, "sliding_attention": True}


def told_apart(c: Fields, words: str, numbers: str, kinds: dict[str, bool], layers: int) -> list[bool] | None:
    """Return which of two kinds each layer is, by words of the library or by numbers of a release; None where neither is there.

    Raises
    ------
    SpecError
        For other kinds, or for more or fewer than the layers.
    """
    said = c.words(words)
    if said is None and not c.has(numbers):
        return None
    if said is None:
        key, given = numbers, c.wholes(numbers)
        made = [bool(number) for number in given]
        unknown = next((str(number) for number in given if number not in (0, 1)), None)
        expected = "0 or 1"
    else:
        key, made = words, [kinds.get(word, False) for word in said]
        unknown = next((repr(word) for word in said if word not in kinds), None)
        expected = " or ".join(kinds)
    if unknown is not None:
        c.fail(key, f"{unknown} is not supported; expected {expected}")
    if len(made) != layers:
        c.fail(key, f"has {len(made)} entries for {layers} layers")
    return made


# -- MiMo-V2-Flash --------------------------------------------------------------------------------------------------


def _mimo_v2_flash(c: Fields) -> Mapping:
    """Read MiMo-V2-Flash: five windowed layers with sinks and more key-value heads for each that sees all; experts behind."""
    c.only("output_router_logits", False)
    c.only("topk_method", "noaux_tc")
    c.only("scoring_func", "sigmoid")
    c.only("n_shared_experts", None, 0)
    layers = few_layers(c)
    windowed = told_apart(c, "layer_types", "hybrid_layer_pattern", WINDOWED, layers)
    if windowed is None:
        windowed = [at != 0 and (at + 1) % 6 != 0 for at in range(layers)]
    sparse = told_apart(c, "mlp_layer_types", "moe_layer_freq", {"dense": False, "sparse": True}, layers)
    kinds = list(zip(windowed, [at > 0 for at in range(layers)] if sparse is None else sparse, strict=True))

    def layer(kind: tuple[bool, bool]) -> Steps:
        return [
            {"residual": ["rms_norm", {"attention": _mimo_attention(c, windowed=kind[0])}]},
            {"residual": ["rms_norm", {"experts": _mimo_experts(c)} if kind[1] else {"mlp": _mimo_mlp(c)}]},
        ]

    return listed(c, stack(kinds, layer))


def _mimo_attention(c: Fields, *, windowed: bool) -> Mapping:
    heads, shared = c.whole("num_attention_heads"), c.whole("num_key_value_heads")
    size, value = c.whole("head_dim", default=192), c.whole("v_head_dim", default=128)
    sinks = c.flag("add_swa_attention_sink_bias", True) if windowed else c.flag("add_full_attention_sink_bias", False)
    if windowed:
        heads = c.whole("swa_num_attention_heads", default=heads)
        shared = c.whole("swa_num_key_value_heads", default=2 * shared)
        size, value = c.whole("swa_head_dim", default=size), c.whole("swa_v_head_dim", default=value)
    turned = int(size * _turned_share(c, windowed=windowed))
    made: Mapping = {
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_size": size,
        "value_head_size": value,
        "position_embedding": "rotary",
        "rotary_fraction": max(turned, 1) / size,
    }
    if windowed:  # a token sees those before it, and itself
        seen = c.whole("sliding_window_size", default=0, least=0)
        made["sliding_window"] = seen + 1 if seen else c.whole("sliding_window", default=129)
    if c.number("attention_value_scale", 1.0) != 1.0:
        made["value_scale"] = True
    more = {
        "attention_sinks": sinks,
        "query_key_value_bias": c.flag("attention_bias", False),
        "attention_dropout": c.rate("attention_dropout"),
    }
    return made | {key: value for key, value in more.items() if value}


def _turned_share(c: Fields, *, windowed: bool) -> float:
    """Return the rotated share of each head: one of all layers, or one of each kind."""
    own = c.part("rope_parameters").part("sliding_attention" if windowed else "full_attention")
    share = own.number("partial_rotary_factor", c.number("partial_rotary_factor", 0.334))
    if not 0.0 < share <= 1.0:
        c.fail("partial_rotary_factor", f"expected a share above 0 and up to 1; got {share:g}")
    return share


def _mimo_mlp(c: Fields) -> Mapping:
    return {
        "intermediate_size": c.whole("intermediate_size"),
        "gated_mlp": True,
        "activation": c.activation("hidden_act", default="silu"),
    }


def _mimo_experts(c: Fields) -> Mapping:
    return {
        "num_experts": c.whole("n_routed_experts"),
        "experts_per_token": c.whole("num_experts_per_tok"),
        "expert_intermediate_size": c.whole("moe_intermediate_size"),
        "activation": c.activation("hidden_act", default="silu"),
        **sigmoid_router(c, normalized=True),
    }


# -- LongCat-Flash --------------------------------------------------------------------------------------------------


def _longcat_flash(c: Fields) -> Mapping:
    """Read LongCat-Flash: latent attention and a dense part, twice; experts read what the first part reads, and are added last."""
    c.only("attention_method", "MLA", "mla")
    c.only("zero_expert_type", "identity")
    c.only("hidden_act", "silu")
    c.only("attention_bias", False)
    c.only("router_bias", False)
    c.only("output_router_logits", False)
    for key in ("ngram_vocab_size_ratio", "emb_neighbor_num"):  # LongCat-Flash-Lite's embeddings
        c.only(key, None)
    layers = few_layers(c, "num_layers" if c.has("num_layers") else "num_hidden_layers")
    attention = {
        "num_attention_heads": c.whole("num_attention_heads"),
        "attention": "mla",
        "q_lora_rank": c.whole("q_lora_rank"),
        "kv_lora_rank": c.whole("kv_lora_rank"),
        "qk_nope_head_size": c.whole("qk_nope_head_dim"),
        "qk_rope_head_size": c.whole("qk_rope_head_dim"),
        "value_head_size": c.whole("v_head_dim"),
        "position_embedding": "rotary",
        "rotary_form": "slices",
    }
    dropout = c.rate("attention_dropout")
    attention |= {"attention_dropout": dropout} if dropout else {}
    experts = {
        "num_experts": c.whole("n_routed_experts"),
        "zero_experts": c.whole("zero_expert_num", default=0, least=0),
        "experts_per_token": c.whole("moe_topk", "num_experts_per_tok"),
        "expert_intermediate_size": c.whole("expert_ffn_hidden_size", "moe_intermediate_size"),
        "router_in_fp32": True,
        "router_scaled": True,
        "router_correction_bias": True,
        "router_normalized": c.flag("norm_topk_prob", False),
    }
    attends = {"residual": ["rms_norm", {"attention": attention}]}
    mlp = {"mlp": {"intermediate_size": c.whole("ffn_hidden_size", "intermediate_size"), "gated_mlp": True}}
    beside = {"aside": [{"experts": experts}], "as": "shortcut"}
    steps = [
        attends,
        {"residual": ["rms_norm", beside, mlp]},
        attends,
        {"residual": ["rms_norm", mlp]},
        {"add": "shortcut"},
    ]
    return listed(c, [{"repeat": layers, "layers": steps}])


#: model_type -> the function that reads it.
MIXED_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "longcat_flash": _longcat_flash,
    "mimo_v2_flash": _mimo_v2_flash,
}
