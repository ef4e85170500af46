"""Networks of images: classifiers, detectors, CLIP, SAM."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from counting import Case, Samples, both_ways, classes, ids, none, numbers
from torch._subclasses.fake_tensor import unset_fake_temporarily

if TYPE_CHECKING:
    from collections.abc import Callable


def _yolo(name: str) -> Any:
    from ultralytics.nn import tasks

    with unset_fake_temporarily(), torch.device("cpu"):
        torch.set_default_dtype(torch.float32)
        return tasks.DetectionModel(f"{name}.yaml", verbose=False)


def _yolo_call(model: Any) -> Any:
    """Run with values: strides and anchors follow from them; in training, which has no anchors, without."""
    if model.training:
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        model._apply(
            lambda held: torch.zeros(held.shape, dtype=torch.bfloat16 if held.is_floating_point() else held.dtype)
        )
        return model(numbers(1, 3, 640, 640))
    with unset_fake_temporarily(), torch.device("cpu"):
        head = model.model[-1]
        if head.end2end:  # one object a box: the other heads are of training alone
            head.fuse()
        return model(torch.zeros(1, 3, 640, 640))


def _one_image(*shape: int) -> Callable[[Any], Any]:
    return lambda model: model(numbers(1, *shape))


def _rcnn(name: str) -> Any:
    from torchvision.models import detection, resnet50
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.misc import FrozenBatchNorm2d

    # As with weights of ImageNet: norms are frozen.
    return getattr(detection, name)(_resnet_fpn_extractor(resnet50(norm_layer=FrozenBatchNorm2d), 3), 91)


def _rcnn_call(model: Any) -> Any:
    """Run the networks one by one: what chooses boxes between them needs values. Training samples 512 boxes, 128 with masks."""
    from torchvision.ops import roi_align

    features = list(model.backbone(numbers(1, 3, 800, 1088)).values())
    made = [model.rpn.head(features)]
    heads, boxes, masks = model.roi_heads, 1000, 100
    if model.training:
        boxes, masks = 512 * Samples.count, 128 * Samples.count
    made.append(heads.box_predictor(heads.box_head(roi_align(features[0], numbers(boxes, 5), 7))))
    if heads.has_mask():
        made.append(heads.mask_predictor(heads.mask_head(roi_align(features[0], numbers(masks, 5), 14))))
    return made


def _detr() -> Any:
    from transformers import DetrConfig, DetrForObjectDetection

    # Its layers look whether all they made is finite: without values it is.
    torch.isfinite = lambda _given: SimpleNamespace(all=lambda: True)
    model = DetrForObjectDetection(DetrConfig(use_pretrained_backbone=False, num_labels=91))
    for (
        name,
        weight,
    ) in model.model.backbone.named_parameters():  # as facebookresearch/detr trains it (models/backbone.py)
        weight.requires_grad_(any(stage in name for stage in ("layer2", "layer3", "layer4")))
    return model


def _clip(patch: int, width: int, layers: int, heads: int, text: int) -> Any:
    from transformers import CLIPConfig, CLIPModel

    vision = {
        "patch_size": patch, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }  # fmt: skip
    words = {"hidden_size": text, "num_attention_heads": text // 64, "intermediate_size": 4 * text, "eos_token_id": 2}
    return CLIPModel(CLIPConfig(text_config=words, vision_config=vision, projection_dim=text))


def _clip_call(model: Any) -> Any:
    return model(input_ids=ids(77), pixel_values=numbers(1, 3, 224, 224))


def _torchvision(name: str) -> Any:
    from torchvision import models

    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return getattr(models, name)(**more)


def _timm(name: str) -> Any:
    from timm import create_model
    from timm.models import metaformer, vision_transformer

    # Rates of dropped paths are 0, and would be read as values.
    metaformer.calculate_drop_path_rates = lambda _rate, depths, **_others: [[0.0] * depth for depth in depths]
    vision_transformer.calculate_drop_path_rates = lambda _rate, depth, **_others: [0.0] * depth
    return create_model(name, num_classes=1000)


def _maxvit() -> Any:
    model = _torchvision("maxvit_t")
    for part in model.modules():
        if hasattr(part, "relative_position_bias_table"):  # made in fp32, whatever the rest is in
            shape = part.relative_position_bias_table.shape
            part.relative_position_bias_table = torch.nn.Parameter(torch.zeros(shape))
    return model


def _sam(width: int, layers: int, heads: int) -> Any:
    from transformers import SamConfig, SamModel, SamVisionConfig

    whole = [layers // 4 * place - 1 for place in (1, 2, 3, 4)]
    vision = SamVisionConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        mlp_dim=4 * width,
        global_attn_indexes=whole,
    )
    return SamModel(SamConfig(vision_config=vision))


def _sam_call(model: Any) -> Any:
    """Run encoder and decoder by themselves: what prompts become needs values."""
    seen = model.vision_encoder(numbers(1, 3, 1024, 1024))
    maps = (numbers(1, 256, 64, 64) for _ in range(3))
    return seen, model.mask_decoder(next(maps), next(maps), numbers(1, 1, 2, 256), next(maps), multimask_output=True)


CASES: dict[str, Case] = {
    "clip-vit-base-patch32": ("transformers", "", partial(_clip, 32, 768, 12, 12, 512), _clip_call),
    "clip-vit-base-patch16": ("transformers", "", partial(_clip, 16, 768, 12, 12, 512), _clip_call),
    "clip-vit-large-patch14": ("transformers", "", partial(_clip, 14, 1024, 24, 16, 768), _clip_call),
    "detr-resnet-50": ("transformers", "", _detr, _one_image(3, 800, 1066)),
    **{
        name: ("torchvision", "", partial(_torchvision, name.replace(".", "_")), _one_image(3, 224, 224))
        for name in ("alexnet", "squeezenet1.1", "googlenet", "shufflenet_v2_x1_0")
    },
    "faster-rcnn-resnet50-fpn": ("torchvision", "", partial(_rcnn, "FasterRCNN"), _rcnn_call),
    "mask-rcnn-resnet50-fpn": ("torchvision", "", partial(_rcnn, "MaskRCNN"), _rcnn_call),
    **{
        name: ("ultralytics", "all", partial(_yolo, name), _yolo_call)
        for name in [
            f"yolo{version}{size}"
            for version, sizes in (("v8", "nsmlx"), ("v9", "tsmc"), ("v10", "nsmblx"), ("11", "nsmlx"))
            for size in sizes
        ]
    },
    "maxvit_t": ("torchvision", "all", _maxvit, _one_image(3, 224, 224)),
    "sam-vit-base": ("transformers", "", partial(_sam, 768, 12, 12), _sam_call),
    "sam-vit-large": ("transformers", "", partial(_sam, 1024, 24, 16), _sam_call),
    "sam-vit-huge": ("transformers", "", partial(_sam, 1280, 32, 16), _sam_call),
    **{
        f"vit-{size}-patch14-dinov2": (
            "timm", "", partial(_timm, f"vit_{size}_patch14_dinov2"), _one_image(3, 518, 518),
        )
        for size in ("small", "base", "large")
    },
    "gmlp-s16": ("timm", "", partial(_timm, "gmlp_s16_224"), _one_image(3, 224, 224)),
    "resmlp-12": ("timm", "", partial(_timm, "resmlp_12_224"), _one_image(3, 224, 224)),
    "poolformer-s12": ("timm", "", partial(_timm, "poolformer_s12"), _one_image(3, 224, 224)),
    "convmixer-768-32": ("timm", "", partial(_timm, "convmixer_768_32"), _one_image(3, 224, 224)),
}  # fmt: skip
#: The loss of models whose saved bytes are counted.
LOSSES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (
            "alexnet",
            "squeezenet1.1",
            "googlenet",
            "shufflenet_v2_x1_0",
            "maxvit_t",
            "gmlp-s16",
            "resmlp-12",
            "poolformer-s12",
            "convmixer-768-32",
        ),
        classes,
    ),
    **dict.fromkeys((name for name in CASES if name.endswith("dinov2")), classes),
    **dict.fromkeys((name for name in CASES if name.startswith("clip")), both_ways),
    **dict.fromkeys((name for name in CASES if name.startswith(("yolo", "faster", "mask", "sam", "detr"))), none),
}
