"""Map the configurations of decoders most of whose layers attend without a softmax: as lists of layers (MiniMax-01)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, tied
from roofsim.importers.repeats import Steps, few_layers, stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields

#: How MiniMax's files call the kinds of layers: those of its own code by numbers, those of the library by words.
_KINDS: Final = {"linear_attention": 0, "full_attention": 1}


def listed(c: Fields, steps: Steps, norm: Any = "rms_norm", **head: Any) -> Mapping:
    """Return a language model whose layers are a list: its embedding, them, a norm, its head."""
    decoder(c)  # refuses what ends in no language model
    entries = c.whole("vocab_size")
    ends = {"entries": entries, **({"tied": True} if tied(c, False) else {}), **head}
    return {
        "family": "layers",
        "inputs": "tokens",
        "max_sequence_length": c.whole("max_position_embeddings"),
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


#: model_type -> the function that reads it.
LINEAR_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "minimax": _minimax,
    "minimax_text_01": _minimax_released,
    "minimax_m1": _minimax_released,
}
