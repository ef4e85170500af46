"""Find the schema class of a model family by its name; importing this imports no family."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, UnknownNameError, did_you_mean
from roofsim.spec.model.base import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Callable

#: family -> (module under roofsim.spec.model, class)
FAMILIES: Final[dict[str, tuple[str, str]]] = {
    "decoder": ("transformer", "DecoderModel"),
    "encoder": ("encoders", "EncoderModel"),
    "encoder-decoder": ("encoders", "EncoderDecoderModel"),
    "vit": ("vision_transformer", "VitModel"),
    "swin": ("vision_transformer", "SwinModel"),
    "mixer": ("vision_transformer", "MixerModel"),
    "resnet": ("vision", "ResNetModel"),
    "vgg": ("vision", "VggModel"),
    "densenet": ("vision", "DenseNetModel"),
    "inception": ("vision", "InceptionModel"),
    "regnet": ("vision", "RegNetModel"),
    "convnext": ("vision", "ConvNextModel"),
    "efficientnet": ("mobile", "EfficientNetModel"),
    "mobilenet": ("mobile", "MobileNetModel"),
    "unet": ("dense_prediction", "UnetModel"),
    "ssd": ("dense_prediction", "SsdModel"),
    "retinanet": ("detection", "RetinanetModel"),
    "diffusion-unet": ("diffusion", "DiffusionUnetModel"),
    "diffusion-pipeline": ("diffusion_pipelines", "DiffusionPipelineModel"),
    "dit": ("diffusion", "DitModel"),
    "dit-pipeline": ("diffusion_pipelines", "DitPipelineModel"),
    "mamba": ("mamba", "MambaModel"),
    "dlrm": ("recommendation", "DlrmModel"),
    "captured": ("captured", "CapturedModel"),
    "captured-images": ("captured", "CapturedImages"),
    "captured-samples": ("captured", "CapturedSamples"),
    "layers": ("layers.model", "LayersModel"),
}


def family_schema(family: str) -> type[ModelSpec]:
    """Return the schema class of a family.

    Raises
    ------
    UnknownNameError
        With near matches.
    PluginError
        For a family of a plug-in that cannot be used.
    """
    if family not in FAMILIES:
        from roofsim.spec.model.plugged import plugged_family

        added = plugged_family(family, FAMILIES)
        if added is not None:
            return added[0].schema
        raise UnknownNameError(
            Problem(f"unknown model family {family!r}", path="family", hint=did_you_mean(family, all_families()))
        )
    module, name = FAMILIES[family]
    schema: type[ModelSpec] = getattr(importlib.import_module(f"roofsim.spec.model.{module}"), name)
    assert issubclass(schema, ModelSpec)
    return schema


def all_families() -> list[str]:
    """Return the names of all families, those of plug-ins behind roofsim's own."""
    from roofsim import plugins

    return [*FAMILIES, *plugins.plugged("families", FAMILIES)]


def families_that(do: Callable[[type[ModelSpec]], bool]) -> list[str]:
    """Return the families whose schema says so, for messages.

    >>> families_that(lambda schema: schema.encodes)
    ['encoder-decoder']
    """
    return [name for name in FAMILIES if do(family_schema(name))]
