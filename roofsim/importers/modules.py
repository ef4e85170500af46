"""Find which layers a quantiser left out: names of modules in its file -> layers of ours, with the share of the stack."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from roofsim.errors import Problem, SpecError

Mapping = dict[str, Any]

#: Where the layers of a model stand in the library's modules.
_STACKS: Final = (
    "model.layers.{}.", "model.language_model.layers.{}.", "language_model.model.layers.{}.", "language_model.layers.{}.",
    "transformer.h.{}.", "gpt_neox.layers.{}.", "model.decoder.layers.{}.", "transformer.blocks.{}.",
)  # fmt: skip
_HEADS: Final = ("lm_head", "language_model.lm_head", "embed_out", "model.lm_head")

#: Layer of ours -> how the library's classes call it (the first expert stands for all).
_ATTENTION: Final = {
    "self_attention.query": ("self_attn.q_proj", "attn.q_proj"),
    "self_attention.key": ("self_attn.k_proj", "attn.k_proj"),
    "self_attention.value": ("self_attn.v_proj", "attn.v_proj"),
    "self_attention.query_key_value": (
        "self_attn.qkv_proj", "self_attention.query_key_value", "attn.c_attn", "attention.query_key_value", "attn.Wqkv",
    ),
    "self_attention.output": (
        "self_attn.o_proj", "self_attn.out_proj", "self_attention.dense", "self_attn.dense", "attn.c_proj", "attn.out_proj",
        "attention.dense",
    ),
    "self_attention.query_down": ("self_attn.q_a_proj",),
    "self_attention.query_up": ("self_attn.q_b_proj",),
    "self_attention.key_value_down": ("self_attn.kv_a_proj_with_mqa",),
    "self_attention.key_value_up": ("self_attn.kv_b_proj",),
}  # fmt: skip
_DELTA: Final[dict[str, tuple[str, ...]]] = {
    "delta_net.in_qkvz": ("linear_attn.in_proj_qkvz",),
    "delta_net.in_ba": ("linear_attn.in_proj_ba",),
    "delta_net.output": ("linear_attn.out_proj",),
}
_MLP: Final = {
    "mlp.gate": ("mlp.gate_proj", "feed_forward.gate_proj"),
    "mlp.up": (
        "mlp.up_proj", "feed_forward.up_proj", "mlp.c_fc", "mlp.dense_h_to_4h", "mlp.fc1", "fc1", "mlp.fc_in", "ffn.up_proj",
    ),
    "mlp.gate_up": ("mlp.gate_up_proj",),
    "mlp.down": (
        "mlp.down_proj", "feed_forward.down_proj", "mlp.c_proj", "mlp.dense_4h_to_h", "mlp.fc2", "fc2", "mlp.fc_out",
        "ffn.down_proj",
    ),
}  # fmt: skip
_EXPERTS: Final = {
    "experts.gate_up": (
        "mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.gate_up_proj", "block_sparse_moe.experts.0.w1",
        "feed_forward.experts.gate_up_proj", "feed_forward.experts.0.gate_proj", "mlp.experts",
    ),
    "experts.down": (
        "mlp.experts.0.down_proj", "mlp.experts.down_proj", "block_sparse_moe.experts.0.w2", "feed_forward.experts.down_proj",
        "feed_forward.experts.0.down_proj", "mlp.experts",
    ),
}  # fmt: skip
_SHARED: Final = {
    f"shared_experts.{role}": tuple(
        f"{mlp}.{shared}.{role}_proj"
        for mlp in ("mlp", "feed_forward")
        for shared in ("shared_expert", "shared_experts")
    )
    for role in ("gate", "up", "down")
}


#: Layers beyond which a file is no model's; patterns times layers beyond which it is no quantiser's.
_MOST_LAYERS: Final = 100_000
_MOST_COMPARISONS: Final = 500_000
#: A repetition of a repetition, which can take for ever to compare.
_NESTED: Final = re.compile(r"[*+}]\)+[*+{]|\([^)]*[*+}][^)]*\)[*+{]")


class Excluded:
    """Names that a file lists, and how its quantiser compares them with those of modules.

    ``part``: anywhere inside (AutoAWQ); ``whole``: the module, one above it, or the end of its name (transformers);
    ``glob``: with asterisks (ModelOpt); ``regex``: an expression from the name's beginning, where it is none as ``whole``.
    In all of them ``re:`` stands before an expression (compressed-tensors).
    """

    def __init__(self, names: list[str], style: str) -> None:
        self.style = style
        written = {name for name in names if name.startswith("re:")}
        plain = set(names) - written
        self.plain = plain if style != "part" else set()
        self.parts = plain if style == "part" else set()
        self.globs = {name for name in plain if "*" in name} if style == "glob" else set()
        signs = re.compile(r"[][\\^$*+?(){}|]")
        expressions = [name[3:] for name in written]
        expressions += [name for name in plain if style == "regex" and signs.search(name)]
        self.expressions = [_compiled(expression) for expression in expressions]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.plain) + self.patterns

    @property
    def patterns(self) -> int:
        """Number of those that are compared one by one."""
        return len(self.parts) + len(self.globs) + len(self.expressions)

    def matches(self, module: str) -> bool:
        """Whether a module is among them."""
        if self.plain and not self.plain.isdisjoint(_paths_in(module)):
            return True
        if any(part in module for part in self.parts):
            return True
        if any(fnmatchcase(module, name) or fnmatchcase(module, f"{name}.*") for name in self.globs):
            return True
        return any(expression.match(module) for expression in self.expressions)


@lru_cache(maxsize=20_000)
def _paths_in(module: str) -> frozenset[str]:
    """Return the module's name, those of the modules above it, and what either ends with."""
    parts = module.split(".")
    return frozenset(
        ".".join(parts[first : last + 1]) for first in range(len(parts)) for last in range(first, len(parts))
    )


