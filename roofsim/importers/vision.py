"""Map the configurations of image classifiers: ViT, Swin, ConvNeXt, ResNet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.encoders import labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields

Mapping = dict[str, Any]

#: (layer type, blocks in each stage) -> the depth by which a residual network is known.
RESNETS: Final[dict[tuple[str, tuple[int, ...]], int]] = {
    ("basic", (2, 2, 2, 2)): 18,
    ("basic", (3, 4, 6, 3)): 34,
    ("bottleneck", (3, 4, 6, 3)): 50,
    ("bottleneck", (3, 4, 23, 3)): 101,
    ("bottleneck", (3, 8, 36, 3)): 152,
}


def _image(c: Fields) -> Mapping:
    for name in c.words("architectures") or []:
        if not name.endswith("ForImageClassification"):
            c.fail("architectures", f"{name} is not supported; expected a class that ends in ForImageClassification")
    return {
        "image_size": c.whole("image_size", default=224),
        "in_channels": c.whole("num_channels", default=3),
        "num_classes": labels(c),
    }


def _vit(c: Fields) -> Mapping:
    return {
        "family": "vit",
        **_image(c),
        "num_layers": c.whole("num_hidden_layers"),
        "hidden_size": c.whole("hidden_size"),
        "num_attention_heads": c.whole("num_attention_heads"),
        "intermediate_size": c.whole("intermediate_size", default=3072),
        "patch_size": c.whole("patch_size", default=16),
        "activation": c.activation("hidden_act", default="gelu"),
        "query_key_value_bias": c.flag("qkv_bias", True),
        "dropout": c.rate("hidden_dropout_prob"),
        "attention_dropout": c.rate("attention_probs_dropout_prob"),
    }


def _swin(c: Fields) -> Mapping:
    c.only("use_absolute_embeddings", False)
    c.only("qkv_bias", True)
    c.only("attention_probs_dropout_prob", 0.0)
    return {
        "family": "swin",
        **_image(c),
        "patch_size": c.whole("patch_size", default=4),
        "embedding_size": c.whole("embed_dim"),
        "depths": c.wholes("depths"),
        "heads_per_stage": c.wholes("num_heads"),
        "window_size": c.whole("window_size", default=7),
        "mlp_ratio": c.number("mlp_ratio", 4.0),
        "activation": c.activation("hidden_act", default="gelu"),
        "dropout": c.rate("hidden_dropout_prob"),
        "stochastic_depth": c.rate("drop_path_rate", 0.1),
    }


def _convnext(c: Fields) -> Mapping:
    c.only("patch_size", 4)
    c.only("hidden_act", "gelu")
    return {
        "family": "convnext",
        **_image(c),
        "depths": c.wholes("depths"),
        "dims": c.wholes("hidden_sizes"),
        "layer_scale": c.number("layer_scale_init_value", 1e-6) > 0.0,
        "stochastic_depth": c.rate("drop_path_rate"),
    }


def _convnextv2(c: Fields) -> Mapping:
    defaults = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768]}
    fields = type(c)({**defaults, **c.data, "layer_scale_init_value": 0.0}, c.where, c.path)
    return {**_convnext(fields), "response_norm": True}


def _resnet(c: Fields) -> Mapping:
    for key, usual in (
        ("downsample_in_first_stage", False),
        ("downsample_in_bottleneck", False),
        ("hidden_act", "relu"),
    ):
        c.only(key, usual)
    kind, depths = c.word("layer_type", "bottleneck"), tuple(c.wholes("depths"))
    if (kind, depths) not in RESNETS:
        c.fail("depths", f"{list(depths)} of {kind} blocks is none of the known residual networks")
    last = 512 if kind == "basic" else 2048
    c.only("embedding_size", 64)
    c.only("hidden_sizes", [last // 8, last // 4, last // 2, last])
    return {"family": "resnet", **_image(c), "depth": RESNETS[kind, depths]}


#: model_type -> the function that reads it.
VISION: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "vit": _vit,
    "swin": _swin,
    "convnext": _convnext,
    "convnextv2": _convnextv2,
    "resnet": _resnet,
}
