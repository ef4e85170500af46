"""Share what the readers of decoder configurations have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofsim.importers.fields import Fields

Mapping = dict[str, Any]


def decoder(c: Fields, **fields: Any) -> Mapping:
    """Return a mapping of the decoder family; refuses checkpoints that end in something else than a language model."""
    for name in c.words("architectures") or []:
        if not name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
            c.fail(
                "architectures",
                f"{name} has no language-model head, which a decoder has",
                "Write the ForCausalLM class of the same architecture to price it with one.",
            )
    c.only("add_cross_attention", False)
    return {"family": "decoder", **{key: value for key, value in fields.items() if value is not None}}


def sizes(c: Fields) -> Mapping:
    """Return what almost all newer configurations name alike."""
    return {
        "num_layers": c.whole("num_hidden_layers", "num_layers"),
        "hidden_size": c.whole("hidden_size"),
        "num_attention_heads": c.whole("num_attention_heads"),
        "vocab_size": c.whole("vocab_size"),
    }


def tied(c: Fields, default: bool) -> bool:
    """Tell whether the head shares the embedding's table."""
    return c.flag("tie_word_embeddings", default)


def rotary_fraction(c: Fields, key: str, default: float) -> float:
    """Return the rotated share of each head: a key of its own, or one of ``rope_parameters``."""
    share = c.part("rope_parameters").number("partial_rotary_factor", c.number(key, default))
    if not 0.0 < share <= 1.0:
        c.fail(key, f"expected a share above 0 and up to 1; got {share:g}")
    return share


def sigmoid_router(c: Fields, *, normalized: bool) -> Mapping:
    """Return the router of DeepSeek-V3 and its kin: sigmoid scores in fp32, a balancing bias, groups, a factor on the weights.

    `normalized` is what the class takes where the file does not say whether weights sum to one.
    """
    return {
        "router_in_fp32": True,
        "router_scaled": True,
        "router_scores": "sigmoid",
        "router_correction_bias": True,
        "router_normalized": c.flag("norm_topk_prob", normalized),
        "router_groups": c.whole("n_group", default=1),
        "router_groups_per_token": c.whole("topk_group", default=1),
    }
