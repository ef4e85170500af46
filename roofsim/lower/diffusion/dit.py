"""Lower diffusion transformers as the diffusers library runs them: conditioned on a class here, on text in mmdit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import BOOL, FP32, INT64, Tensor
from roofsim.lower.blocks.attention import attend
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.diffusion.mmdit import JointDit
from roofsim.lower.diffusion.parts import (
    TIME_WIDTH,
    Patches,
    gelu_mlp,
    modulated_norm,
    modulation,
    noise_loss,
    sinusoids,
    timesteps,
)
from roofsim.numeric import exactly
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.model.diffusion import DitModel


def lower_dit(model: DitModel, call: Call) -> OpGraph:
    """Build one pass of a diffusion transformer over a batch of noisy latents."""
    b = Builder()
    layers = VisionLayers(b, call.flavour, call.shares)
    network = _Dit(model, call, b, layers) if model.conditioning == "class" else JointDit(model, call, b, layers)
    prediction = network.build()
    if call.trains:
        noise_loss(layers, prediction)
    return b.graph()


@dataclass(frozen=True)
class _Embedder:
    """Weights that turn noise level and class into a condition vector; the head uses the first block's once more."""

    first: tuple[Tensor, Tensor]
    second: tuple[Tensor, Tensor]
    table: Tensor


@dataclass(frozen=True)
class _Dit:
    """A transformer whose layer norms are scaled and shifted by noise level and class (adaLN-Zero)."""

    model: DitModel
    call: Call
    b: Builder
    layers: VisionLayers

    def build(self) -> Tensor:
        """Build the network up to its prediction."""
        model, b = self.model, self.b
        patches = Patches.of(model, self.call, self.layers)
        x = patches.embed()
        steps, labels = timesteps(self.layers, self.call.batch), b.input("labels", self.call.batch, dtype=INT64)
        with b.repeat("blocks.first", 1.0):
            embedder = self._embedder()
            x = self._block(x, embedder, steps, labels)
        rest = model.num_layers - 1.0
        if not exactly(rest, 0.0):
            with b.repeat("blocks", rest):
                x = b.carry(x, self._block(x, self._embedder(), steps, labels))
        with b.scope(Purpose.HEAD):
            condition = self._condition(embedder, steps, labels, x)
            shift, scale = modulation(self.layers, condition, model.hidden_size, 2, "modulation")
            normed = modulated_norm(self.layers, x, scale, shift, "norm")
            self.layers.release(x)
            return patches.unpatch(normed)

    def _embedder(self) -> _Embedder:
        b, width = self.b, self.model.hidden_size
        with b.scope("condition"):
            classes = self.model.num_classes + (1.0 if self.model.class_dropout > 0.0 else 0.0)
            return _Embedder(
                first=(b.parameter("first.weight", width, TIME_WIDTH), b.parameter("first.bias", width)),
                second=(b.parameter("second.weight", width, width), b.parameter("second.bias", width)),
                table=b.parameter("classes.weight", classes, width),
            )

    def _condition(self, weights: _Embedder, steps: Tensor, labels: Tensor, x: Tensor) -> Tensor:
        """Embed noise level and class; while training some samples lose their class."""
        layers, b, width = self.layers, self.b, self.model.hidden_size
        with b.scope("condition"):
            waves = sinusoids(layers, steps, TIME_WIDTH, x, "sinusoids")
            hidden = layers.linear(waves, width, "first", weight=weights.first[0], bias=weights.first[1])
            hidden = layers.pointwise("silu", hidden)
            time = layers.linear(hidden, width, "second", weight=weights.second[0], bias=weights.second[1])
            if layers.flavour.training and self.model.class_dropout > 0.0:
                labels = self._drop(labels)
            return layers.add(time, layers.lookup(labels, weights.table))

    def _drop(self, labels: Tensor) -> Tensor:
        layers, b, batch = self.layers, self.b, self.call.batch
        chance, none = b.tensor("chance", batch, dtype=FP32), b.tensor("no_class", dtype=INT64)
        b.emit(Elementwise, "chance", inputs=(), outputs=(chance,), function="random")
        dropped = layers.pointwise("compare", chance, dtype=BOOL)
        b.emit(Elementwise, "no_class", inputs=(), outputs=(none,), function="fill")
        return layers.pointwise("where", dropped, none, labels, dtype=INT64)

    def _block(self, x: Tensor, weights: _Embedder, steps: Tensor, labels: Tensor) -> Tensor:
        """Attention and feed-forward, each behind a modulated norm and with a gate on its result."""
        layers, model, entered = self.layers, self.model, x
        assert model.intermediate_size is not None
        condition = self._condition(weights, steps, labels, x)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = modulation(
            layers, condition, model.hidden_size, 6, "modulation"
        )
        attended = self._attention(modulated_norm(layers, x, scale, shift, "norm1"))
        attended = layers.mul(gate, attended)
        x = layers.add(attended, x)
        normed = modulated_norm(layers, x, mlp_scale, mlp_shift, "norm2")
        x = layers.add(layers.mul(mlp_gate, gelu_mlp(layers, normed, model.intermediate_size, Purpose.MLP)), x)
        layers.release(entered, attended, normed)
        return x

    def _attention(self, x: Tensor) -> Tensor:
        layers, model, width = self.layers, self.model, self.model.hidden_size
        size = width / model.num_attention_heads
        heads: Real = model.num_attention_heads / layers.shares.tensor
        shape = Heads(heads=heads, kv_heads=heads, head_size=size, value_head_size=size, causal=False, scale=False)
        with self.b.scope(Purpose.SELF_ATTENTION):
            x = enter(layers, x)
            q, k, v = (
                layers.view(layers.linear(x, heads * size, name, bias=True), "reshape", *x.shape[:2], heads, size)
                for name in (Purpose.QUERY, Purpose.KEY, Purpose.VALUE)
            )
            out = layers.linear(attend(layers, self.call, shape, q, k, v), width, Purpose.OUTPUT, bias=True)
            return layers.pointwise("div_scalar", leave(layers, out))
