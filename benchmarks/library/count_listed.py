"""Count parameters and FLOPs of models that the catalog lists layer by layer, by the libraries themselves, without a GPU.

Runs where torch, torchvision, transformers and diffusers are (not in roofsim's own environment):

    python benchmarks/library/count_listed.py > tests/lower/listed_reference.csv
    python benchmarks/library/count_listed.py gemma3-4b-vision      # one row

Models are built over fake CUDA tensors: shapes, types and storages, no values. `parameters` are those of the whole
model, FLOPs those of one sample, as `FlopCounterMode` counts them: `products` of linear layers and convolutions,
`attention` of attention kernels (whole score matrices). `part` says what of a model is counted: ``tower`` is the image
part of a vision-language model. Last run: torch 2.14.1, torchvision 0.29.1, transformers 5.23.0, diffusers 0.42.1.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

COLUMNS = ("model", "source", "part", "parameters", "products", "attention")
#: Of a case: what is counted of it, what builds the model, what calls it.
Case = tuple[str, str, Callable[[], Any], Callable[[Any], Any]]


def flash(query, key, value, *_mask, dropout_p=0.0, is_causal=False, scale=None, **_others):
    """Run the flash kernel: over fake tensors PyTorch would choose the unfused one."""
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    return attend(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


torch.nn.functional.scaled_dot_product_attention = flash
torch.cuda.get_device_capability = lambda *_args: (9, 0)
# Weights without values need no first ones, and some are drawn until they fit.
torch.nn.init.trunc_normal_ = lambda tensor, *_args, **_kwargs: tensor
PreTrainedModel.initialize_weights = lambda _self: None


def numbers(*shape: int) -> torch.Tensor:
    """Return numbers of a shape."""
    return torch.zeros(*shape, dtype=torch.bfloat16)


# -- vision-language models -----------------------------------------------------------------------------------------


def _gemma3(width: int, layers: int, heads: int, shared: int, head: int, inner: int) -> Any:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text = {
        "vocab_size": 262208, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": shared, "head_dim": head, "intermediate_size": inner,
    }  # fmt: skip
    vision = {
        "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
        "image_size": 896, "patch_size": 14, "vision_use_head": False,
    }  # fmt: skip
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=vision))


def _llama4(experts: int, every: int, *, normed: bool) -> Any:
    from transformers import Llama4Config, Llama4ForConditionalGeneration

    text = {
        "vocab_size": 202048, "num_local_experts": experts, "interleave_moe_layer_step": every, "use_qk_norm": normed,
    }  # fmt: skip
    vision = {
        "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34, "num_attention_heads": 16,
        "image_size": 336, "patch_size": 14, "vision_output_dim": 4096, "projector_input_dim": 4096,
        "projector_output_dim": 4096, "pixel_shuffle_ratio": 0.5,
    }  # fmt: skip
    return Llama4ForConditionalGeneration(Llama4Config(text_config=text, vision_config=vision))


def _llava(width: int, layers: int, heads: int, inner: int) -> Any:
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    text = {
        "model_type": "llama", "vocab_size": 32064, "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": inner,
    }  # fmt: skip
    return LlavaForConditionalGeneration(LlavaConfig(text_config=text, vision_feature_layer=-2))


def _features(side: int) -> Callable[[Any], Any]:
    return lambda model: model.get_image_features(pixel_values=numbers(1, 3, side, side))


def _llama4_features(model: Any) -> Any:
    seen = model.get_image_features(pixel_values=numbers(1, 3, 336, 336))
    hidden = seen if isinstance(seen, torch.Tensor) else seen.last_hidden_state
    return hidden if hidden.shape[-1] == 5120 else model.multi_modal_projector(hidden)


# -- diffusion transformers -----------------------------------------------------------------------------------------


def _wan(heads: int, inner: int, layers: int, side: tuple[int, int]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    from diffusers import WanTransformer3DModel

    def call(model: Any) -> Any:
        return model(numbers(1, 16, 21, *side), timestep=numbers(1), encoder_hidden_states=numbers(1, 512, 4096))

    return lambda: WanTransformer3DModel(num_attention_heads=heads, ffn_dim=inner, num_layers=layers), call


def _hunyuan_video() -> Any:
    from diffusers import HunyuanVideoTransformer3DModel

    return HunyuanVideoTransformer3DModel()


def _hunyuan_call(model: Any) -> Any:
    return model(
        numbers(1, 16, 33, 90, 160), timestep=numbers(1), encoder_hidden_states=numbers(1, 256, 4096),
        encoder_attention_mask=numbers(1, 256), pooled_projections=numbers(1, 768), guidance=numbers(1),
    )  # fmt: skip


def _cogvideox(heads: int, layers: int, *, rotary: bool) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    from diffusers import CogVideoXTransformer3DModel

    def build() -> Any:
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
        img_shapes=[[(1, 83, 83)]],
        encoder_hidden_states_mask=torch.ones(1, 256, dtype=torch.bool),
    )  # fmt: skip


CASES: dict[str, Case] = {
    "gemma3-4b-vision": ("transformers", "tower", lambda: _gemma3(2560, 34, 8, 4, 256, 10240), _features(896)),
    "gemma3-12b-vision": ("transformers", "tower", lambda: _gemma3(3840, 48, 16, 8, 256, 15360), _features(896)),
    "gemma3-27b-vision": ("transformers", "tower", lambda: _gemma3(5376, 62, 32, 16, 128, 21504), _features(896)),
    "llama4-scout-17b-16e-vision": ("transformers", "tower", lambda: _llama4(16, 1, normed=True), _llama4_features),
    "llama4-maverick-17b-128e-vision": ("transformers", "tower", lambda: _llama4(128, 2, normed=False), _llama4_features),
    "llava-1.5-7b": ("transformers", "tower", lambda: _llava(4096, 32, 32, 11008), _features(336)),
    "llava-1.5-13b": ("transformers", "tower", lambda: _llava(5120, 40, 40, 13824), _features(336)),
    "wan2.1-t2v-1.3b": ("diffusers", "", *_wan(12, 8960, 30, (60, 104))),
    "wan2.1-t2v-14b": ("diffusers", "", *_wan(40, 13824, 40, (90, 160))),
    "hunyuanvideo": ("diffusers", "", _hunyuan_video, _hunyuan_call),
    "cogvideox-2b": ("diffusers", "", *_cogvideox(30, 30, rotary=False)),
    "cogvideox-5b": ("diffusers", "", *_cogvideox(48, 42, rotary=True)),
    "qwen-image": ("diffusers", "", _qwen_image, _qwen_image_call),
}  # fmt: skip


def count(case: Case) -> dict[str, Any]:
    """Return the counts of one model."""
    _, _, build, call = case
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = build()
        model = model.eval() if hasattr(model, "eval") else model
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            call(model)
        flops = {str(op): number for op, number in counter.get_flop_counts().get("Global", {}).items()}
        attention = sum(number for op, number in flops.items() if "attention" in op)
        return {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "products": sum(flops.values()) - attention,
            "attention": attention,
        }


def main() -> None:
    """Write a row of each model, or of those that are named."""
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name in sys.argv[1:] or CASES:
        source, part, *_ = CASES[name]
        writer.writerow({"model": name, "source": source, "part": part} | count(CASES[name]))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
