"""Lower Mamba as the transformers library runs it with the fused kernels: causal convolution and selective scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Scan
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.numeric import Real, ceil, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.mamba import MambaModel

#: The scan kernel leaves its state behind after so many steps, to start the backward scan from.
SCAN_CHUNK = 2048.0


def lower_mamba(model: MambaModel, call: Call) -> OpGraph:
    """Build one pass of a Mamba language model over ``batch x length`` tokens."""
    b = Builder()
    _Mamba(model, call, b, VisionLayers(b, call.flavour)).build()
    return b.graph()


@dataclass(frozen=True)
class _Mamba:
    model: MambaModel
    call: Call
    b: Builder
    layers: VisionLayers

    @property
    def length(self) -> Real:
        """Tokens per sequence."""
        return self.model.max_sequence_length if self.call.length is None else self.call.length

    @property
    def channels(self) -> Real:
        """Width of the layers between their projections."""
        return self.model.expand * self.model.hidden_size

    def build(self) -> Tensor:
        """Build embedding, layers, head and loss."""
        model, b, layers = self.model, self.b, self.layers
        tokens = b.input("input_ids", self.call.batch, self.length, dtype=INT64)
        with b.scope(Purpose.EMBEDDING):
            table = b.parameter("weight", model.vocab_size, model.hidden_size)
            x = layers.lookup(tokens, table)
        if model.residual_in_fp32:
            x = layers.cast(x, FP32)
        with b.repeat("layers", model.num_layers):
            # Norms and matmuls run in the weights' type, whatever that of the residual stream.
            normed = layers.rms_norm(layers.cast(x, table), "norm")
            x = b.carry(x, layers.add(x, self._mixer(normed)))
        x = layers.rms_norm(layers.cast(x, table), "final_norm")
        return self._head(x, table)

    def _mixer(self, x: Tensor) -> Tensor:
        """Project, convolve over time, scan, project back; the other half of the projection gates the scan's result."""
        model, layers, b = self.model, self.layers, self.b
        channels, states, rank = self.channels, model.state_size, model.time_step_rank
        assert rank is not None
        batch, length = x.shape[:2]
        by_time, by_channel = (batch, length, channels), (batch, channels, length)
        with b.scope(Purpose.MIXER):
            both = layers.linear(x, 2.0 * channels, Purpose.PROJECT_IN, bias=model.biases)
            both = layers.copy(both, "transpose", (batch, 2.0 * channels, length))
            hidden, gate = layers.split(both, channels, channels, axis=1)
            # One kernel convolves, adds the bias and applies SiLU.
            hidden = layers.conv(hidden, channels, model.conv_kernel, "conv", groups=channels, bias=model.conv_bias)
            wide = layers.linear(layers.copy(hidden, "contiguous", by_time), rank + 2.0 * states, Purpose.PROJECT_X)
            step, inwards, outwards = layers.split(wide, rank, states, states)
            step = layers.copy(layers.linear(step, channels, Purpose.PROJECT_STEP), "transpose", by_channel)
            inwards, outwards = (
                layers.copy(part, "transpose", (batch, states, length)) for part in (inwards, outwards)
            )
            scanned = self._scan(hidden, step, inwards, outwards, gate)
            scanned = layers.copy(scanned, "transpose", by_time)
            return layers.linear(scanned, model.hidden_size, Purpose.PROJECT_OUT, bias=model.biases)

    def _scan(self, x: Tensor, step: Tensor, inwards: Tensor, outwards: Tensor, gate: Tensor) -> Tensor:
        """Run the fused scan; decay, skip weight and step bias are fp32 whatever the rest is."""
        layers, b, channels, states = self.layers, self.b, self.channels, self.model.state_size
        logarithm = b.parameter("decay_logarithm", channels, states)
        decay = layers.pointwise("neg", layers.pointwise("exp", layers.cast(logarithm, FP32)))
        skip = layers.cast(b.parameter("skip", channels), FP32)
        bias = layers.cast(b.parameter("step_bias", channels), FP32)
        batch, _, length = x.shape
        outputs: tuple[Tensor, ...] = (b.tensor("gated", *x.shape),)
        if layers.flavour.training:
            chunks = ceil(length / SCAN_CHUNK)
            kept = b.tensor("states", batch, channels, chunks, 2.0 * states, dtype=FP32)
            outputs += (b.tensor("scanned", *x.shape), kept)
        b.emit(
            Scan,
            "scan",
            inputs=(x, step, decay, inwards, outwards, skip, gate, bias),
            outputs=outputs,
            batch=batch,
            channels=channels,
            length=length,
            state_size=states,
        )
        return outputs[0]

    def _head(self, x: Tensor, table: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        with self.b.scope(Purpose.HEAD):
            weight = table if model.tie_embeddings else None
            logits = layers.cast(layers.linear(x, model.vocab_size, Purpose.LOGITS, weight=weight), FP32)
            if not self.call.trains:
                return logits
            tokens = product(*x.shape[:2])
            labels = layers.copy(layers.labels(tokens), "shift")
            return cross_entropy(layers, layers.view(logits, "reshape", tokens, model.vocab_size), labels, x)
