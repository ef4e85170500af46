"""Choose the lowering of a model's family; each module is imported when its family is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.base import ModelSpec

#: family -> (module under roofsim.lower, function)
LOWERINGS: Final[dict[str, tuple[str, str]]] = {
    "decoder": ("language.decoder", "lower_decoder"),
    "encoder": ("language.encoder", "lower_encoder"),
    "encoder-decoder": ("language.encoder_decoder", "lower_encoder_decoder"),
    "vit": ("vision.vit", "lower_vit"),
    "swin": ("vision.swin", "lower_swin"),
    "mixer": ("vision.mixer", "lower_mixer"),
    "resnet": ("vision.resnet", "lower_resnet"),
    "vgg": ("vision.vgg", "lower_vgg"),
    "densenet": ("vision.densenet", "lower_densenet"),
    "inception": ("vision.inception", "lower_inception"),
    "regnet": ("vision.regnet", "lower_regnet"),
    "convnext": ("vision.convnext", "lower_convnext"),
    "efficientnet": ("vision.efficientnet", "lower_efficientnet"),
    "mobilenet": ("vision.mobilenet", "lower_mobilenet"),
    "unet": ("vision.unet", "lower_unet"),
    "ssd": ("vision.ssd", "lower_ssd"),
    "diffusion-unet": ("diffusion.unet", "lower_diffusion_unet"),
    "diffusion-pipeline": ("diffusion.pipeline", "lower_denoiser"),
    "dit": ("diffusion.dit", "lower_dit"),
    "dit-pipeline": ("diffusion.pipeline", "lower_denoiser"),
    "mamba": ("language.mamba", "lower_mamba"),
    "dlrm": ("recommender.dlrm", "lower_dlrm"),
}


def lower(model: ModelSpec, call: Call) -> OpGraph:
    """Build the forward graph of one pass of `model`.

    The scenario's sizes have been checked: only families that generate prefill and decode.
    """
    module, function = LOWERINGS[model.family]
    lowering = getattr(importlib.import_module(f"roofsim.lower.{module}"), function)
    graph: OpGraph = lowering(model.completed().as_reals(), call)
    return graph
