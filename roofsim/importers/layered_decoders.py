"""Map the configurations of decoders that no field of a family describes: as lists of layers (Gemma 3n)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.decoders import Mapping, decoder, tied
from roofsim.importers.repeats import Steps, few_layers, stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields


def _gemma3n(c: Fields) -> Mapping:
    c.only("altup_correct_scale", True)
    c.only("attention_bias", False)
    layers, sizes = few_layers(c), _sizes(c)
    windows = _windows(c, layers)
    shared = sharing(
        c, [window is not None for window in windows], c.whole("num_kv_shared_layers", default=15, least=0)
    )
    kinds = list(zip(windows, _widths(c, layers), _cutoffs(c, layers), shared, strict=True))
    streams = c.whole("altup_num_inputs", default=4, least=2)
    # What a repeat keeps is gone after it: a layer that keeps something for later ones is no repeat.
    steps = stack(kinds, lambda kind: _layer(c, streams, *kind), alone=lambda kind: kind[-1] == "keeps")
    head = {"entries": sizes["vocabulary"], "tied": tied(c, True)}
    if c.number("final_logit_softcapping", 30.0):
        head["soft_cap"] = True
    decoder(c)  # refuses what ends in no language model
    return {
        "family": "layers",
        "inputs": "tokens",
        "max_sequence_length": c.whole("max_position_embeddings", default=32768),
        "sizes": {key: value for key, value in sizes.items() if key != "vocabulary"},
        "layers": [
            *with_inputs_of_layers(c, sizes["vocabulary"]),
            {"open_streams": streams},
            *steps,
            {"close_streams": streams},
            norm(),
            {"logits": head},
        ],
    }


def _sizes(c: Fields) -> dict[str, int]:
    return {
        "vocabulary": c.whole("vocab_size", default=262400),
        "hidden": c.whole("hidden_size"),
        "layers": c.whole("num_hidden_layers"),
        "per_layer": c.whole("hidden_size_per_layer_input", default=256),
    }


def with_inputs_of_layers(c: Fields, entries: int) -> Steps:
    """Return an embedding, and one beside it that gives each layer an input of its own: `per_layer` wide, of `layers`."""
    wide, own = "layers * per_layer", c.whole("vocab_size_per_layer_input", default=262144)
    projected = [linear(wide), "scale", {"rms_norm": {"weight_form": "wide", "parts": "layers"}}]
    looked_up = {"embedding": {"entries": own, "width": wide, "scale": True}}
    return [
        {"name": "per_layer_embedding", "aside": [looked_up], "as": "looked_up"},
        {"embedding": {"entries": entries, "width": "hidden", "scale": True}},
        {"name": "per_layer_inputs", "aside": [*projected, {"add": "looked_up"}, "scale"], "as": "per_layer_inputs"},
    ]


def norm() -> Mapping:
    """Return an RMS norm, as the Gemma classes write it."""
    return {"rms_norm": {"weight_form": "wide"}}


def linear(width: str | int) -> Mapping:
    """Return a layer without bias that ranks of a tensor group all hold."""
    return {"linear": {"width": width, "bias": False, "split": "whole"}}


def _layer(c: Fields, streams: int, window: int | None, width: int, cutoff: bool, sharing: str | None) -> Steps:
    """Return the steps of a layer, as Gemma3nTextDecoderLayer runs them."""
    attention = {
        "num_attention_heads": c.whole("num_attention_heads"),
        "num_key_value_heads": c.whole("num_key_value_heads", default=2),
        "head_size": c.whole("head_dim", default=256),
        "position_embedding": "rotary",
        "query_key_norm": "head",
        "normalization_weight": "wide",
    }
    dropout = c.rate("attention_dropout")
    attention |= {"attention_dropout": dropout} if dropout else {}
    own = "full" if window is None else "windowed"
    attention |= {} if window is None else {"sliding_window": window}
    attention |= {"key_values": own} if sharing == "reads" else {"value_norm": True}
    attention |= {"key_values_as": own} if sharing == "keeps" else {}
    activation = c.activation("hidden_act", "hidden_activation", default="gelu_pytorch_tanh")
    mlp = {"intermediate_size": width, "gated_mlp": True, "activation": activation} | (
        {"gate": "cutoff"} if cutoff else {}
    )
    rank = c.whole("laurel_rank", default=64)
    return [
        {"predict_streams": streams, "as": "predicted"},
        {"slice": {"width": "hidden"}, "as": "active"},
        {**norm(), "as": "normed"},
        {"name": "laurel", "aside": [linear(rank), linear("hidden"), norm(), {"add": "normed"}], "as": "laurel"},
        {"attention": attention},
        norm(),
        {"add": "active"},
        {"add": "laurel"},
        "scale",
        {"residual": [norm(), {"mlp": mlp}, norm()], "as": "activated"},
        {
            "from": "predicted",
            "correct_streams": {"streams": streams, "activated": "activated", "active_as": "corrected"},
            "as": "streams",
        },
        {"aside": [{"slice": {"width": "per_layer"}}], "from": "per_layer_inputs", "as": "input"},
        {"from": "corrected", **linear("per_layer")},
        activation,
        {"multiply": "input"},
        linear("hidden"),
        {**norm(), "as": "added"},
        {"from": "streams", "add_to_streams": "added"},
    ]


# -- what tells layers apart ----------------------------------------------------------------------------------------


def _windows(c: Fields, layers: int) -> list[int | None]:
    """Return how far each layer looks back, None where it sees everything: every fifth, where the file says nothing."""
    kinds = c.words("layer_types")
    if kinds is None:
        kinds = ["full_attention" if (at + 1) % 5 == 0 else "sliding_attention" for at in range(layers)]
    unknown = [kind for kind in kinds if kind not in ("sliding_attention", "full_attention")]
    if unknown:
        c.fail("layer_types", f"{unknown[0]!r} is not supported; expected sliding_attention or full_attention")
    if len(kinds) != layers:
        c.fail("layer_types", f"has {len(kinds)} entries for {layers} layers")
    window = c.whole("sliding_window", default=512)
    return [window if kind == "sliding_attention" else None for kind in kinds]


def _widths(c: Fields, layers: int) -> list[int]:
    """Return the widths of the feed-forward layers: one of all, or a list."""
    if not isinstance(c.data.get("intermediate_size"), list):
        return [c.whole("intermediate_size", default=16384)] * layers
    widths = c.wholes("intermediate_size")
    if len(widths) != layers or min(widths, default=1) < 1:
        c.fail(
            "intermediate_size",
            f"expected {layers} widths of at least 1; got {len(widths)}, from {min(widths, default=0)} on",
        )
    return widths


def _cutoffs(c: Fields, layers: int) -> list[bool]:
    """Return which layers cut their gates off: the first ten, where the file says nothing."""
    given = c.data.get("activation_sparsity_pattern")
    if given is None:
        return [layers > 10 and at < 10 for at in range(layers)]
    values = given if isinstance(given, list) else [given] * layers
    if len(values) != layers or any(
        isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one < 1 for one in values
    ):
        c.fail("activation_sparsity_pattern", f"expected {layers} shares from 0 to below 1")
    return [one > 0 for one in values]


def sharing(c: Fields, windowed: list[bool], shared: int) -> list[str | None]:
    """Return which layers read the keys and values of another: the last `shared`; and which are the last of a kind before them."""
    first = len(windowed) - shared
    own, read = windowed[: max(first, 0)], set(windowed[max(first, 0) :])
    if not read <= set(own):
        c.fail(
            "num_kv_shared_layers", f"no layer before the last {shared} has keys and values of the same kind as theirs"
        )
    keepers = {max(at for at, one in enumerate(own) if one is kind) for kind in read}
    return ["reads" if at >= first else "keeps" if at in keepers else None for at in range(len(windowed))]


#: model_type -> the function that reads it.
LAYERED_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {"gemma3n_text": _gemma3n}
