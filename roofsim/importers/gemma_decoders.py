"""Map the configurations of Gemma 4's language models, as lists of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.layered_decoders import linear, norm, sharing, with_inputs_of_layers
from roofsim.importers.linear_decoders import listed
from roofsim.importers.mixed_decoders import WINDOWED, told_apart
from roofsim.importers.repeats import Steps, few_layers, stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.decoders import Mapping
    from roofsim.importers.fields import Fields


def _gemma4(c: Fields, *, inputs: int = 256, window: int = 512) -> Mapping:
    """Read Gemma 4: wider heads in layers that see all, in some sizes with keys that are values too.

    The small ones give each layer an input of its own, and their last layers read the keys and values of others.

    `inputs`, `window`: how wide those are and how far layers look back, where the file says nothing.
    """
    c.only("attention_bias", False)
    c.only("use_bidirectional_attention", None, "vision")
    per_layer = c.whole("hidden_size_per_layer_input", default=inputs, least=0)
    windowed = _windowed(c)
    window = c.whole("sliding_window", default=window)
    shared = sharing(c, windowed, c.whole("num_kv_shared_layers", default=0, least=0))
    steps = stack(
        list(zip(windowed, shared, strict=True)),
        lambda kind: _layer(c, window if kind[0] else None, kind[1], per_layer=per_layer > 0),
        # What a repeat keeps is gone after it: a layer that keeps something for later ones is no repeat.
        alone=lambda kind: kind[-1] == "keeps",
    )
    head = {"soft_cap": True} if c.number("final_logit_softcapping", 0.0) else {}
    mapping = listed(c, steps, norm(), tied_unless_said=True, **head)
    mapping["layers"][0]["embedding"]["scale"] = True
    if per_layer:
        mapping["sizes"] |= {"layers": len(windowed), "per_layer": per_layer}
        mapping["layers"][:1] = with_inputs_of_layers(c, c.whole("vocab_size"))
    return mapping


def _without_inputs(c: Fields) -> Mapping:
    """Read Gemma 4 Unified (12B), whose class has no inputs of layers and no experts."""
    c.only("hidden_size_per_layer_input", 0)
    c.only("enable_moe_block", False)
    return _gemma4(c, inputs=0, window=1024)


def _windowed(c: Fields) -> list[bool]:
    """Return which layers look back a limited distance: five of six, where the file says nothing; never the last."""
    layers = few_layers(c)
    said = told_apart(c, "layer_types", "layer_pattern", WINDOWED, layers)
    made = [(at + 1) % 6 != 0 for at in range(layers)] if said is None else said
    return [*made[:-1], False]  # as the class of the configuration has it


def _layer(c: Fields, window: int | None, shared: str | None, *, per_layer: bool) -> Steps:
    """Return the steps of a layer, as Gemma4TextDecoderLayer runs them."""
    activation = c.activation("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    width = c.whole("intermediate_size") * (2 if shared == "reads" and c.flag("use_double_wide_mlp", False) else 1)
    mlp = {"intermediate_size": width, "gated_mlp": True, "activation": activation}
    dense: Steps = [norm(), {"mlp": mlp}, norm()]
    if c.flag("enable_moe_block", False):
        dense = [{"branches": [dense, _experts(c, activation)], "merge": "add"}, norm()]
    attends = {"residual": [norm(), {"attention": _attention(c, window, shared)}, norm()]}
    told: Steps = []
    if per_layer:
        told = [
            {"aside": [{"slice": {"width": "per_layer"}}], "from": "per_layer_inputs", "as": "input"},
            {"residual": [linear("per_layer"), activation, {"multiply": "input"}, linear("hidden"), norm()]},
        ]
    return [attends, {"residual": dense}, *told, "scale"]


def _experts(c: Fields, activation: str) -> Steps:
    """Return the experts beside the dense part; their router reads tokens that a norm without weights and a scale leave."""
    plain = {"rms_norm": {"weight_form": "wide", "affine": False}}
    experts = {
        "num_experts": c.whole("num_experts"),
        "experts_per_token": c.whole("top_k_experts"),
        "expert_intermediate_size": c.whole("moe_intermediate_size"),
        "activation": activation,
        "router_reads": "routed",
        "expert_scale": True,
    }
    routed = {"aside": [plain, {"affine": {"shift": False}}, "scale"], "as": "routed"}
    return [routed, norm(), {"experts": experts}, norm()]


def _attention(c: Fields, window: int | None, shared: str | None) -> Mapping:
    heads, size = c.whole("num_key_value_heads"), c.whole("head_dim", default=256)
    both = c.flag("attention_k_eq_v", False) and window is None
    if window is None:
        size = c.whole("global_head_dim", default=512)
        heads = c.whole("num_global_key_value_heads", default=heads) if both else heads
    made: Mapping = {
        "num_attention_heads": c.whole("num_attention_heads"),
        "num_key_value_heads": heads,
        "head_size": size,
        "position_embedding": "rotary",
        "query_key_norm": "head",
        "normalization_weight": "wide",
    }
    own = "full" if window is None else "windowed"
    made |= {"key_values": own} if shared == "reads" else {"value_norm": True}
    made |= {"key_values_as": own} if shared == "keeps" else {}
    made |= {} if window is None else {"sliding_window": window}
    made |= {"values_as_keys": True} if both and shared != "reads" else {}
    dropout = c.rate("attention_dropout")
    return made | ({"attention_dropout": dropout} if dropout else {})


#: model_type -> the function that reads it.
GEMMA_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _without_inputs,
}
