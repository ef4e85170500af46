"""Diffusion models of images: U-Nets and transformers, one denoising step each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from counting import Case, Samples, entering, numbers, wide_squares

if TYPE_CHECKING:
    from collections.abc import Callable


def _unet(**fields: Any) -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(sample_size=64, **fields)


def _unet_call(side: int, width: int, pooled: int | None = None) -> Callable[[Any], Any]:
    def call(model: Any) -> Any:
        more = {}
        if pooled is not None:
            more["added_cond_kwargs"] = {"text_embeds": numbers(1, pooled), "time_ids": numbers(1, 6)}
        return model(numbers(1, 4, side, side), _time(), numbers(1, 77, width), **more)

    return call


def _time() -> torch.Tensor:
    return entering(torch.zeros(Samples.count, dtype=torch.int64))


_SDXL = {
    "block_out_channels": (320, 640, 1280),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2, 10), "attention_head_dim": (5, 10, 20), "cross_attention_dim": 2048,
    "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip


def _dit() -> Any:
    from diffusers import DiTTransformer2DModel

    return DiTTransformer2DModel(
        num_attention_heads=16, attention_head_dim=72, num_layers=28, out_channels=8, sample_size=32
    )


def _dit_call(model: Any) -> Any:
    labels = entering(torch.zeros(Samples.count, dtype=torch.int64))
    return model(numbers(1, 4, 32, 32), timestep=_time(), class_labels=labels)


def _sd3(**fields: Any) -> Any:
    from diffusers import SD3Transformer2DModel

    return SD3Transformer2DModel(
        sample_size=128, patch_size=2, in_channels=16, attention_head_dim=64, joint_attention_dim=4096, pooled_projection_dim=2048,
        out_channels=16, **fields,
    )  # fmt: skip


def _sd3_call(text: int) -> Callable[[Any], Any]:
    def call(model: Any) -> Any:
        words, pooled = numbers(1, text, 4096), numbers(1, 2048)
        return model(numbers(1, 16, 128, 128), encoder_hidden_states=words, pooled_projections=pooled, timestep=_time())

    return call


def _flux(**fields: Any) -> Any:
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(**fields)


def _flux_call(channels: int, text: int, *, guided: bool) -> Callable[[Any], Any]:
    def call(model: Any) -> Any:
        return model(
            numbers(1, 64 * 64, channels), encoder_hidden_states=numbers(1, text, 4096), pooled_projections=numbers(1, 768),
            timestep=numbers(1), img_ids=entering(torch.zeros(64 * 64, 3)), txt_ids=entering(torch.zeros(text, 3)),
            guidance=numbers(1) if guided else None,
        )  # fmt: skip

    return call


CASES: dict[str, Case] = {
    "sd15-unet": ("diffusers", "", partial(_unet, cross_attention_dim=768), _unet_call(64, 768)),
    "sd21-unet": (
        "diffusers", "",
        partial(_unet, cross_attention_dim=1024, attention_head_dim=(5, 10, 20, 20), use_linear_projection=True),
        _unet_call(96, 1024),
    ),
    "sdxl-unet": ("diffusers", "", partial(_unet, **_SDXL), _unet_call(128, 2048, 1280)),
    "dit-xl2": ("diffusers", "", _dit, _dit_call),
    "sd3-medium": (
        "diffusers", "",
        partial(_sd3, num_layers=24, num_attention_heads=24, caption_projection_dim=1536, pos_embed_max_size=192),
        _sd3_call(154),
    ),
    "sd35-medium": (
        "diffusers", "",
        partial(
            _sd3, num_layers=24, num_attention_heads=24, caption_projection_dim=1536, pos_embed_max_size=384,
            qk_norm="rms_norm", dual_attention_layers=tuple(range(13)),
        ),
        _sd3_call(333),
    ),
    "sd35-large": (
        "diffusers", "",
        partial(
            _sd3, num_layers=38, num_attention_heads=38, caption_projection_dim=2432, pos_embed_max_size=192, qk_norm="rms_norm",
        ),
        _sd3_call(333),
    ),
    "flux-dev": ("diffusers", "", partial(_flux, guidance_embeds=True), _flux_call(64, 512, guided=True)),
    "flux-schnell": ("diffusers", "", _flux, _flux_call(64, 512, guided=False)),
    "flux-fill-dev": (
        "diffusers", "", partial(_flux, guidance_embeds=True, in_channels=384, out_channels=64),
        _flux_call(384, 512, guided=True),
    ),
}  # fmt: skip
#: The loss of models whose saved bytes are counted.
LOSSES = dict.fromkeys(CASES, wide_squares)
