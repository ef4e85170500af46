"""Lower Swin transformers as timm writes them: attention in windows, shifted in every second block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Copy, Elementwise, Matmul, View
from roofsim.lower.blocks.attention import attend
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.projections import project_stacked
from roofsim.lower.blocks.relative_bias import indexed_bias
from roofsim.numeric import Real, ceil, exactly, floor, is_scalar, maximum, minimum, same, where
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.vision_transformer import SwinModel


def lower_swin(model: SwinModel, call: Call) -> OpGraph:
    """Build one pass of a Swin transformer over a batch of images."""
    b = Builder()
    return _Swin(model, call, VisionLayers(b, call.flavour)).build()


@dataclass(frozen=True)
class _Stage:
    """The sizes of one stage: channels, heads, side of the feature map, side of a window, windows along a side."""

    channels: Real
    heads: Real
    side: Real
    window: Real

    @property
    def across(self) -> Real:
        return ceil(self.side / maximum(self.window, 1.0))  # of a map that has vanished: refused as such later

    @property
    def padded(self) -> Real:
        """The side after padding to whole windows."""
        return self.across * self.window

    @property
    def tokens(self) -> Real:
        return self.window * self.window

    @property
    def parted(self) -> Real:
        """1 where there is more than one window to part (and so to shift), 0 where the map is a single window."""
        return _share(self.across > 1.0)

    @property
    def overhanging(self) -> Real:
        """1 where windows reach beyond the map, 0 where they just cover it."""
        return _share(self.padded > self.side)


def _share(condition: Any) -> Real:
    """Return 1 where a condition holds and 0 where not; a plain number where it is the same for all sizes."""
    share = where(condition, 1.0, 0.0)
    return next((limit for limit in (0.0, 1.0) if same(share, limit)), share)


@dataclass(frozen=True)
class _Swin:
    model: SwinModel
    call: Call
    layers: VisionLayers

    def build(self) -> OpGraph:
        model, layers, b = self.model, self.layers, self.layers.b
        x = self._embed()
        for index, depth in enumerate(model.depths):
            if index:
                with b.repeat(f"merge{index}", 1.0):
                    x = self._merge(x)
            x = self._blocks(x, self._stage(index, x), index, depth)
        x = layers.layer_norm(x, "final_norm")
        pooled = layers.reduce(x, (x.shape[0], x.shape[3]), "mean")
        layers.classify(pooled, model.num_classes, train=self.call.trains)
        return b.graph()

    def _stage(self, index: int, x: Tensor) -> _Stage:
        side = x.shape[1]
        return _Stage(x.shape[3], float(self.model.heads_per_stage[index]), side, minimum(side, self.model.window_size))

    # -- between stages -----------------------------------------------------------------------------------------

    def _embed(self) -> Tensor:
        """Turn patches into a map ``[batch, side, side, channels]``."""
        model, layers = self.model, self.layers
        size = model.image_size if self.call.length is None else self.call.length
        with layers.b.scope(Purpose.EMBEDDING):
            images = layers.image(self.call.batch, model.in_channels, size)
            x = layers.patches(images, model.embedding_size, model.patch_size)
            side = floor(size / model.patch_size)
            return layers.layer_norm(layers.view(x, "reshape", x.shape[0], side, side, x.shape[2]), "norm")

    def _merge(self, x: Tensor) -> Tensor:
        """Join each square of four positions, normalise, and project to half the channels that makes."""
        layers = self.layers
        batch, side, _, channels = x.shape
        half = ceil(side / 2.0)
        x = layers.copy(x, "pad", (batch, 2.0 * half, 2.0 * half, channels))
        x = layers.copy(x, "transpose", (batch, half, half, 4.0 * channels))
        return layers.linear(layers.layer_norm(x, "norm"), 2.0 * channels, Purpose.PROJECTION)

    # -- blocks -------------------------------------------------------------------------------------------------

    def _blocks(self, x: Tensor, stage: _Stage, index: int, depth: int) -> Tensor:
        """Repeat pairs of a plain and a shifted block; the very first block drops nothing, so its pair stands apart."""
        name, b = f"stage{index + 1}", self.layers.b
        pairs = depth // 2
        if index == 0 and pairs:
            with b.repeat(f"{name}.first", 1.0):
                x = self._pair(x, stage, first=True)
            pairs -= 1
        if pairs:
            with b.repeat(name, float(pairs)):
                x = b.carry(x, self._pair(x, stage))
        if depth % 2:
            with b.repeat(f"{name}.last", 1.0):
                x = self._block(x, stage, shifted=False, drops=index > 0 or depth > 1)
        return x

    def _pair(self, x: Tensor, stage: _Stage, *, first: bool = False) -> Tensor:
        b = self.layers.b
        with b.scope("plain"):
            x = self._block(x, stage, shifted=False, drops=not first)
        with b.scope("shifted"):
            return self._block(x, stage, shifted=True, drops=True)

    def _block(self, x: Tensor, stage: _Stage, *, shifted: bool, drops: bool) -> Tensor:
        layers, model = self.layers, self.model
        rate = model.stochastic_depth if drops else 0.0
        branch = self._windows(layers.layer_norm(x, "attention_norm"), stage, shifted=shifted)
        shape = x.shape
        x = layers.add(x, layers.stochastic_depth(branch, rate))
        x = layers.view(x, "reshape", shape[0], shape[1] * shape[2], shape[3])
        branch = self._mlp(layers.layer_norm(x, "mlp_norm"))
        x = layers.add(x, layers.stochastic_depth(branch, rate))
        return layers.view(x, "reshape", *shape)

    def _mlp(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        width = x.shape[2]
        with layers.b.scope(Purpose.MLP):
            hidden = layers.linear(x, floor(width * model.mlp_ratio), Purpose.UP, bias=True)
            hidden = layers.dropout(layers.activation(hidden, model.activation), model.dropout)
            return layers.dropout(layers.linear(hidden, width, Purpose.DOWN, bias=True), model.dropout)

    # -- windows ------------------------------------------------------------------------------------------------

    def _windows(self, x: Tensor, stage: _Stage, *, shifted: bool) -> Tensor:
        """Shift, pad and part the map, attend in each window, and put everything back."""
        layers = self.layers
        batch, channels = x.shape[0], stage.channels
        moved = stage.parted if shifted else 0.0
        rolled = self._partly(x, "roll", moved)
        padded = layers.copy(rolled, "pad", (batch, stage.padded, stage.padded, channels))
        windows = self._partly(padded, "transpose", stage.parted)
        number = batch * stage.across * stage.across
        windows = layers.view(windows, "reshape", number, stage.tokens, channels)
        attended = self._attention(windows, stage, shifted=moved)
        whole = layers.view(attended, "reshape", *padded.shape)
        whole = self._partly(whole, "transpose", stage.parted)
        whole = self._cropped(whole, x.shape, stage.overhanging)
        return self._partly(whole, "roll", moved)

    def _partly(self, x: Tensor, function: str, share: Real) -> Tensor:
        """Write a tensor anew in the `share` of an array's sizes that needs it; where they differ, in place."""
        if exactly(share, 0.0):
            return x
        if is_scalar(share):
            return self.layers.copy(x, function)
        b = self.layers.b
        out = b.tensor(function, *x.shape, dtype=x.dtype, base=x)
        b.emit(Copy, function, inputs=(x,), outputs=(out,), function=function, share=share)
        return out

    def _cropped(self, x: Tensor, shape: tuple[Real, ...], share: Real) -> Tensor:
        """Cut the padding off where there is some."""
        if exactly(share, 0.0):
            return x
        b = self.layers.b
        inner = b.tensor("slice", *shape, dtype=x.dtype, base=x)
        b.emit(View, "slice", inputs=(x,), outputs=(inner,), function="slice", share=share)
        return self._partly(inner, "contiguous", share)

    def _attention(self, x: Tensor, stage: _Stage, *, shifted: Real) -> Tensor:
        model, layers, b = self.model, self.layers, self.layers.b
        size = stage.channels / stage.heads
        heads = Heads(
            heads=stage.heads,
            kv_heads=stage.heads,
            head_size=size,
            value_head_size=size,
            causal=False,
            dropout=model.dropout,
        )
        with b.scope(Purpose.SELF_ATTENTION):
            with b.scope(Purpose.QUERY_KEY_VALUE):
                bias = b.parameter("bias", 3.0 * stage.channels)
            q, k, v = project_stacked(layers, x, heads, bias)
            if self.call.flavour.attention == "flash":
                context = attend(layers, self.call, heads, q, k, v, self._joint_bias(stage, x.shape[0], shifted))
            else:
                context = self._written_out(q, k, v, stage, shifted)
            return layers.dropout(layers.linear(context, stage.channels, Purpose.OUTPUT, bias=True), model.dropout)

    def _bias(self, stage: _Stage) -> Tensor:
        entries = (2.0 * stage.window - 1.0) ** 2.0
        bias = indexed_bias(self.layers, stage.tokens, entries, stage.heads)
        return self.layers.copy(bias, "contiguous")

    def _masked(self, scores: Tensor, stage: _Stage, shifted: Real) -> Tensor:
        """Hide what the shift has brought into a window from the other side of the map."""
        if exactly(shifted, 0.0):
            return scores
        b = self.layers.b
        mask = b.buffer("mask", stage.across * stage.across, 1.0, stage.tokens, stage.tokens)
        base = None if is_scalar(shifted) else scores
        out = b.tensor("masked", *scores.shape, dtype=scores.dtype, base=base)
        b.emit(Elementwise, "mask", inputs=(scores, mask), outputs=(out,), function="add", share=shifted)
        return out

    def _joint_bias(self, stage: _Stage, windows: Real, shifted: Real) -> Tensor:
        """Return what a fused kernel adds to the scores of each window."""
        bias = self._bias(stage)
        shown = self.layers.view(bias, "expand", windows, *bias.shape)
        return self._masked(shown, stage, shifted)

    def _written_out(self, q: Tensor, k: Tensor, v: Tensor, stage: _Stage, shifted: Real) -> Tensor:
        """Attend by products of their own: timm takes no fused kernel for windows unless asked to."""
        layers, b = self.layers, self.layers.b
        windows, tokens, heads, size = q.shape
        groups = windows * heads
        with b.scope(Purpose.ATTENTION):
            rows = (windows, heads, tokens, size)
            q, k, v = (layers.copy(part, "contiguous", rows) for part in (layers.pointwise("mul_scalar", q), k, v))
            scores = b.tensor("scores", windows, heads, tokens, tokens)
            common = {"m": tokens, "batch": groups, "scores": True}
            b.emit(Matmul, "scores", inputs=(q, k), outputs=(scores,), n=tokens, k=size, **common)
            scores = self._masked(layers.add(scores, self._bias(stage)), stage, shifted)
            weights = layers.dropout(layers.softmax(scores), self.model.dropout)
            context = b.tensor("context", *rows)
            b.emit(Matmul, "context", inputs=(weights, v), outputs=(context,), n=size, k=tokens, **common)
            return layers.copy(context, "transpose", (windows, tokens, heads * size))
