"""Kinds of models that people filter by, beside the families of schemas: told by what a model's file holds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.spec import catalog
from roofsim.spec.model.layers.steps import BLOCKS
from roofsim.spec.model.registry import families_that

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Kind -> what a model is that is of it.
KINDS: Final = {
    "diffusion": "denoises: a network of one step, or a pipeline of them",
    "gnn": "a graph network: its samples are nodes",
    "hybrid": "a language model of layers that attend, beside layers with a state that passes through the sequence",
    "moe": "a mixture of experts",
}
#: What says that layers attend: a block of a list of layers, a field of a family.
_ATTENDS: Final = frozenset({"attention", "num_attention_heads"})
#: What the denoisers that are written layer by layer take beside their samples.
_OF_A_STEP: Final = "timestep"


def kinds_of(name: str) -> frozenset[str]:
    """Return the kinds of a model of the catalog.

    >>> sorted(kinds_of("jamba-v0.1"))
    ['hybrid', 'moe']
    """
    data = catalog.load("model", name).data
    words = frozenset({*data, *_words(data.get("layers", ()))})
    language = data.get("inputs", "tokens") == "tokens"
    told = {
        "diffusion": data["family"] in _denoisers() or _OF_A_STEP in data.get("more_inputs", ()),
        "gnn": data.get("inputs") == "nodes",
        "hybrid": language and bool(words & _ATTENDS) and bool(words & _with_states()),
        "moe": (data.get("num_experts") or 0) > 1 or "experts" in words,
    }
    return frozenset(kind for kind, holds in told.items() if holds)


def _words(node: Any) -> Iterator[str]:
    """Yield what blocks a list of layers names, at any depth."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from _words(value)
    elif isinstance(node, list):
        for each in node:
            yield from _words(each)
    elif isinstance(node, str):
        yield node


@cache
def _with_states() -> frozenset[str]:
    return frozenset(word for word, block in BLOCKS.items() if getattr(block, "recurrent", False))


@cache
def _denoisers() -> frozenset[str]:
    return frozenset(families_that(lambda schema: schema.denoises or schema.networks))
