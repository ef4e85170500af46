"""Lower Inception v3 as torchvision writes it: parallel branches of factorised convolutions, concatenated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.vision import InceptionModel

#: A convolution of a branch: channels, kernel, stride, padding (None keeps the size).
Step = tuple[float, float | tuple[float, float], float, float | None]

ROW, COLUMN = (1.0, 7.0), (7.0, 1.0)


def _one(channels: float) -> Step:
    return channels, 1.0, 1.0, None


def lower_inception(model: InceptionModel, call: Call) -> OpGraph:
    """Build one pass of Inception v3 over a batch of images; the auxiliary classifier runs while training only."""
    b = Builder()
    net = _Inception(model, VisionLayers(b, call.flavour))
    layers = net.layers
    size = model.image_size if call.length is None else call.length
    x = net.stem(layers.image(call.batch, model.in_channels, size))
    for name, pooled in (("mixed_5b", 32.0), ("mixed_5c", 64.0), ("mixed_5d", 64.0)):
        x = net.block_a(x, pooled, name)
    x = net.block_b(x, "mixed_6a")
    for name, inner in (("mixed_6b", 128.0), ("mixed_6c", 160.0), ("mixed_6d", 160.0), ("mixed_6e", 192.0)):
        x = net.block_c(x, inner, name)
    auxiliary = net.auxiliary(x) if call.trains and model.auxiliary_classifier else None
    x = net.block_d(x, "mixed_7a")
    for name in ("mixed_7b", "mixed_7c"):
        x = net.block_e(x, name)
    x = layers.dropout(layers.global_average(x), model.dropout)
    logits = layers.linear(x, model.num_classes, Purpose.CLASSIFIER, bias=True)
    if call.trains:
        net.loss(logits, auxiliary)
    return b.graph()


@dataclass(frozen=True)
class _Inception:
    model: InceptionModel
    layers: VisionLayers

    def stem(self, x: Tensor) -> Tensor:
        layers = self.layers
        with layers.b.scope("stem"):
            x = self._branch(x, "a", (32.0, 3.0, 2.0, 0.0), (32.0, 3.0, 1.0, 0.0), (64.0, 3.0, 1.0, None))
            x = layers.pool(x, "max", 3.0, "pool1", stride=2.0)
            x = self._branch(x, "b", _one(80.0), (192.0, 3.0, 1.0, 0.0))
            return layers.pool(x, "max", 3.0, "pool2", stride=2.0)

    def block_a(self, x: Tensor, pooled: float, name: str) -> Tensor:
        """5x5 and double 3x3 convolutions on the 35x35 grid."""
        with self.layers.b.repeat(name, 1.0):
            return self._joined(
                self._branch(x, "single", _one(64.0)),
                self._branch(x, "five", _one(48.0), (64.0, 5.0, 1.0, None)),
                self._branch(x, "double", _one(64.0), (96.0, 3.0, 1.0, None), (96.0, 3.0, 1.0, None)),
                self._pooled(x, pooled),
            )

    def block_b(self, x: Tensor, name: str) -> Tensor:
        """Halve the grid to 17x17."""
        with self.layers.b.repeat(name, 1.0):
            return self._joined(
                self._branch(x, "three", (384.0, 3.0, 2.0, 0.0)),
                self._branch(x, "double", _one(64.0), (96.0, 3.0, 1.0, None), (96.0, 3.0, 2.0, 0.0)),
                self.layers.pool(x, "max", 3.0, "pool", stride=2.0),
            )

    def block_c(self, x: Tensor, inner: float, name: str) -> Tensor:
        """7x7 convolutions, each as a row and a column, on the 17x17 grid."""
        row, column = (inner, ROW, 1.0, None), (inner, COLUMN, 1.0, None)
        last_row, last_column = (192.0, ROW, 1.0, None), (192.0, COLUMN, 1.0, None)
        with self.layers.b.repeat(name, 1.0):
            return self._joined(
                self._branch(x, "single", _one(192.0)),
                self._branch(x, "seven", _one(inner), row, last_column),
                self._branch(x, "double", _one(inner), column, row, column, last_row),
                self._pooled(x, 192.0),
            )

    def block_d(self, x: Tensor, name: str) -> Tensor:
        """Halve the grid to 8x8."""
        row, column = (192.0, ROW, 1.0, None), (192.0, COLUMN, 1.0, None)
        with self.layers.b.repeat(name, 1.0):
            return self._joined(
                self._branch(x, "three", _one(192.0), (320.0, 3.0, 2.0, 0.0)),
                self._branch(x, "seven", _one(192.0), row, column, (192.0, 3.0, 2.0, 0.0)),
                self.layers.pool(x, "max", 3.0, "pool", stride=2.0),
            )

    def block_e(self, x: Tensor, name: str) -> Tensor:
        """3x3 convolutions that end in a row and a column side by side, on the 8x8 grid."""
        with self.layers.b.repeat(name, 1.0):
            return self._joined(
                self._branch(x, "single", _one(320.0)),
                self._forked(self._branch(x, "three", _one(384.0)), "three"),
                self._forked(self._branch(x, "double", _one(448.0), (384.0, 3.0, 1.0, None)), "double"),
                self._pooled(x, 192.0),
            )

    def auxiliary(self, x: Tensor) -> Tensor:
        """Return the logits of the second classifier."""
        layers = self.layers
        with layers.b.scope("auxiliary"):
            x = layers.pool(x, "average", 5.0, "pool", stride=3.0)
            x = self._branch(x, "convs", _one(128.0), (768.0, 5.0, 1.0, 0.0))
            return layers.linear(layers.global_average(x), self.model.num_classes, Purpose.CLASSIFIER, bias=True)

    def loss(self, logits: Tensor, auxiliary: Tensor | None) -> Tensor:
        """Return the cross entropy, plus 0.4 times that of the auxiliary classifier, as the reference training does."""
        layers = self.layers
        labels = layers.labels(logits.shape[0])
        loss = cross_entropy(layers, logits, labels)
        if auxiliary is None:
            return loss
        with layers.b.scope("auxiliary"):
            second = layers.pointwise("mul_scalar", cross_entropy(layers, auxiliary, labels))
        return layers.add(loss, second)

    # -- parts of blocks ----------------------------------------------------------------------------------------

    def _branch(self, x: Tensor, leaf: str, *steps: Step) -> Tensor:
        with self.layers.b.scope(leaf):
            for index, (channels, kernel, stride, padding) in enumerate(steps):
                x = self.layers.conv_norm(x, channels, kernel, f"conv{index + 1}", stride=stride, padding=padding)
        return x

    def _forked(self, x: Tensor, leaf: str) -> Tensor:
        row, column = (1.0, 3.0), (3.0, 1.0)
        return self._joined(
            self._branch(x, f"{leaf}.row", (384.0, row, 1.0, None)),
            self._branch(x, f"{leaf}.column", (384.0, column, 1.0, None)),
        )

    def _pooled(self, x: Tensor, channels: float) -> Tensor:
        x = self.layers.pool(x, "average", 3.0, "pool", stride=1.0, padding=1.0)
        return self._branch(x, "pooled", _one(channels))

    def _joined(self, *branches: Tensor) -> Tensor:
        return self.layers.concat(branches, axis=1)
