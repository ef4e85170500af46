"""Lower Mamba as the transformers library runs it with the fused kernels: causal convolution and selective scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.blocks.selective_scan import MambaSizes, mamba_mixer
from roofsim.numeric import Real, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.mamba import MambaModel


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
        """Tokens per sequence in this pass."""
        if self.call.phase == "decode":
            return 1.0
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
        # The last norm of the library's chain reads the stream as it is; one kernel of an engine, in the weights' type.
        chain = layers.flavour.engine.fusion.rms_norm == "chain"
        x = layers.rms_norm(x if chain else layers.cast(x, table), "final_norm")
        return self._head(x, table)

    def _mixer(self, x: Tensor) -> Tensor:
        model = self.model
        assert model.time_step_rank is not None
        sizes = MambaSizes(
            channels=self.channels,
            states=model.state_size,
            rank=model.time_step_rank,
            kernel=model.conv_kernel,
            biases=model.biases,
            conv_bias=model.conv_bias,
        )
        return mamba_mixer(self.layers, self.call, sizes, x)

    def _head(self, x: Tensor, table: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        if self.call.cached:
            x = layers.view(x, "slice", self.call.batch, 1.0, model.hidden_size)
        with self.b.scope(Purpose.HEAD):
            x = layers.cast(x, table)
            weight = table if model.tie_embeddings else None
            logits = layers.cast(layers.linear(x, model.vocab_size, Purpose.LOGITS, weight=weight), FP32)
            if not self.call.trains:
                return logits
            tokens = product(*x.shape[:2])
            labels = layers.copy(layers.labels(tokens), "shift")
            return cross_entropy(layers, layers.view(logits, "reshape", tokens, model.vocab_size), labels, x)
