"""Choose the lowering of a model's family; each module is imported when its family is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.families.base import ModelSpec

#: family -> (module under roofsim.lower, function)
LOWERINGS: Final[dict[str, tuple[str, str]]] = {
    "decoder": ("decoder", "lower_decoder"),
    "encoder": ("encoder", "lower_encoder"),
    "encoder-decoder": ("encoder_decoder", "lower_encoder_decoder"),
    "vit": ("vit", "lower_vit"),
    "swin": ("swin", "lower_swin"),
    "mixer": ("mixer", "lower_mixer"),
    "resnet": ("resnet", "lower_resnet"),
    "vgg": ("vgg", "lower_vgg"),
    "densenet": ("densenet", "lower_densenet"),
    "inception": ("inception", "lower_inception"),
    "regnet": ("regnet", "lower_regnet"),
    "convnext": ("convnext", "lower_convnext"),
    "efficientnet": ("efficientnet", "lower_efficientnet"),
    "mobilenet": ("mobilenet", "lower_mobilenet"),
    "unet": ("unet", "lower_unet"),
    "ssd": ("ssd", "lower_ssd"),
    "diffusion-unet": ("diffusion_unet", "lower_diffusion_unet"),
    "diffusion-pipeline": ("diffusion_pipeline", "lower_denoiser"),
    "dit": ("dit", "lower_dit"),
    "dit-pipeline": ("diffusion_pipeline", "lower_denoiser"),
    "mamba": ("mamba", "lower_mamba"),
    "dlrm": ("dlrm", "lower_dlrm"),
}


def lower(model: ModelSpec, call: Call) -> OpGraph:
    """Build the forward graph of one pass of `model`.

    The scenario's sizes have been checked: only families that generate prefill and decode.
    """
    module, function = LOWERINGS[model.family]
    lowering = getattr(importlib.import_module(f"roofsim.lower.{module}"), function)
    graph: OpGraph = lowering(model.completed().as_reals(), call)
    return graph
