"""Lower single-shot detectors: a residual trunk, shrinking feature maps behind it, box and class heads on each map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Loss, Reduction, Sort
from roofsim.graph.tensor import BOOL, FP32, INT64, Tensor
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.vision.resnet import ResidualTrunk
from roofsim.numeric import Real, real
from roofsim.records import dataclass
from roofsim.spec.model.vision import RESNET_STAGES, ResNetModel

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.dense_prediction import SsdModel

#: Additional blocks that halve the map; the others shrink it by an unpadded convolution.
STRIDED_BLOCKS = 3
#: Stages of the residual network that the trunk keeps; the last of them does not halve the map.
TRUNK_STAGES = 3
COORDINATES = 4.0


def lower_ssd(model: SsdModel, call: Call) -> OpGraph:
    """Build one pass of a single-shot detector over a batch of images."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    size = model.image_size if call.length is None else call.length
    net = _Ssd(model, layers)
    boxes, classes = net.predict(net.maps(layers.image(call.batch, model.in_channels, size)))
    if call.trains:
        with b.scope(Purpose.LOSS):
            net.loss(boxes, classes)
    return b.graph()


@dataclass(frozen=True)
class _Ssd:
    model: SsdModel
    layers: VisionLayers

    def maps(self, x: Tensor) -> list[Tensor]:
        """Return the feature maps, largest first."""
        model, layers = self.model, self.layers
        net = ResidualTrunk(ResNetModel(depth=model.depth).as_reals(), layers)
        x = net.stem(x)
        for index, blocks in enumerate(RESNET_STAGES[model.depth][:TRUNK_STAGES]):
            x = net.stage(x, index, blocks, stride=1.0 if index == TRUNK_STAGES - 1 else None)
        maps = [x]
        widths = zip(model.additional_bottlenecks, model.additional_channels, strict=True)
        for index, (inner, channels) in enumerate(widths):
            with layers.b.repeat(f"additional{index}", 1.0):
                x = layers.conv_norm(x, real(inner), 1.0, "conv1")
                if index < STRIDED_BLOCKS:
                    x = layers.conv_norm(x, real(channels), 3.0, "conv2", stride=2.0)
                else:
                    x = layers.conv_norm(x, real(channels), 3.0, "conv2", padding=0.0)
            maps.append(x)
        return maps

    def predict(self, maps: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return offsets ``[batch, 4, boxes]`` and class logits ``[batch, classes, boxes]`` of all default boxes."""
        layers, boxes, classes = self.layers, [], []
        for index, (x, count) in enumerate(zip(maps, self.model.default_boxes, strict=True)):
            with layers.b.scope(f"head{index}"):
                boxes.append(self._head(x, real(count), COORDINATES, "boxes"))
                classes.append(self._head(x, real(count), self.model.num_classes, "classes"))
        with layers.b.scope("heads"):
            return layers.concat(tuple(boxes), 2), layers.concat(tuple(classes), 2)

    def _head(self, x: Tensor, boxes: Real, values: Real, leaf: str) -> Tensor:
        layers = self.layers
        out = layers.conv(x, boxes * values, 3.0, leaf, bias=True)
        positions = x.shape[2] * x.shape[3]
        return layers.view(out, "reshape", x.shape[0], values, boxes * positions, copies_gradient=True)

    # -- loss ---------------------------------------------------------------------------------------------------

    def loss(self, boxes: Tensor, classes: Tensor) -> Tensor:
        """Return smooth L1 of the matched boxes plus cross entropy of these and of the hardest others, in fp32."""
        layers, b = self.layers, self.layers.b
        batch, _, count = boxes.shape
        labels = layers.labels(batch, count)
        matched = layers.pointwise("compare", labels, dtype=BOOL)
        matches = b.tensor("matches", batch, dtype=INT64)
        b.emit(Reduction, "count", inputs=(matched,), outputs=(matches,), function="sum")
        distance = self._distance(layers.cast(boxes, FP32))
        weight = layers.cast(matched, FP32)
        distance = layers.reduce(layers.mul(weight, distance), (batch,))
        entropy = self._entropy(layers.cast(classes, FP32), labels)
        chosen = layers.cast(layers.pointwise("compare", matched, self._hardest(entropy, matched), dtype=BOOL), FP32)
        confidence = layers.reduce(layers.mul(entropy, chosen), (batch,))
        total = layers.add(distance, confidence)
        present = layers.cast(layers.pointwise("compare", matches, dtype=BOOL), FP32)
        number = layers.pointwise("clamp", layers.cast(matches, FP32))
        return layers.reduce(layers.pointwise("div", layers.mul(total, present), number), (), "mean")

    def _distance(self, boxes: Tensor) -> Tensor:
        """Return smooth L1 between predicted and true offsets, summed over the four coordinates of each box."""
        layers, b = self.layers, self.layers.b
        batch, _, count = boxes.shape
        truth = b.input("true_boxes", batch, COORDINATES, count, dtype=FP32)
        defaults = b.buffer("default_boxes", COORDINATES, count, dtype=FP32)
        center, size = layers.split(truth, 2.0, 2.0, axis=1)
        default_center, default_size = layers.split(defaults, 2.0, 2.0, axis=0)
        moved = layers.pointwise("mul_scalar", layers.pointwise("sub", center, default_center))
        moved = layers.pointwise("div", moved, default_size)
        scaled = layers.pointwise("log", layers.pointwise("div", size, default_size))
        target = layers.concat((moved, layers.pointwise("mul_scalar", scaled)), 1)
        distance = b.tensor("distance", *boxes.shape, dtype=FP32)
        b.emit(Loss, "smooth_l1", inputs=(boxes, target), outputs=(distance,), function="smooth_l1")
        return layers.reduce(distance, (batch, count))

    def _entropy(self, classes: Tensor, labels: Tensor) -> Tensor:
        """Return the cross entropy of each box."""
        layers, b = self.layers, self.layers.b
        log_probabilities = layers.softmax(classes, logarithm=True)
        losses = b.tensor("losses", *labels.shape, dtype=FP32)
        b.emit(Loss, "nll", inputs=(log_probabilities, labels), outputs=(losses,), function="nll")
        return losses

    def _hardest(self, entropy: Tensor, matched: Tensor) -> Tensor:
        """Choose the unmatched boxes with the largest loss: sort, and sort the order to get ranks."""
        layers = self.layers
        unmatched = layers.pointwise("where", matched, layers.copy(entropy))
        order = self._sorted(unmatched, "order")
        return layers.pointwise("compare", self._sorted(order, "rank"), dtype=BOOL)

    def _sorted(self, x: Tensor, leaf: str) -> Tensor:
        b = self.layers.b
        values, indices = b.tensor("sorted", *x.shape, dtype=x.dtype), b.tensor(leaf, *x.shape, dtype=INT64)
        b.emit(Sort, leaf, inputs=(x,), outputs=(values, indices), function="sort")
        return indices
