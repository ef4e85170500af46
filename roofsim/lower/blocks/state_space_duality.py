"""Build Mamba-2's mixer (arXiv 2405.21060) as the fused kernels run it: products in chunks, or one token on the state.

Passes over many tokens run the kernels of ``mamba_chunk_scan_combined`` (state-spaces/mamba, ops/triton/ssd_combined.py): the
state that each chunk adds, the states passed from chunk to chunk, inputs against outputs inside each chunk, and the results of
both. A step of one token is ``selective_state_update``, which reads and writes the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Matmul, Normalization
from roofsim.graph.tensor import FP32, Tensor
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.selective_scan import SCAN_STEP, convolved_step, keep_last
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.numeric import Real, maximum, minimum
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.call import Call


@dataclass(frozen=True, kw_only=True)
class DualitySizes:
    """The sizes of a mixer, of the whole model or of a rank. Groups of heads share input and output matrices."""

    heads: Real
    head_size: Real
    states: Real
    groups: Real
    kernel: Real
    chunk: Real
    biases: bool = False
    conv_bias: bool = True
    gated_norm: bool = True

    @property
    def inner(self) -> Real:
        """Channels of the heads."""
        return self.heads * self.head_size

    @property
    def shared(self) -> Real:
        """Channels of input (or output) matrices."""
        return self.groups * self.states

    @property
    def convolved(self) -> Real:
        """Channels that the convolution goes over."""
        return self.inner + 2.0 * self.shared


def mamba2_mixer(layers: VisionLayers, call: Call, sizes: DualitySizes, x: Tensor) -> Tensor:
    """Return what a mixer makes of ``[batch, length, width]``; heads are split over a tensor group."""
    ranks = layers.shares.tensor
    sizes = replace(sizes, heads=sizes.heads / ranks, groups=maximum(sizes.groups / ranks, 1.0))
    width = x.shape[-1]
    with layers.b.scope(Purpose.MIXER):
        x = enter(layers, x)
        both = layers.linear(x, sizes.inner + sizes.convolved + sizes.heads, Purpose.PROJECT_IN, bias=sizes.biases)
        gate, mixed, pace = layers.split(both, sizes.inner, sizes.convolved, sizes.heads)
        rule, own = _step if call.phase == "decode" else _sequence, _of_heads(layers, sizes)
        with layers.b.scope(Purpose.FUSED_SCAN):
            core = rule(layers, call, sizes, (mixed, pace), own)
            out = _gated(layers, sizes, core, gate)
        return leave(layers, layers.linear(out, width, Purpose.PROJECT_OUT, bias=sizes.biases))


def _gated(layers: VisionLayers, sizes: DualitySizes, core: Tensor, gate: Tensor) -> Tensor:
    """Gate the result by SiLU, and normalise it: one kernel (``rmsnorm_fn`` with ``z``)."""
    if not sizes.gated_norm:
        return layers.mul(core, layers.activation(gate, "silu"))
    b = layers.b
    with b.scope("norm"):
        weight = b.parameter("weight", core.shape[-1])
        out, rstd = b.tensor("out", *core.shape), b.tensor("rstd", *core.shape[:-1], sizes.groups, dtype=FP32)
        b.emit(Normalization, "norm", inputs=(core, weight, gate), outputs=(out, rstd), method="rms")
        return out


def _of_heads(layers: VisionLayers, sizes: DualitySizes) -> tuple[Tensor, Tensor, Tensor]:
    """Return decay, skip weight and bias of the step of each head."""
    b = layers.b
    logarithm = b.parameter("decay_logarithm", sizes.heads)
    decay = layers.pointwise("neg", layers.pointwise("exp", layers.cast(logarithm, FP32)))
    return decay, b.parameter("skip", sizes.heads), b.parameter("step_bias", sizes.heads)


# -- many tokens ----------------------------------------------------------------------------------------------------


def _sequence(
    layers: VisionLayers, call: Call, sizes: DualitySizes, parts: tuple[Tensor, Tensor], own: tuple[Tensor, ...]
) -> Tensor:
    (mixed, pace), (decay, skip, bias) = parts, own
    batch, length, channels = mixed.shape
    by_channel = layers.copy(mixed, "transpose", (batch, channels, length))
    keep_last(layers, call, by_channel, sizes.kernel)
    padding = (sizes.kernel - 1.0) / 2.0
    out = layers.conv(
        by_channel, channels, sizes.kernel, "conv", groups=channels, padding=padding, bias=sizes.conv_bias
    )
    mixed = layers.copy(out, "transpose", (batch, length, channels))
    x, inwards, outwards = layers.split(mixed, sizes.inner, sizes.shared, sizes.shared)
    # One kernel: the softplus of the steps, and the sums of their decays in each chunk.
    steps = layers.pointwise("softplus", layers.add(layers.cast(pace, FP32), bias))
    decays = layers.mul(steps, decay)
    core = _chunks(layers, call, sizes, (x, inwards, outwards, steps, decays))
    heads = (batch, length, sizes.heads, sizes.head_size)
    by_head = layers.view(x, "reshape", *heads)
    skipped = layers.mul(by_head, layers.view(skip, "reshape", sizes.heads, 1.0))
    return layers.view(layers.add(core, skipped), "reshape", batch, length, sizes.inner)


def _chunks(layers: VisionLayers, call: Call, sizes: DualitySizes, parts: tuple[Tensor, ...]) -> Tensor:
    """Return ``[batch, length, heads, size]``: what tokens of a chunk give each other, and what the states before it give."""
    x, inwards, outwards, steps, decays = parts
    batch, length, _ = x.shape
    chunk = minimum(sizes.chunk, length)
    chunks, heads = length / chunk, sizes.heads
    count = batch * chunks * heads
    values = layers.view(x, "reshape", batch, length, heads, sizes.head_size)
    keys, queries = (_for_heads(layers, sizes, part) for part in (inwards, outwards))
    added = _product(
        layers,
        "chunk_state",
        (values, keys),
        (sizes.head_size, sizes.states, chunk),
        count,
        (batch, chunks, heads, sizes.head_size, sizes.states),
    )
    # One kernel goes over the chunks, in fp32: each state decays and takes what its chunk adds.
    factor = layers.view(decays, "slice", batch, chunks, heads, 1.0, 1.0)
    states = layers.cast(layers.mul(layers.cast(added, FP32), factor), x)
    if call.cached:
        last = layers.view(states, "slice", batch, heads, sizes.head_size, sizes.states)
        keep_state(layers, call, last, "state", (heads, sizes.head_size, sizes.states), wide=True)
    # Inputs against outputs, of each group of heads.
    grouped = (batch, length, sizes.groups, sizes.states)
    left, right = (layers.view(part, "reshape", *grouped) for part in (outwards, inwards))
    scores = _product(
        layers,
        "scores",
        (left, right),
        (chunk, chunk, sizes.states),
        batch * chunks * sizes.groups,
        (batch, chunks, sizes.groups, chunk, chunk),
    )
    shown = layers.view(scores, "expand", batch, chunks, heads, chunk, chunk)
    paced = layers.mul(values, layers.cast(layers.view(steps, "reshape", batch, length, heads, 1.0), x))
    shape = (batch, length, heads, sizes.head_size)
    inside = _product(layers, "inside", (shown, paced), (chunk, sizes.head_size, chunk), count, shape)
    before = _product(layers, "before", (queries, states), (chunk, sizes.head_size, sizes.states), count, shape)
    return layers.add(inside, before)


def _for_heads(layers: VisionLayers, sizes: DualitySizes, x: Tensor) -> Tensor:
    """Show the matrices of groups ``[batch, length, groups x states]`` to each of their heads."""
    batch, length, _ = x.shape
    return layers.view(x, "expand", batch, length, sizes.heads, sizes.states)


def _product(
    layers: VisionLayers,
    leaf: str,
    operands: tuple[Tensor, Tensor],
    extent: tuple[Real, Real, Real],
    count: Real,
    shape: tuple[Real, ...],
) -> Tensor:
    m, n, k = extent
    out = layers.b.tensor(leaf, *shape)
    layers.b.emit(Matmul, leaf, inputs=operands, outputs=(out,), m=m, n=n, k=k, batch=count, scores=True)
    return out


# -- one token ------------------------------------------------------------------------------------------------------


def _step(
    layers: VisionLayers, call: Call, sizes: DualitySizes, parts: tuple[Tensor, Tensor], own: tuple[Tensor, ...]
) -> Tensor:
    (mixed, pace), (decay, skip, bias) = parts, own
    b, batch = layers.b, mixed.shape[0]
    mixed = convolved_step(layers, call, mixed, sizes.kernel, bias=sizes.conv_bias)
    x, inwards, outwards = layers.split(mixed, sizes.inner, sizes.shared, sizes.shared)
    shape = (batch, sizes.heads, sizes.head_size, sizes.states)
    state = state_of(call, b.name("state"), shape, wide=True)
    after = b.tensor("state.after", *shape, dtype=FP32, base=state)
    out = b.tensor("out", *x.shape)
    inputs = (x, state, pace, decay, inwards, outwards, skip, bias)
    b.emit(Elementwise, "scan", inputs=inputs, outputs=(after, out), function=SCAN_STEP)
    return out
