"""Build Mamba's mixer (arXiv 2312.00752) as the fused kernels run it: causal convolution, selective scan; one token on states.

Passes over many tokens: ``causal_conv1d_fn`` and ``selective_scan_fn``. A step of one token: ``causal_conv1d_update`` and
``selective_state_update``, which read and write the states that the cache keeps (state-spaces/mamba, modules/mamba_simple.py).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Scan
from roofsim.graph.tensor import FP32, Tensor
from roofsim.lower.blocks.exchange import enter, leave, summed_inside
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.numeric import Real, ceil, minimum
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.call import Call

#: The scan kernel leaves its state behind after so many steps, to start the backward scan from.
SCAN_CHUNK: Final = 2048.0
#: Kernels of a decode step, whose arithmetic is counted per element of the state.
CONV_STEP: Final = "conv_step"
SCAN_STEP: Final = "scan_step"


@dataclass(frozen=True, kw_only=True)
class MambaSizes:
    """The sizes of a mixer. `norms`: RMS norms on step, input and output matrices, ``weighted`` (Jamba) or ``plain`` (Falcon)."""

    channels: Real
    states: Real
    rank: Real
    kernel: Real
    biases: bool = False
    conv_bias: bool = True
    norms: str = "none"

    def at_once(self, layers: VisionLayers) -> bool:
        """Tell whether one function runs all that stands between the first projection and the last (``mamba_inner_fn``).

        It does while training, and keeps little of it; Jamba's code, whose norms have weights, calls kernels one by one.
        """
        return layers.flavour.training and self.norms != "weighted"


def mamba_mixer(layers: VisionLayers, call: Call, sizes: MambaSizes, x: Tensor) -> Tensor:
    """Project, convolve over time, scan, project back; the other half of the projection gates the scan's result.

    Channels are split over a tensor group (vLLM, ``MambaMixer``): what makes the steps of tokens is summed on the way.
    """
    sizes = replace(sizes, channels=sizes.channels / layers.shares.tensor)
    with layers.b.scope(Purpose.MIXER):
        width = x.shape[-1]
        x = enter(layers, x)
        mixed = _step(layers, call, sizes, x) if call.phase == "decode" else _sequence(layers, call, sizes, x)
        return leave(layers, layers.linear(mixed, width, Purpose.PROJECT_OUT, bias=sizes.biases))


def _sequence(layers: VisionLayers, call: Call, sizes: MambaSizes, x: Tensor) -> Tensor:
    channels, states = sizes.channels, sizes.states
    batch, length = x.shape[:2]
    by_time, by_channel = (batch, length, channels), (batch, channels, length)
    at_once = sizes.at_once(layers)
    again = partial(layers.b.scope, Purpose.MADE_AGAIN) if at_once else nullcontext
    both = layers.linear(x, 2.0 * channels, Purpose.PROJECT_IN, bias=sizes.biases)
    if at_once:
        both = layers.copy(both, "transpose", (batch, 2.0 * channels, length))
    else:
        both = layers.view(both, "transpose", batch, 2.0 * channels, length)
    hidden, gate = layers.split(both, channels, channels, axis=1)
    keep_last(layers, call, hidden, sizes.kernel)
    with again():
        # One kernel convolves, adds the bias and applies SiLU; it leaves tokens or channels side by side, as it finds them.
        hidden = layers.conv(hidden, channels, sizes.kernel, "conv", groups=channels, bias=sizes.conv_bias)
        rows = layers.copy(hidden, "transpose", by_time) if at_once else layers.view(hidden, "transpose", *by_time)
    step, inwards, outwards = _projected(layers, sizes, rows, at_once=at_once)
    with again():
        step = layers.linear(step, channels, Purpose.PROJECT_STEP)
        # The function writes the product with its channels first; a norm on it takes rows, copied there and back.
        normed = at_once and sizes.norms == "plain"
        step = layers.pointwise("normalise", layers.copy(step, "contiguous")) if normed else step
        copied = normed or not at_once
        step = layers.copy(step, "transpose", by_channel) if copied else layers.view(step, "transpose", *by_channel)
    if not at_once:  # The scan wants tokens side by side.
        hidden, gate = (layers.copy(part, "contiguous", by_channel) for part in (hidden, gate))
    inwards, outwards = (layers.copy(part, "transpose", (batch, states, length)) for part in (inwards, outwards))
    scanned = _scan(layers, call, sizes, (hidden, step, inwards, outwards, gate))
    with again():
        return layers.copy(scanned, "transpose", by_time)


def _projected(layers: VisionLayers, sizes: MambaSizes, hidden: Tensor, *, at_once: bool = False) -> tuple[Tensor, ...]:
    """Return the low-rank step and the input and output matrices of each token.

    The function that runs a mixer `at_once` has a norm without weights behind the step's projection, the module's own code in
    front of it (transformers, falcon_mamba: selective_scan_with_ln_interface.py beside modeling_falcon_mamba.py).
    """
    wide = summed_inside(layers, layers.linear(hidden, sizes.rank + 2.0 * sizes.states, Purpose.PROJECT_X))
    parts = layers.split(wide, sizes.rank, sizes.states, sizes.states)
    if sizes.norms == "none":
        return parts
    if sizes.norms == "plain":
        step, *matrices = parts
        step = step if at_once else layers.pointwise("normalise", step)
        return (step, *(layers.pointwise("normalise", part) for part in matrices))
    names = ("step_norm", "input_norm", "output_norm")
    return tuple(layers.rms_norm(part, name) for part, name in zip(parts, names, strict=True))


def keep_last(layers: VisionLayers, call: Call, by_channel: Tensor, kernel: Real) -> None:
    """Keep the last tokens of ``[batch, channels, length]`` that a convolution over time still needs."""
    if not call.cached:
        return
    batch, channels, length = by_channel.shape
    kept = layers.view(by_channel, "slice", batch, channels, minimum(kernel - 1.0, length))
    keep_state(layers, call, kept, "conv_state", (channels, kernel - 1.0))


def convolved_step(layers: VisionLayers, call: Call, x: Tensor, kernel: Real, *, bias: bool) -> Tensor:
    """Convolve one token ``[batch, 1, channels]`` with those that the state keeps: one kernel, SiLU included."""
    b, (batch, length, channels) = layers.b, x.shape
    with b.scope("conv"):
        weights = layers.kernel_weights(channels, 1.0, (kernel,), bias=bias)
        state = state_of(call, b.name("conv_state"), (batch, channels, kernel - 1.0), wide=False)
        after = b.tensor("conv_state.after", batch, channels, kernel - 1.0, base=state)
        out = b.tensor("out", batch, length, channels)
        b.emit(Elementwise, "step", inputs=(x, state, *weights), outputs=(after, out), function=CONV_STEP)
        return out


def _step(layers: VisionLayers, call: Call, sizes: MambaSizes, x: Tensor) -> Tensor:
    """Take one token through convolution and scan, each one kernel that reads and writes its state."""
    channels, b = sizes.channels, layers.b
    both = layers.linear(x, 2.0 * channels, Purpose.PROJECT_IN, bias=sizes.biases)
    hidden, gate = layers.split(both, channels, channels)
    hidden = convolved_step(layers, call, hidden, sizes.kernel, bias=sizes.conv_bias)
    step, inwards, outwards = _projected(layers, sizes, hidden)
    step = layers.linear(step, channels, Purpose.PROJECT_STEP)
    decay, skip, bias = _of_channels(layers, sizes)
    state = state_of(call, b.name("state"), (x.shape[0], channels, sizes.states), wide=True)
    after = b.tensor("state.after", x.shape[0], channels, sizes.states, dtype=FP32, base=state)
    out = b.tensor("out", *hidden.shape)
    inputs = (hidden, state, step, decay, inwards, outwards, skip, gate, bias)
    b.emit(Elementwise, "scan", inputs=inputs, outputs=(after, out), function=SCAN_STEP)
    return out


def _of_channels(layers: VisionLayers, sizes: MambaSizes) -> tuple[Tensor, Tensor, Tensor]:
    """Return decay, skip weight and step bias, which are fp32 whatever the rest is."""
    b, channels = layers.b, sizes.channels
    logarithm = b.parameter("decay_logarithm", channels, sizes.states)
    decay = layers.pointwise("neg", layers.pointwise("exp", layers.cast(logarithm, FP32)))
    skip = layers.cast(b.parameter("skip", channels), FP32)
    return decay, skip, layers.cast(b.parameter("step_bias", channels), FP32)


def _scan(layers: VisionLayers, call: Call, sizes: MambaSizes, parts: tuple[Tensor, ...]) -> Tensor:
    """Run the fused scan, which leaves its last state in the cache where tokens follow."""
    x, step, inwards, outwards, gate = parts
    b, channels, states = layers.b, sizes.channels, sizes.states
    decay, skip, bias = _of_channels(layers, sizes)
    batch, _, length = x.shape
    outputs: tuple[Tensor, ...] = (b.tensor("gated", *x.shape),)
    if layers.flavour.training:
        chunks = ceil(length / SCAN_CHUNK)
        kept = b.tensor("states", batch, channels, chunks, 2.0 * states, dtype=FP32)
        outputs += (b.tensor("scanned", *x.shape), kept)
    if call.cached:
        outputs += (b.tensor("last_state", batch, channels, states, dtype=FP32),)
    b.emit(
        Scan,
        "scan",
        inputs=(x, step, decay, inwards, outwards, skip, gate, bias),
        outputs=outputs,
        batch=batch,
        channels=channels,
        length=length,
        state_size=states,
        gates_again=sizes.at_once(layers),
    )
    if call.cached:
        keep_state(layers, call, outputs[-1], "state", (channels, states), wide=True)
    return outputs[0]
