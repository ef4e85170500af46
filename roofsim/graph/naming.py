"""Make names of new ops out of those of others. Nothing but a name may depend on what stands here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.component import Component


def inside_block(op: AbstractOp) -> str:
    """Return the name of an op inside its block: ``mlp.up.matmul`` of ``layers.mlp.up.matmul``."""
    return op.name if op.block is None else op.name.removeprefix(f"{op.block.name}.")


def name_of_layer(op: AbstractOp) -> str:
    """Return the name of the layer that an op is the product of: ``layers.mlp.up`` of ``layers.mlp.up.matmul``."""
    scope, _, last = op.name.rpartition(".")
    if last.isdigit():  # a second product of one name: matmul.2
        return f"{scope.rpartition('.')[0]}.{last}"
    return scope or op.name


def in_place_of(op: AbstractOp, leaf: str) -> str:
    """Return the name of what stands in the place of an op: ``mlp.gated`` for that of ``mlp.mul``."""
    scope, _, _ = op.name.rpartition(".")
    return f"{scope or op.name}.{leaf}"


def moved(name: str, old: Component, new: Component) -> str:
    """Return the name of what belongs to one component as that of what belongs to another beside it."""
    before, separator, behind = f".{name}".rpartition(f".{old.name}.")
    return f"{before}.{new.name}.{behind}".removeprefix(".") if separator else f"{name}.{new.name}"


def numbered(name: str, taken: Counter[str]) -> str:
    """Return a name as it is, or, where it is taken already, with a number behind it; from now on it is taken."""
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}.{taken[name]}"
