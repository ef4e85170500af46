"""Find which layers a quantiser left out: names of modules in its file -> layers of ours, with the share of the stack."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.spec.model.layer_names import ATTENTION, DELTA, EXPERTS, MLP, SHARED

Mapping = dict[str, Any]

#: Where the layers of a model stand in the library's modules.
_STACKS: Final = (
    "model.layers.{}.",
    "model.language_model.layers.{}.",
    "language_model.model.layers.{}.",
    "language_model.layers.{}.",
    "transformer.h.{}.",
    "gpt_neox.layers.{}.",
    "model.decoder.layers.{}.",
    "transformer.blocks.{}.",
)
_HEADS: Final = ("lm_head", "language_model.lm_head", "embed_out", "model.lm_head")


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
        (ATTENTION, whole),
        (DELTA, [at for at in range(depth) if at not in set(whole)]),
    ]
    layers += [(MLP, list(range(dense))), (EXPERTS, list(range(dense, depth)))]
    layers += [(SHARED, list(range(dense, depth)) if mapping.get("num_shared_experts") else [])]
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
