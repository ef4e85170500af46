"""Build SparseMixer, a router that takes its experts one after another (arXiv 2409.12136), as Phi-3.5-MoE's code does.

Each round hides what lies far below the largest score, normalises the rest, and takes an expert; the next round does the same
without the experts already taken. Inference takes the largest. Training draws, with the noise of a Gumbel distribution, and
estimates the gradient by itself: the scores get it at once, and nothing flows back through the softmax (transformers,
modeling_phimoe.py, sparsemixer).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Elementwise, Gather, Reduction
from roofsim.graph.tensor import BOOL, FP32, INT64, Tensor

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers

#: Experts that each token takes, one in a round.
ROUNDS = 2


def sparse_mixer(layers: Layers, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights and the indices ``[tokens, 2]`` of the experts that ``[tokens, experts]`` of scores choose."""
    with layers.b.scope("sparse_mixer"):
        left, chosen, weights = scores, [], []
        for at in range(ROUNDS):
            index, weight = _taken(layers, scores, left)
            chosen.append(index)
            weights.append(weight)
            if at + 1 < ROUNDS:
                hidden = layers.b.tensor("left", *left.shape, dtype=left.dtype)
                layers.b.emit(Gather, "hide", inputs=(left, index), outputs=(hidden,), function="scatter")
                left = hidden
        return layers.concat(tuple(weights), -1), layers.concat(tuple(chosen), -1)


def _taken(layers: Layers, scores: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index and the weight ``[tokens, 1]`` of one expert among the scores that are left."""
    largest, place = _largest(layers, left)
    factor = layers.pointwise("clamp", layers.pointwise("abs", scores), largest)
    distance = layers.pointwise("div", layers.pointwise("sub", largest, scores), factor)
    far = layers.pointwise("compare", distance, dtype=BOOL)
    near = layers.pointwise("masked_fill", left, far, dtype=left.dtype)
    drawn = _drawn(layers, near) if layers.flavour.training else place
    shares = layers.softmax(near)
    weight = layers.b.tensor("weight", *drawn.shape, dtype=shares.dtype)
    layers.b.emit(Gather, "weight", inputs=(shares, drawn), outputs=(weight,))
    return drawn, _estimated(layers, scores, shares, drawn, weight) if layers.flavour.training else weight


def _largest(layers: Layers, x: Tensor) -> tuple[Tensor, Tensor]:
    b = layers.b
    value, place = b.tensor("largest", x.shape[0], 1.0, dtype=x.dtype), b.tensor("place", x.shape[0], 1.0, dtype=INT64)
    b.emit(Reduction, "max", inputs=(x,), outputs=(value, place), function="max")
    return value, place


def _drawn(layers: Layers, near: Tensor) -> Tensor:
    """Draw an expert: the largest score after noise."""
    noise = _random(layers, near)
    _, place = _largest(layers, layers.pointwise("sub", near, layers.pointwise("log", noise)))
    return place


def _random(layers: Layers, like: Tensor) -> Tensor:
    out = layers.b.tensor("random", *like.shape, dtype=like.dtype)
    layers.b.emit(Elementwise, "random", inputs=(), outputs=(out,), holds=(like,), function="random")
    return out


def _estimated(layers: Layers, scores: Tensor, shares: Tensor, drawn: Tensor, weight: Tensor) -> Tensor:
    """Scale weights by a third where Heun's rule says so; the op holds what its own gradient reads."""
    b = layers.b
    largest, place = _largest(layers, shares)
    is_largest = layers.pointwise("compare", drawn, place, dtype=BOOL)
    by_chance = layers.pointwise("compare", _random(layers, largest), dtype=BOOL)
    either = layers.pointwise("compare", is_largest, by_chance, dtype=BOOL)
    scale = layers.cast(layers.pointwise("to_int", either, dtype=FP32), shares)
    out = b.tensor("estimated", *weight.shape, dtype=weight.dtype)
    held = (scores, shares, drawn)
    b.emit(Elementwise, "estimated", inputs=(weight, scale), outputs=(out,), holds=held, function="estimated")
    return out
