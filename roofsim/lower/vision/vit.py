"""Lower transformers over image patches: ViT and DeiT as transformers, timm or torchvision write them, and BEiT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Copy
from roofsim.lower.blocks.attention import attend, kernel_of
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.projections import ProjectionBiases, project, project_copied, project_stacked
from roofsim.lower.blocks.relative_bias import aligned, contiguous_bias, indexed_bias
from roofsim.numeric import Real, floor
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.vision_transformer import VitModel


def lower_vit(model: VitModel, call: Call) -> OpGraph:
    """Build one pass of a vision transformer over a batch of images."""
    b = Builder()
    return _Vit(model, call, b, VisionLayers(b, call.flavour, call.shares)).build()


@dataclass(frozen=True)
class _Vit:
    model: VitModel
    call: Call
    b: Builder
    layers: VisionLayers

    @property
    def size(self) -> Real:
        return self.model.image_size if self.call.length is None else self.call.length

    @property
    def grid(self) -> Real:
        """Patches along a side of the image."""
        return floor(self.size / self.model.patch_size)

    @property
    def heads(self) -> Heads:
        model = self.model
        size = model.hidden_size / model.num_attention_heads
        count = model.num_attention_heads / self.layers.shares.tensor
        return Heads(
            heads=count,
            kv_heads=count,
            head_size=size,
            value_head_size=size,
            causal=False,
            dropout=model.attention_dropout or 0.0,
            # transformers' unfused code widens the softmax, timm's does not.
            wide_softmax=not model.fused_query_key_value,
        )

    def build(self) -> OpGraph:
        model, b, layers = self.model, self.b, self.layers
        x = self._embed(layers.image(self.call.batch, model.in_channels, self.size))
        with b.repeat("layers", model.num_layers):
            x = b.carry(x, self._layer(x))
        pooled = self._pool(x)
        layers.classify(pooled, model.num_classes, train=self.call.trains)
        return b.graph()

    def _embed(self, images: Tensor) -> Tensor:
        """Turn patches into tokens, put the class token before them, add positions."""
        model, b, layers = self.model, self.b, self.layers
        with b.scope(Purpose.EMBEDDING):
            x = layers.patches(images, model.hidden_size, model.patch_size)
            if model.class_token:
                token = b.parameter("class_token", 1.0, 1.0, model.hidden_size)
                x = layers.concat((layers.view(token, "expand", self.call.batch, 1.0, model.hidden_size), x), 1)
            if model.position_embedding == "learned":
                x = layers.add(x, b.parameter("positions", x.shape[1], model.hidden_size))
            return layers.dropout(x, model.dropout)

    def _layer(self, x: Tensor) -> Tensor:
        layers = self.layers
        x = self._residual(x, self._attention(layers.layer_norm(x, "attention_norm")), "attention_scale")
        return self._residual(x, self._mlp(layers.layer_norm(x, "mlp_norm")), "mlp_scale")

    def _residual(self, x: Tensor, branch: Tensor, leaf: str) -> Tensor:
        model, layers = self.model, self.layers
        if model.layer_scale:
            branch = layers.mul(branch, self.b.parameter(leaf, model.hidden_size))
        return layers.add(layers.stochastic_depth(branch, model.stochastic_depth), x)

    def _attention(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        with self.b.scope(Purpose.SELF_ATTENTION):
            q, k, v = self._projections(enter(layers, x))
            bias = mask = None
            if model.position_embedding == "relative":
                entries = (2.0 * self.grid - 1.0) ** 2.0 + 3.0
                bias = indexed_bias(layers, x.shape[1], entries, self.heads.heads)
                if kernel_of(self.call, self.heads, masked=True) != "unfused":
                    mask = aligned(layers, contiguous_bias(layers, bias, q), x.shape[1], x.shape[0])
            context = attend(layers, self.call, self.heads, q, k, v, mask, bias)
            out = leave(layers, layers.linear(context, model.hidden_size, Purpose.OUTPUT, bias=True))
            if model.query_key_value_stack == "copied":  # tokens come first in it
                out = layers.view(out, "transpose", *out.shape, copies_gradient=True)
            return layers.dropout(out, model.dropout)

    def _projections(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        model, layers = self.model, self.layers
        if not model.fused_query_key_value:
            biases = ProjectionBiases(
                query=model.query_key_value_bias, key=bool(model.key_bias), value=model.query_key_value_bias
            )
            return project(layers, x, self.heads, biases)
        take = project_copied if model.query_key_value_stack == "copied" else project_stacked
        return take(layers, x, self.heads, self._stacked_bias())

    def _stacked_bias(self) -> Tensor | None:
        """Return the bias of the joint projection; without one for the keys it is put together from three parts."""
        model, b, h = self.model, self.b, self.heads.heads * self.heads.head_size
        if not model.query_key_value_bias:
            return None
        with b.scope(Purpose.QUERY_KEY_VALUE):
            if model.key_bias:
                return b.parameter("bias", 3.0 * h)
            parts = b.parameter("query_bias", h), b.buffer("key_bias", h), b.parameter("value_bias", h)
            joined = b.tensor("bias", 3.0 * h)
            b.emit(Copy, "bias", inputs=parts, outputs=(joined,), function="concat")
            return joined

    def _mlp(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        assert model.intermediate_size is not None
        inner = layers.shares.of_tensor(model.intermediate_size)
        with self.b.scope(Purpose.MLP):
            x = enter(layers, x)
            if model.gated_mlp:
                both = layers.linear(x, 2.0 * inner, Purpose.GATE_UP, bias=True)
                gate, up = layers.split(both, inner, inner)
                hidden = layers.mul(layers.activation(gate, model.activation), up)
            else:
                hidden = layers.linear(x, inner, Purpose.UP, bias=True)
                hidden = layers.activation(hidden, model.activation)
            out = leave(layers, layers.linear(hidden, model.hidden_size, Purpose.DOWN, bias=True))
            return layers.dropout(out, model.dropout)

    def _pool(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        batch, tokens, width = x.shape
        if model.pooling == "token":
            normed = layers.layer_norm(x, "final_norm")
            return layers.view(normed, "slice", batch, width)
        patches = layers.view(x, "slice", batch, tokens - 1.0, width) if model.class_token else x
        return layers.layer_norm(layers.reduce(patches, (batch, width), "mean"), "final_norm")
