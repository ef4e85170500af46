"""Build recurrences whose state is a matrix per head: weighted sums of outer products (RWKV-5 and 6), and delta rules (RWKV-7).

Passes over many tokens run in chunks, as flash-linear-attention's ``chunk_rwkv6`` and ``chunk_rwkv7`` do: products inside each
chunk, one that updates the state, one that asks it. A step of one token reads and writes the state of each head in one kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Elementwise, Matmul
from roofsim.lower.blocks.delta_net import CHUNK, STEP_FUNCTION
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.numeric import minimum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real

#: The kernel of a step of weighted sums, whose arithmetic is counted per element of the state.
WEIGHTED_STEP: Final = "weighted_step"


def weighted_sums(
    layers: Layers, call: Call, parts: tuple[Tensor, Tensor, Tensor], others: tuple[Tensor, ...]
) -> Tensor:
    """Return what queries find in decaying sums of outer products (arXiv 2404.05892, ``wkv5`` and ``wkv6``).

    Parameters
    ----------
    parts
        Queries (receptances), keys and values, ``[batch, length, heads, size]``.
    others
        Decays of channels, for each token or for all, and what the token itself weighs.
    """
    if call.phase == "decode":
        return step_of_token(layers, call, parts, others, WEIGHTED_STEP)
    (query, key, value), (decay, first) = parts, others
    chunks = Chunks.of(layers, value)
    decayed, grown = layers.mul(query, decay), layers.mul(key, decay)
    scores = chunks.within("scores", decayed, grown)
    inside = chunks.taken("inside", scores, value)
    states = chunks.updated("update", grown, value)
    before = chunks.asked("before", decayed, states)
    keep_states(layers, call, states, value)
    weight = layers.mul(layers.mul(query, key), first)
    itself = layers.mul(layers.reduce(weight, (*weight.shape[:-1], 1.0)), value)
    return layers.add(layers.add(inside, before), itself)


def delta_rules(layers: Layers, call: Call, parts: tuple[Tensor, Tensor, Tensor], others: tuple[Tensor, ...]) -> Tensor:
    """Return what queries find in states that forget along a direction of their own (arXiv 2503.14456, ``wkv7``).

    Parameters
    ----------
    parts
        Queries, keys and values, ``[batch, length, heads, size]``.
    others
        Decays, the direction that is taken out, and that which is put in its place.
    """
    if call.phase == "decode":
        return step_of_token(layers, call, parts, others, STEP_FUNCTION)
    (query, key, value), (decay, out_of, into) = parts, others
    chunks = Chunks.of(layers, value)
    query, key, out_of, into = (layers.mul(part, decay) for part in (query, key, out_of, into))
    known, seen = chunks.within("known", out_of, into), chunks.within("seen", out_of, key)
    inverse = chunks.squared("inverse", known, known)
    from_values = chunks.taken("from_values", inverse, chunks.taken("of_values", seen, value))
    direction = chunks.taken("direction", inverse, out_of)
    states = chunks.updated("update", key, value)
    new = layers.add(from_values, chunks.asked("corrected", direction, states))
    states = layers.add(states, chunks.updated("correction", into, new))
    before = chunks.asked("before", query, states)
    scores, others_scores = chunks.within("scores", query, key), chunks.within("other_scores", query, into)
    inside = layers.add(chunks.taken("inside", scores, value), chunks.taken("other_inside", others_scores, new))
    keep_states(layers, call, states, value)
    return layers.add(before, inside)


@dataclass(frozen=True)
class Chunks:
    """Products in each chunk of each head; heads are as wide as their states."""

    layers: Layers
    value: Tensor
    chunk: Real
    count: Real

    @classmethod
    def of(cls, layers: Layers, value: Tensor, tokens: Real = CHUNK) -> Chunks:
        """Return the chunks, of so many tokens each, of values ``[batch, length, heads, size]``."""
        batch, length, heads, _ = value.shape
        chunk = minimum(tokens, length)
        return cls(layers, value, chunk, batch * heads * length / chunk)

    def within(self, leaf: str, left: Tensor, right: Tensor) -> Tensor:
        """Return each token against each of its chunk."""
        batch, length, heads, size = self.value.shape
        return self._product(leaf, left, right, (batch, length, heads, self.chunk), (self.chunk, self.chunk, size))

    def squared(self, leaf: str, left: Tensor, right: Tensor) -> Tensor:
        """Return the product of two squares of a chunk: as much work as the inverse of a triangular one."""
        return self._product(leaf, left, right, left.shape, (self.chunk, self.chunk, self.chunk))

    def taken(self, leaf: str, scores: Tensor, rows: Tensor) -> Tensor:
        """Return the rows of a chunk, weighted by scores."""
        return self._product(leaf, scores, rows, self.value.shape, (self.chunk, self.value.shape[-1], self.chunk))

    def updated(self, leaf: str, keys: Tensor, values: Tensor) -> Tensor:
        """Return what the tokens of a chunk add to the state."""
        batch, length, heads, size = self.value.shape
        shape = (batch, heads, length / self.chunk, size, size)
        return self._product(leaf, keys, values, shape, (size, size, self.chunk))

    def asked(self, leaf: str, rows: Tensor, states: Tensor) -> Tensor:
        """Return what the tokens of a chunk find in the state before it."""
        size = self.value.shape[-1]
        return self._product(leaf, rows, states, self.value.shape, (self.chunk, size, size))

    def _product(
        self, leaf: str, left: Tensor, right: Tensor, shape: tuple[Real, ...], extent: tuple[Real, Real, Real]
    ) -> Tensor:
        m, n, k = extent
        out = self.layers.b.tensor(leaf, *shape)
        inputs = (left, right)
        self.layers.b.emit(Matmul, leaf, inputs=inputs, outputs=(out,), m=m, n=n, k=k, batch=self.count, scores=True)
        return out


def keep_states(layers: Layers, call: Call, states: Tensor, value: Tensor) -> None:
    """Leave the last state behind for later tokens, in fp32."""
    if call.cached:
        batch, _, heads, size = value.shape
        last = layers.view(states, "slice", batch, heads, size, size)
        keep_state(layers, call, last, "state", (heads, size, size), wide=True)


def step_of_token(
    layers: Layers, call: Call, parts: tuple[Tensor, Tensor, Tensor], others: tuple[Tensor, ...], function: str
) -> Tensor:
    """Read the state of each head, bring it on by one token and ask it."""
    b, value = layers.b, parts[2]
    batch, _, heads, size = value.shape
    state = state_of(call, b.name("state"), (batch, heads, size, size), wide=True)
    after = b.tensor("state.after", *state.shape, base=state)
    out = b.tensor("out", *value.shape)
    b.emit(Elementwise, "step", inputs=(state, *parts, *others), outputs=(after, out), function=function)
    return layers.cast(out, value)
