"""Lower RetinaNet: a residual trunk, a pyramid of features, and two heads whose weights all levels share.

As torchvision writes it (models/detection/retinanet.py, ops/feature_pyramid_network.py), scores and boxes of all anchors at the end
of an inference pass included.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Gather, Loss, Sort
from roofsim.graph.tensor import BOOL, FP32, INT64, Tensor
from roofsim.lower.blocks.boxes import compared
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.vision.resnet import ResidualTrunk
from roofsim.numeric import Real, minimum
from roofsim.records import dataclass
from roofsim.spec.model.vision import RESNET_STAGES, ResNetModel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.detection import RetinanetModel

COORDINATES: Final = 4.0
#: Convolutions of a head before its last one.
HEAD_CONVOLUTIONS: Final = 4
#: Stages of the trunk that the pyramid reads: all but the first.
FIRST_READ: Final = 1
#: Groups of a head's norms (torchvision, retinanet_resnet50_fpn_v2).
NORM_GROUPS: Final = 32.0


def lower_retinanet(model: RetinanetModel, call: Call) -> OpGraph:
    """Build one pass of a RetinaNet over a batch of images."""
    b = Builder()
    size = model.image_size if call.length is None else call.length
    net = _Retinanet(model, VisionLayers(b, call.flavour), _trunk(model, b, call))
    levels = net.pyramid(net.trunk.layers.image(call.batch, model.in_channels, size))
    with b.scope("classification"):
        logits = net.head(levels, model.num_classes)
    with b.scope("regression"):
        boxes = net.head(levels, COORDINATES)
    if call.trains:
        with b.scope(Purpose.LOSS):
            net.loss(net.joined(logits, model.num_classes), net.joined(boxes, COORDINATES))
    else:
        with b.scope("detections"):
            net.detect(logits, boxes)
    return b.graph()


def _trunk(model: RetinanetModel, b: Builder, call: Call) -> ResidualTrunk:
    shape = ResNetModel(depth=model.depth).with_sizes(groups=model.groups, width_per_group=model.width_per_group)
    return ResidualTrunk(shape.as_reals(), VisionLayers(b, call.flavour, frozen_norms=model.frozen_norms))


@dataclass(frozen=True)
class _Retinanet:
    model: RetinanetModel
    layers: VisionLayers
    trunk: ResidualTrunk

    # -- features -----------------------------------------------------------------------------------------------

    def pyramid(self, x: Tensor) -> list[Tensor]:
        """Return five levels of features, largest first, each half the side of the one before."""
        model, layers = self.model, self.layers
        with self._frozen(0):
            x, read = self.trunk.stem(x), []
        for index, blocks in enumerate(RESNET_STAGES[model.depth]):
            with self._frozen(index + 1):
                x = self.trunk.stage(x, index, blocks)
            if index >= FIRST_READ:
                read.append(x)
        levels: list[Tensor] = []
        above: Tensor | None = None
        for index in reversed(range(len(read))):
            with layers.b.scope(f"pyramid{index}"):
                own = layers.conv(read[index], model.pyramid_channels, 1.0, "inner", bias=True)
                if above is not None:
                    own = layers.add(own, layers.resize(above, own.shape[2:]))
                above = own
                levels.insert(0, layers.conv(own, model.pyramid_channels, 3.0, "layer", bias=True))
        with layers.b.scope("pyramid.more"):
            source = read[-1] if model.sixth_level == "trunk" else levels[-1]
            sixth = layers.conv(source, model.pyramid_channels, 3.0, "sixth", stride=2.0, bias=True)
            seventh = layers.conv(
                layers.relu(sixth, inplace=False), model.pyramid_channels, 3.0, "seventh", stride=2.0, bias=True
            )
        return [*levels, sixth, seventh]

    def _frozen(self, stage: int) -> AbstractContextManager[None]:
        return self.layers.b.freezing() if stage < self.model.frozen_stages else nullcontext()

    # -- heads --------------------------------------------------------------------------------------------------

    def head(self, levels: list[Tensor], values: Real) -> list[Tensor]:
        """Return what a head says at each level, ``[batch, anchors x values, height, width]``; all levels share its weights."""
        layers, channels = self.layers, self.model.pyramid_channels
        normed = self.model.head_norms
        weights = []
        for index in range(HEAD_CONVOLUTIONS):
            with layers.b.scope(f"conv{index}"):
                own = layers.kernel_weights(channels, channels, (3.0, 3.0), bias=not normed)
                norms = tuple(layers.b.parameter(f"norm_{name}", channels) for name in ("weight", "bias"))
                weights.append((own, norms if normed else ()))
        with layers.b.scope("last"):
            last = layers.kernel_weights(self.model.anchors * values, channels, (3.0, 3.0), bias=True)
        said = []
        for number, level in enumerate(levels):
            with layers.b.scope(f"level{number}"):
                x = level
                for own, norms in weights:
                    x = layers.convolve(x, own, x.shape[2:])
                    if norms:
                        x = layers.group_norm_with(x, NORM_GROUPS, norms)
                    x = layers.relu(x)
                said.append(layers.convolve(x, last, x.shape[2:]))
        return said

    def joined(self, said: list[Tensor], values: Real) -> Tensor:
        """Return what a head says of all anchors, ``[batch, anchors, values]``."""
        layers = self.layers
        with layers.b.scope("joined"):
            return layers.concat(tuple(self._by_anchor(one, values) for one in said), 1)

    def _by_anchor(self, x: Tensor, values: Real) -> Tensor:
        batch, _, height, width = x.shape
        shape = (batch, height * width * self.model.anchors, values)
        return self.layers.copy(x, "permute", shape)

    # -- loss ---------------------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, boxes: Tensor) -> Tensor:
        """Return the focal loss of the classes (arXiv 1708.02002) and the L1 loss of matched boxes, in fp32."""
        layers, b = self.layers, self.layers.b
        batch, anchors, _ = boxes.shape
        targets = b.input("class_targets", *logits.shape, dtype=FP32)
        wide = layers.cast(logits, FP32)
        chance = layers.pointwise("sigmoid", wide)
        entropy = b.tensor("entropy", *logits.shape, dtype=FP32)
        b.emit(Loss, "entropy", inputs=(wide, targets), outputs=(entropy,), function="binary_cross_entropy")
        missed = layers.pointwise("add_scalar", layers.mul(chance, layers.pointwise("mul_scalar", targets)))
        weighted = layers.mul(layers.mul(entropy, layers.pointwise("square", missed)), self._balance(targets))
        classes = layers.reduce(weighted, (), "sum")
        matched = layers.cast(b.input("matched", batch, anchors, 1.0, dtype=BOOL), FP32)
        truth = b.input("true_boxes", *boxes.shape, dtype=FP32)
        distance = b.tensor("distance", *boxes.shape, dtype=FP32)
        b.emit(Loss, "l1", inputs=(layers.cast(boxes, FP32), truth), outputs=(distance,), function="smooth_l1")
        return layers.add(classes, layers.reduce(layers.mul(distance, matched), (), "sum"))

    def _balance(self, targets: Tensor) -> Tensor:
        """Return the weight of each class of each anchor: more for what is there."""
        return self.layers.pointwise("add_scalar", self.layers.pointwise("mul_scalar", targets))

    # -- detections ---------------------------------------------------------------------------------------------

    def detect(self, logits: list[Tensor], boxes: list[Tensor]) -> Tensor:
        """Return the boxes that stay: those of the best scores of each level, without those that overlap a better one."""
        layers, model = self.layers, self.model
        chosen = []
        for number, (classes, offsets) in enumerate(zip(logits, boxes, strict=True)):
            with layers.b.scope(f"level{number}"):
                chosen.append(self._best(classes, offsets))
        with layers.b.scope("suppression"):
            kept = layers.concat(tuple(chosen), 1)
            return compared(layers, kept, model.detections)

    def _best(self, classes: Tensor, offsets: Tensor) -> Tensor:
        """Return the decoded boxes of the best scores of a level, ``[batch, at most candidates, 6]``."""
        layers, b, model = self.layers, self.layers.b, self.model
        batch, positions = classes.shape[0], classes.shape[2] * classes.shape[3]
        anchors = positions * model.anchors
        scores = layers.pointwise("sigmoid", self._by_anchor(classes, model.num_classes))
        count = minimum(model.candidates, anchors * model.num_classes)
        top = b.tensor("top", batch, count, dtype=scores.dtype)
        indices = b.tensor("indices", batch, count, dtype=INT64)
        b.emit(Sort, "topk", inputs=(scores,), outputs=(top, indices), function="topk")
        picked = b.tensor("picked", batch, count, COORDINATES)
        by_anchor = self._by_anchor(offsets, COORDINATES)
        b.emit(Gather, "pick", inputs=(by_anchor, indices), outputs=(picked,), function="index")
        decoded = layers.pointwise("add", layers.pointwise("exp", picked), picked)
        extra = layers.copy(layers.view(top, "reshape", batch, count, 1.0), "labels", (batch, count, 2.0))
        return layers.concat((decoded, extra), 2)