def _compiled(expression: str) -> re.Pattern[str]:
    path = "quantization_config"
    if _NESTED.search(expression):
        raise SpecError(Problem(f"the pattern {expression[:60]!r} repeats what repeats, which is not read", path=path))
    try:
        return re.compile(expression)
    except re.error as error:
        raise SpecError(Problem(f"the pattern {expression[:60]!r} is none: {error}", path=path)) from None


def head_is_wide(excluded: Excluded) -> bool:
    """Whether the output matrix is among what is left out."""
    return any(excluded.matches(name) for name in _HEADS)


def wide_layers(
    mapping: Mapping, excluded: Excluded, *, only: list[str] | None = None, targets: Excluded | None = None
) -> dict[str, float]:
    """Return the layers of ours that keep their type, each with the share of the layers in which it does.

    `only` are the modules of a layer that are quantised at all, `targets` the modules anywhere; None: all.
    """
    if mapping.get("family") != "decoder" or not (len(excluded) or only or targets):
        return {}
    depth = int(mapping["num_layers"])
    if depth > _MOST_LAYERS or depth * (excluded.patterns + (targets.patterns if targets else 0)) > _MOST_COMPARISONS:
        raise SpecError(Problem(f"too many patterns for {depth} layers", path="quantization_config"))
    inside = None if only is None else Excluded(only, "whole")
    wide: dict[str, float] = {}
    for layer, spellings, numbers in _layers(mapping):
        kept = 0
        for number in numbers:
            names = [f"{stack.format(number)}{spelling}" for spelling in spellings for stack in _STACKS]
            outside = inside is not None and not any(map(inside.matches, spellings))
            missed = targets is not None and not any(map(targets.matches, names))
            kept += outside or missed or any(map(excluded.matches, names))
        if kept:
            wide[layer] = kept / len(numbers)
    return wide


def _layers(mapping: Mapping) -> list[tuple[str, tuple[str, ...], list[int]]]:
    """Return the kinds of linear layers of a decoder, their names, and in which of its layers they stand."""
    depth, experts = int(mapping["num_layers"]), int(mapping.get("num_experts") or 0)
    dense = int(mapping.get("num_dense_layers") or 0) if experts else depth
    every = mapping.get("full_attention_every") if mapping.get("delta_net") else None
    whole = [at for at in range(depth) if every is None or (at + 1) % every == 0]
    layers: list[tuple[dict[str, tuple[str, ...]], list[int]]] = [
        (_ATTENTION, whole),
        (_DELTA, [at for at in range(depth) if at not in set(whole)]),
    ]
    layers += [(_MLP, list(range(dense))), (_EXPERTS, list(range(dense, depth)))]
    layers += [(_SHARED, list(range(dense, depth)) if mapping.get("num_shared_experts") else [])]
    return [
        (layer, spellings, numbers)
        for table, numbers in layers
        for layer, spellings in table.items()
        if numbers and _is_there(layer, mapping)
    ]


def _is_there(layer: str, mapping: Mapping) -> bool:
    """Whether a model has this kind of layer: one projection or three, latent attention or not, gated or not."""
    area, _, role = layer.partition(".")
    if area == "self_attention":
        return _is_projection(role, mapping)
    if area != "mlp" or role == "down":
        return True
    fused = bool(mapping.get("fused_gate_up"))
    return fused if role == "gate_up" else not fused and (role == "up" or bool(mapping.get("gated_mlp")))


def _is_projection(role: str, mapping: Mapping) -> bool:
    if mapping.get("attention") == "mla":
        low = mapping.get("q_lora_rank") is not None
        return role in (
            "output",
            "key_value_down",
            "key_value_up",
            *(("query_down", "query_up") if low else ("query",)),
        )
    fused = bool(mapping.get("fused_query_key_value"))
    return role in ("output", *(("query_key_value",) if fused else ("query", "key", "value")))
