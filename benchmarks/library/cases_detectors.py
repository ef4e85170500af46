"""Networks that say something of each place of an image: RetinaNet, SSD, U-Net. What matches boxes with objects is left out."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from counting import Case, none, numbers
from torch import nn


def _retinanet(trunk: str, classes: int) -> Any:
    from torchvision import models
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7
    from torchvision.ops.misc import FrozenBatchNorm2d

    # As with weights of ImageNet: norms are frozen, and three stages trained.
    maps = getattr(models, trunk)(norm_layer=FrozenBatchNorm2d)
    seen = _resnet_fpn_extractor(maps, 3, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))
    return RetinaNet(seen, classes)


def _retinanet_v2() -> Any:
    from torchvision.models.detection import retinanet_resnet50_fpn_v2

    model = retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None)
    for name, weight in model.backbone.body.named_parameters():
        weight.requires_grad_(name.startswith(("layer2", "layer3", "layer4")))
    return model


def _retinanet_call(model: Any) -> Any:
    """Run trunk, pyramid and heads: what chooses boxes needs values."""
    return list(model.head(list(model.backbone(numbers(1, 3, 800, 800)).values())).values())


class _Ssd(nn.Module):
    """SSD300 of NVIDIA's DeepLearningExamples (PyTorch/Detection/SSD/ssd/model.py) on torchvision's ResNet-50."""

    widths = (1024, 512, 512, 256, 256, 256)
    boxes = (4, 6, 6, 6, 4, 4)

    def __init__(self) -> None:
        from torchvision.models import resnet50

        super().__init__()
        self.trunk = nn.Sequential(*list(resnet50().children())[:7])
        last = self.trunk[-1][0]
        last.conv1.stride = last.conv2.stride = last.downsample[0].stride = (1, 1)
        inner = (256, 256, 128, 128, 128)
        sizes = zip(self.widths[:-1], inner, self.widths[1:], strict=True)
        self.more = nn.ModuleList(self._smaller(*three, halves=place < 3) for place, three in enumerate(sizes))
        pairs = tuple(zip(self.widths, self.boxes, strict=True))
        self.places = nn.ModuleList(nn.Conv2d(width, 4 * boxes, 3, padding=1) for width, boxes in pairs)
        self.classes = nn.ModuleList(nn.Conv2d(width, 81 * boxes, 3, padding=1) for width, boxes in pairs)

    @staticmethod
    def _smaller(width: int, inner: int, out: int, *, halves: bool) -> nn.Module:
        shrinks = {"padding": 1, "stride": 2} if halves else {}
        return nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
            nn.Conv2d(inner, out, 3, bias=False, **shrinks), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = [self.trunk(images)]
        for layer in self.more:
            maps.append(layer(maps[-1]))
        said = []
        for values, heads in ((4, self.places), (81, self.classes)):
            parts = [head(each).reshape(len(each), values, -1) for each, head in zip(maps, heads, strict=True)]
            said.append(torch.cat(parts, 2).contiguous())
        return said[0], said[1]


def _twice(width: int, out: int) -> nn.Module:
    layers = ((width, out), (out, out))
    return nn.Sequential(*(
        part
        for pair in layers
        for part in (nn.Conv2d(*pair, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))
    ))  # fmt: skip


class _Unet(nn.Module):
    """The U-Net of milesial/Pytorch-UNet (unet/unet_model.py, unet_parts.py), with transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 1024)
        self.first = _twice(3, 64)
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), _twice(*pair)) for pair in pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(width, width // 2, 2, 2) for width in widths[:0:-1])
        self.merge = nn.ModuleList(_twice(width, width // 2) for width in widths[:0:-1])
        self.last = nn.Conv2d(64, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [self.first(x)]
        for layer in self.down:
            seen.append(layer(seen[-1]))
        x = seen.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x, beside = up(x), seen.pop()
            rows, columns = (beside.shape[axis] - x.shape[axis] for axis in (2, 3))
            x = nn.functional.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = merge(torch.cat([beside, x], 1))
        return self.last(x)


CASES: dict[str, Case] = {
    "retinanet-resnet50-fpn": ("torchvision", "", partial(_retinanet, "resnet50", 91), _retinanet_call),
    "retinanet-resnet50-fpn-v2": ("torchvision", "", _retinanet_v2, _retinanet_call),
    "retinanet-resnext50-fpn": ("torchvision", "", partial(_retinanet, "resnext50_32x4d", 264), _retinanet_call),
    "ssd300-resnet50": ("torch", "", _Ssd, lambda model: model(numbers(1, 3, 300, 300))),
    "unet": ("torch", "", _Unet, lambda model: model(numbers(1, 3, 512, 512))),
}  # fmt: skip
#: The loss of models whose saved bytes are counted.
LOSSES = dict.fromkeys(CASES, none)
