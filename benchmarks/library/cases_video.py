"""Diffusion transformers of videos and images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from counting import Case, Samples, numbers, squares

if TYPE_CHECKING:
    from collections.abc import Callable


def _wan(heads: int, inner: int, layers: int, side: tuple[int, int]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    def build() -> Any:
        from diffusers import WanTransformer3DModel

        return WanTransformer3DModel(num_attention_heads=heads, ffn_dim=inner, num_layers=layers)

    def call(model: Any) -> Any:
        return model(numbers(1, 16, 21, *side), timestep=numbers(1), encoder_hidden_states=numbers(1, 512, 4096))

    return build, call


def _wan22() -> Any:
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(num_attention_heads=24, ffn_dim=14336, num_layers=30, in_channels=48, out_channels=48)


def _wan22_call(model: Any) -> Any:
    # A time for each token: 31 latent frames of 22 x 40 patches.
    return model(
        numbers(1, 48, 31, 44, 80), timestep=numbers(1, 31 * 22 * 40), encoder_hidden_states=numbers(1, 512, 4096)
    )


def _hunyuan_video() -> Any:
    from diffusers import HunyuanVideoTransformer3DModel

    return HunyuanVideoTransformer3DModel()


def _hunyuan_call(model: Any) -> Any:
    return model(
        numbers(1, 16, 33, 90, 160), timestep=numbers(1), encoder_hidden_states=numbers(1, 256, 4096),
        encoder_attention_mask=numbers(1, 256), pooled_projections=numbers(1, 768), guidance=numbers(1),
    )  # fmt: skip


def _cogvideox(heads: int, layers: int, *, rotary: bool) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    def build() -> Any:
        from diffusers import CogVideoXTransformer3DModel

        return CogVideoXTransformer3DModel(
            num_attention_heads=heads, num_layers=layers, use_rotary_positional_embeddings=rotary,
            sample_width=90, sample_height=60, sample_frames=49,
        )  # fmt: skip

    def call(model: Any) -> Any:
        turns = (numbers(17550, 64), numbers(17550, 64)) if rotary else None
        text = numbers(1, 226, 4096)
        return model(numbers(1, 13, 16, 60, 90), text, timestep=numbers(1), image_rotary_emb=turns)

    return build, call


def _qwen_image() -> Any:
    from diffusers import QwenImageTransformer2DModel

    return QwenImageTransformer2DModel()


def _qwen_image_call(model: Any) -> Any:
    return model(
        numbers(1, 83 * 83, 64), encoder_hidden_states=numbers(1, 256, 3584), timestep=numbers(1),
        img_shapes=[[(1, 83, 83)]] * Samples.count,
        encoder_hidden_states_mask=torch.ones(Samples.count, 256, dtype=torch.bool),
    )  # fmt: skip


CASES: dict[str, Case] = {
    "wan2.1-t2v-1.3b": ("diffusers", "", *_wan(12, 8960, 30, (60, 104))),
    "wan2.1-t2v-14b": ("diffusers", "", *_wan(40, 13824, 40, (90, 160))),
    "wan2.2-ti2v-5b": ("diffusers", "", _wan22, _wan22_call),
    "hunyuanvideo": ("diffusers", "", _hunyuan_video, _hunyuan_call),
    "cogvideox-2b": ("diffusers", "", *_cogvideox(30, 30, rotary=False)),
    "cogvideox-5b": ("diffusers", "", *_cogvideox(48, 42, rotary=True)),
    "qwen-image": ("diffusers", "", _qwen_image, _qwen_image_call),
}  # fmt: skip
#: The loss of models whose saved bytes are counted.
LOSSES = dict.fromkeys(CASES, squares)
