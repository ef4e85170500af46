"""Count the parameters of the networks beside a language model: vision towers, and what projects their results.

The formulas are those of the classes in the transformers library; tests hold them to its own count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields


@dataclass(frozen=True)
class Parts:
    """The configurations of a wrapper: its own, that of its tower, the width and the MLP of its language model."""

    wrapper: Fields
    vision: Fields
    width: int
    intermediate: int


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    """Return the parameters of a linear layer."""
    return inputs * outputs + (outputs if bias else 0)


def _attention(width: int, bias: bool = True, out_bias: bool = True) -> int:
    return 3 * linear(width, width, bias) + linear(width, width, out_bias)


def _mlp(width: int, inner: int, bias: bool = True) -> int:
    return linear(width, inner, bias) + linear(inner, width, bias)


def _sides(c: Fields, key: str) -> tuple[int, int]:
    """Return a size in pixels along both axes, which files give as one number or two."""
    value = c.data.get(key)
    if isinstance(value, list) and len(value) == 2:
        first, second = c.wholes(key)
        if min(first, second) < 1:
            c.fail(key, f"expected sizes of at least 1; got {value}")
        return first, second
    side = c.whole(key)
    return side, side


def _patches(c: Fields) -> int:
    (high, wide), (tall, broad) = _sides(c, "image_size"), _sides(c, "patch_size")
    return (high // tall) * (wide // broad)


def _pixels(c: Fields, channels: str = "num_channels") -> int:
    tall, broad = _sides(c, "patch_size")
    return int(c.whole(channels, default=3) * tall * broad)


def _plain_layers(c: Fields) -> int:
    """Return layers with two norms, attention and an MLP, all with biases."""
    width, inner = c.whole("hidden_size"), c.whole("intermediate_size")
    return int(c.whole("num_hidden_layers") * (4 * width + _attention(width) + _mlp(width, inner)))


# -- towers ---------------------------------------------------------------------------------------------------------


def _siglip(c: Fields) -> int:
    width, inner = c.whole("hidden_size"), c.whole("intermediate_size")
    head = width + 3 * linear(width, width) + linear(width, width) + 2 * width + _mlp(width, inner)
    return _siglip_trunk(c) + (head if c.flag("vision_use_head", True) else 0)


def _siglip_trunk(c: Fields) -> int:
    width = c.whole("hidden_size")
    return int(linear(_pixels(c), width) + _patches(c) * width + _plain_layers(c) + 2 * width)


def _clip(c: Fields) -> int:
    width = c.whole("hidden_size")
    embedding = width + linear(_pixels(c), width, False) + (_patches(c) + 1) * width
    return int(embedding + 2 * width + _plain_layers(c) + 2 * width)


def _pixtral(c: Fields) -> int:
    width, inner = c.whole("hidden_size"), c.whole("intermediate_size")
    layer = 2 * width + _attention(width, False, False) + 3 * width * inner
    return int(linear(_pixels(c), width, False) + width + c.whole("num_hidden_layers") * layer)


def _llama4(c: Fields) -> int:
    width, inner = c.whole("hidden_size"), c.whole("intermediate_size")
    embedding = width + (_patches(c) + 1) * width + linear(_pixels(c), width, False) + 4 * width
    given, made = c.whole("projector_input_dim"), c.whole("projector_output_dim")
    return int(embedding + _plain_layers(c) + linear(inner, given, False) + linear(made, made, False))


def _qwen2_vl(c: Fields) -> int:
    width, merged = c.whole("embed_dim"), c.whole("embed_dim") * c.whole("spatial_merge_size") ** 2
    inner = int(width * c.number("mlp_ratio", 4.0))
    layer = 4 * width + _attention(width) + _mlp(width, inner)
    merger = 2 * width + linear(merged, merged) + linear(merged, c.whole("hidden_size"))
    return int(_video_patches(c, width, False) + c.whole("depth") * layer + merger)


def _qwen2_5_vl(c: Fields) -> int:
    width, inner = c.whole("hidden_size"), c.whole("intermediate_size")
    merged = width * c.whole("spatial_merge_size") ** 2
    layer = 2 * width + _attention(width) + 2 * linear(width, inner) + linear(inner, width)
    merger = width + linear(merged, merged) + linear(merged, c.whole("out_hidden_size"))
    return int(_video_patches(c, width, False) + c.whole("depth") * layer + merger)


def _qwen3_vl(c: Fields) -> int:
    width, inner, out = c.whole("hidden_size"), c.whole("intermediate_size"), c.whole("out_hidden_size")
    merged = width * c.whole("spatial_merge_size") ** 2
    layer = 4 * width + _attention(width) + _mlp(width, inner)
    merger = linear(merged, merged) + linear(merged, out)
    deep = len(c.wholes("deepstack_visual_indexes", [])) * (2 * merged + merger)
    positions = c.whole("num_position_embeddings") * width
    return int(_video_patches(c, width, True) + positions + c.whole("depth") * layer + 2 * width + merger + deep)


def _video_patches(c: Fields, width: int, bias: bool) -> int:
    channels = "in_channels" if c.has("in_channels") else "in_chans"
    return linear(_pixels(c, channels) * c.whole("temporal_patch_size", default=2), width, bias)


def _intern(c: Fields) -> int:
    width, inner = c.whole("hidden_size"), c.whole("intermediate_size")
    bias = c.flag("qkv_bias", c.flag("attention_bias", False))
    normed = c.flag("qk_normalization", c.flag("use_qk_norm", False))
    layer_norm = c.word("norm_type", "layer_norm") == "layer_norm"
    norms = 2 * (2 if layer_norm else 1) * width + (2 * width if normed else 0)
    layer = 2 * width + norms + _attention(width, bias) + _mlp(width, inner)
    embedding = width + linear(_pixels(c), width) + (_patches(c) + 1) * width
    embedding += width if c.flag("use_mask_token", False) else 0
    last = 0 if c.flag("use_mean_pooling", True) else 2 * width
    return int(embedding + c.whole("num_hidden_layers") * layer + last)


# -- projectors -----------------------------------------------------------------------------------------------------


def _two_layers(p: Parts) -> int:
    taken = p.wrapper.data.get("vision_feature_layer")
    count = len(taken) if isinstance(taken, list) else 1
    bias = p.wrapper.flag("multimodal_projector_bias", True)
    return linear(p.vision.whole("hidden_size") * count, p.width, bias) + linear(p.width, p.width, bias)


def _two_layers_and_newline(p: Parts) -> int:
    return _two_layers(p) + p.width


def _of_gemma3(p: Parts) -> int:
    width = p.vision.whole("hidden_size")
    return int(width * p.width + width)


def _of_mistral3(p: Parts) -> int:
    width, merged = p.vision.whole("hidden_size"), p.wrapper.whole("spatial_merge_size", default=2) ** 2
    bias = p.wrapper.flag("multimodal_projector_bias", False)
    return int(width + width * merged * width + linear(width, p.width, bias) + linear(p.width, p.width, bias))


def _of_llama4(p: Parts) -> int:
    return linear(p.vision.whole("vision_output_dim"), p.width, False)


def _of_paligemma(p: Parts) -> int:
    width: int = p.vision.whole("hidden_size")
    return linear(width, p.vision.whole("projection_dim", default=p.width))


def _of_idefics2(p: Parts) -> int:
    perceiver = p.wrapper.part("perceiver_config")
    width, inner = p.width, 4 * p.width
    heads, size = perceiver.whole("resampler_n_heads", default=16), perceiver.whole("resampler_head_dim", default=96)
    shared = perceiver.whole("num_key_value_heads", default=4)
    attention = 2 * width * heads * size + 2 * width * shared * size
    layer = 3 * width + attention + 3 * width * inner
    latents = perceiver.whole("resampler_n_latents", default=64) * width
    resampler = latents + perceiver.whole("resampler_depth", default=3) * layer + width
    entering = 2 * p.vision.whole("hidden_size") * p.intermediate + p.intermediate * width
    return int(resampler + entering)


def _of_idefics3(p: Parts) -> int:
    factor = p.wrapper.whole("scale_factor", default=2)
    return linear(int(p.vision.whole("hidden_size") * factor * factor), p.width, False)


def _of_intern(p: Parts) -> int:
    shrunk = p.wrapper.number("downsample_ratio", 0.5)
    if not 1e-2 < shrunk <= 1.0:
        p.wrapper.fail("downsample_ratio", f"expected a share up to 1; got {shrunk:g}")
    width: int = p.vision.whole("hidden_size")
    merged = round(width / shrunk**2)
    return 2 * merged + linear(merged, p.width) + linear(p.width, p.width)


def _none(p: Parts) -> int:
    del p
    return 0  # the tower's own merger writes the language model's width


#: model_type of a ``vision_config`` -> its parameters.
TOWERS: Final[dict[str, Callable[[Fields], int]]] = {
    "siglip_vision_model": _siglip,
    "clip_vision_model": _clip,
    "pixtral": _pixtral,
    "llama4_vision_model": _llama4,
    "qwen2_vl_vision": _qwen2_vl,
    "qwen2_5_vl_vision": _qwen2_5_vl,
    "qwen3_vl_vision": _qwen3_vl,
    "idefics2_vision": _siglip_trunk,
    "idefics3_vision": _siglip_trunk,
    "smolvlm_vision": _siglip_trunk,
    "internvl_vision": _intern,
    "intern_vit_6b": _intern,
}


@dataclass(frozen=True)
class Wrapper:
    """What a wrapping class takes where its file says nothing: the types of its parts; and the count of its projector."""

    text: str
    vision: str
    projector: Callable[[Parts], int]
    vision_defaults: tuple[tuple[str, Any], ...] = ()


#: model_type of a wrapper -> what it wraps.
WRAPPERS: Final = {
    "gemma3": Wrapper("gemma3_text", "siglip_vision_model", _of_gemma3),
    "llama4": Wrapper("llama4_text", "llama4_vision_model", _of_llama4),
    "mistral3": Wrapper("mistral", "pixtral", _of_mistral3),
    "llava": Wrapper("llama", "clip_vision_model", _two_layers),
    "llava_next": Wrapper("llama", "clip_vision_model", _two_layers_and_newline),
    "llava_onevision": Wrapper("qwen2", "siglip_vision_model", _two_layers_and_newline),
    "paligemma": Wrapper("gemma", "siglip_vision_model", _of_paligemma, (("vision_use_head", False),)),
    "idefics2": Wrapper("mistral", "idefics2_vision", _of_idefics2),
    "idefics3": Wrapper("llama", "idefics3_vision", _of_idefics3),
    "smolvlm": Wrapper("llama", "smolvlm_vision", _of_idefics3),
    "internvl": Wrapper("qwen2", "internvl_vision", _of_intern),
    "internvl_chat": Wrapper("qwen2", "intern_vit_6b", _of_intern),
    "qwen2_vl": Wrapper("qwen2_vl_text", "qwen2_vl_vision", _none),
    "qwen2_5_vl": Wrapper("qwen2_5_vl_text", "qwen2_5_vl_vision", _none),
    "qwen3_vl": Wrapper("qwen3_vl_text", "qwen3_vl_vision", _none),
    "qwen3_vl_moe": Wrapper("qwen3_vl_moe_text", "qwen3_vl_vision", _none),
    "qwen3_5": Wrapper("qwen3_5_text", "qwen3_vl_vision", _none),
    "qwen3_5_moe": Wrapper("qwen3_5_moe_text", "qwen3_vl_vision", _none),
    "phi4mm": Wrapper("phi3", "", _none),
    "phi4_multimodal": Wrapper("phi3", "", _none),
}
#: Types that files of the same towers carry as well -> the type of the class.
ALIASES: Final = {
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_vl_moe": "qwen3_vl_vision",
    "qwen3_5": "qwen3_vl_vision",
    "qwen3_5_moe": "qwen3_vl_vision",
    "qwen3_vl_moe_vision": "qwen3_vl_vision",
    "idefics2": "idefics2_vision",
    "idefics3": "idefics3_vision",
    "smolvlm": "smolvlm_vision",
    "llama4": "llama4_vision_model",
    "siglip": "siglip_vision_model",
    "clip": "clip_vision_model",
}
