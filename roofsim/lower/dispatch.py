"""Choose the lowering of a model's family; each module is imported when its family is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, cast

from roofsim.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import DType
    from roofsim.lower.call import Call
    from roofsim.lower.network import Network
    from roofsim.numeric import Real
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
    "retinanet": ("vision.retinanet", "lower_retinanet"),
    "diffusion-unet": ("diffusion.unet", "lower_diffusion_unet"),
    "diffusion-pipeline": ("diffusion.pipeline", "lower_denoiser"),
    "dit": ("diffusion.dit", "lower_dit"),
    "dit-pipeline": ("diffusion.pipeline", "lower_denoiser"),
    "mamba": ("language.mamba", "lower_mamba"),
    "dlrm": ("recommender.dlrm", "lower_dlrm"),
    "captured": ("captured.program", "lower_captured"),
    "captured-images": ("captured.program", "lower_captured"),
    "captured-samples": ("captured.program", "lower_captured"),
    "layers": ("listed.net", "lower_layers"),
}


#: The same of models of several networks: the function that builds all of them.
NETWORKS: Final[dict[str, tuple[str, str]]] = {
    "diffusion-pipeline": ("diffusion.pipeline", "lower_networks"),
    "dit-pipeline": ("diffusion.pipeline", "lower_networks"),
}


def lower(model: ModelSpec, call: Call) -> OpGraph:
    """Build the forward graph of one pass of `model`.

    The scenario's sizes have been checked: only families that generate prefill and decode.
    """
    whole = model.completed().as_reals()
    own = LOWERINGS.get(model.family)
    built = _by_plugin(model, lambda family: family.lower(whole, call)) if own is None else _imported(own)(whole, call)
    return cast("OpGraph", built)


def lower_networks(model: ModelSpec, call: Call, wide: DType, steps: Real) -> list[Network]:
    """Build the networks of a model of several, in the order in which they run.

    `wide` is the type that those compute in which need a wider one; `steps` is how often a denoiser runs.
    """
    whole = model.completed().as_reals()
    own = NETWORKS.get(model.family)
    if own is None:
        return cast("list[Network]", _by_plugin(model, lambda family: family.lower_networks(whole, call, wide, steps)))
    return cast("list[Network]", _imported(own)(whole, call, wide, steps))


def is_plugged(model: ModelSpec) -> bool:
    """Tell whether the code of a plug-in builds a model."""
    return LOWERINGS.get(model.family) is None and NETWORKS.get(model.family) is None


def _by_plugin(model: ModelSpec, build: Callable[[Any], Any]) -> Any:
    """Return what a plug-in builds of a model of its family.

    Raises
    ------
    PluginError
        When its code fails; names the plug-in.
    """
    from roofsim.spec.model.plugged import plugged_family

    added = plugged_family(model.family, LOWERINGS)
    assert added is not None
    family, plugin = added
    try:
        return build(family)
    except SpecError:
        raise
    except Exception as error:  # whatever the code of others raises
        raise plugin.refusal(f"cannot build {model.name}: {type(error).__name__}: {str(error)[:200]}") from error


def _imported(place: tuple[str, str]) -> Callable[..., Any]:
    module, function = place
    imported: Callable[..., Any] = vars(importlib.import_module(f"roofsim.lower.{module}"))[function]
    return imported
