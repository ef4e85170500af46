"""Vision-language models: what each tower of images is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from counting import Case, flash, numbers, tower
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable


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


def _qwen2_vl(width: int, layers: int, heads: int, shared: int, inner: int, vocabulary: int, *, tied: bool) -> Any:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    text = {
        "vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": shared, "intermediate_size": inner, "tie_word_embeddings": tied,
    }  # fmt: skip
    config = Qwen2VLConfig(text_config=text, vision_config={"hidden_size": width}, tie_word_embeddings=tied)
    return Qwen2VLForConditionalGeneration(config)


def _packed(_module, query, key, value, _mask=None, *, max_length_q, **_others):
    """Attend within each image (or window) of a row of them, as FlashAttention's kernel for packed rows does."""
    parts = (part.unflatten(2, (-1, max_length_q)).squeeze(0).transpose(0, 1) for part in (query, key, value))
    return flash(*parts).transpose(1, 2).flatten(0, 1).unsqueeze(0), None


def _rows(tower: Any) -> Any:
    """Let a tower take its images as one row of patches, whose lengths the library reads as values otherwise."""
    ALL_ATTENTION_FUNCTIONS["flash_attention_2"] = _packed
    tower.config._attn_implementation = "flash_attention_2"
    return tower


def _turns(tokens: int, size: int, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what rotary positions multiply by."""
    return torch.zeros(tokens, size, **options), torch.zeros(tokens, size, **options)


def _qwen2_features(model: Any) -> Any:
    # Lengths of images are read as values: the blocks are called one by one, with images of 48 x 48 patches.
    visual = _rows(model.model.visual)
    hidden = visual.patch_embed(numbers(1, 2304, 1176))
    turns = _turns(len(hidden), 80, dtype=torch.float32)
    for block in visual.blocks:
        hidden = block(hidden, cu_seqlens=None, max_seqlen=2304, position_embeddings=turns)
    return visual.merger(hidden)


def _qwen25_vl() -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    text = {
        "vocab_size": 152064, "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "tie_word_embeddings": False,
    }  # fmt: skip
    vision = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False)
    return Qwen2_5_VLForConditionalGeneration(config)


def _qwen25_features(model: Any) -> Any:
    # As `_qwen2_features`; all but four blocks see windows of 8 x 8 patches, which lie side by side meanwhile.
    visual = _rows(model.model.visual)
    hidden = visual.patch_embed(numbers(1, 2304, 1176))
    tokens = len(hidden)
    order = torch.zeros(tokens // 4, dtype=torch.int64)
    hidden = visual.permute_input_for_window_attn(hidden, order, seq_len=tokens)
    turns = _turns(tokens, 80, dtype=torch.float32)
    for number, block in enumerate(visual.blocks):
        length = 2304 if number in visual.fullatt_block_indexes else 64
        hidden = block(hidden, cu_seqlens=None, max_seqlen=length, position_embeddings=turns)
    return visual.merger(hidden)[order, :]


def _qwen3_vl() -> Any:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    text = {
        "vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
    }  # fmt: skip
    config = Qwen3VLConfig(text_config=text, vision_config={"out_hidden_size": 4096}, tie_word_embeddings=False)
    return Qwen3VLForConditionalGeneration(config)


def _qwen3_features(model: Any) -> Any:
    # As `_qwen2_features`; 48 x 48 patches take each learned position once.
    visual = _rows(model.model.visual)
    hidden = visual.patch_embed(numbers(1, 2304, 1536))
    hidden = (hidden.view(-1, 2304, 1152) + visual.pos_embed.weight).view(-1, 1152)
    deep, turns = [], _turns(len(hidden), 72, dtype=torch.float32)
    for number, block in enumerate(visual.blocks):
        hidden = block(hidden, cu_seqlens=None, max_seqlen=2304, position_embeddings=turns)
        if number in visual.deepstack_visual_indexes:
            deep.append(visual.deepstack_merger_list[len(deep)](hidden))
    return visual.merger(hidden) + sum(deep)


def _internvl(width: int, layers: int, heads: int, shared: int, inner: int) -> Any:
    from transformers import InternVLConfig, InternVLForConditionalGeneration

    text = {
        "model_type": "qwen2", "vocab_size": 151674, "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": shared, "intermediate_size": inner,
    }  # fmt: skip
    vision = {
        "attention_bias": True,
        "use_qk_norm": False,
        "norm_type": "layer_norm",
        "image_size": 448,
        "patch_size": 14,
    }
    config = InternVLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False)
    return InternVLForConditionalGeneration(config)


def _siglip(side: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
    return sizes | {"image_size": side, "patch_size": 14, "hidden_act": "gelu_pytorch_tanh"} | more


def _paligemma() -> Any:
    from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration

    text = {
        "model_type": "gemma", "vocab_size": 257216, "hidden_size": 2048, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384,
    }  # fmt: skip
    vision = _siglip(224, model_type="siglip_vision_model", vision_use_head=False, projection_dim=2048)
    config = PaliGemmaConfig(text_config=text, vision_config=vision, projection_dim=2048)
    return PaliGemmaForConditionalGeneration(config)


def _idefics3(kind: str, side: int, scale: int, text: dict[str, Any]) -> Any:
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        text_config=text | {"model_type": "llama"},
        vision_config=_siglip(side),
        scale_factor=scale,
        tie_word_embeddings=False,
    )
    return getattr(transformers, f"{kind}ForConditionalGeneration")(config)


def _idefics3_features(side: int) -> Callable[[Any], Any]:
    def call(model: Any) -> Any:
        tower, connector = model.model.vision_model, model.model.connector
        embedded = tower.embeddings.patch_embedding(numbers(1, 3, side, side)).flatten(2).transpose(1, 2)
        # Positions are picked by values: what is added is the whole table.
        embedded = embedded + tower.embeddings.position_embedding.weight
        hidden = tower.encoder(inputs_embeds=embedded).last_hidden_state
        return connector(tower.post_layernorm(hidden))

    return call


def _idefics2() -> Any:
    from transformers import Idefics2Config, Idefics2ForConditionalGeneration

    text = {
        "model_type": "mistral", "vocab_size": 32003, "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    }  # fmt: skip
    config = Idefics2Config(text_config=text, vision_config=_siglip(980), tie_word_embeddings=False)
    return Idefics2ForConditionalGeneration(config)


def _idefics2_features(model: Any) -> Any:
    # As `_idefics3_features`; all patches are seen, so that there is no mask.
    tower, connector = model.model.vision_model, model.model.connector
    embedded = tower.embeddings.patch_embedding(numbers(1, 3, 980, 980)).flatten(2).transpose(1, 2)
    hidden = tower.encoder(inputs_embeds=embedded + tower.embeddings.position_embedding.weight).last_hidden_state
    context = connector.modality_projection(tower.post_layernorm(hidden))
    resampler = connector.perceiver_resampler
    latents = resampler.latents.unsqueeze(0).expand(len(context), *resampler.latents.shape)
    latents = latents if torch.is_grad_enabled() else latents.detach()
    for layer in resampler.layers:
        latents = layer(latents, context, attention_mask=None, position_ids=None)
    return resampler.norm(latents)


def _mistral3() -> Any:
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    text = {
        "model_type": "mistral", "vocab_size": 131072, "hidden_size": 5120, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768,
    }  # fmt: skip
    vision = {
        "model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 1540, "patch_size": 14, "hidden_act": "silu",
    }  # fmt: skip
    config = Mistral3Config(text_config=text, vision_config=vision, tie_word_embeddings=False)
    return Mistral3ForConditionalGeneration(config)


def _pixtral() -> Any:
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    text = {
        "model_type": "mistral", "vocab_size": 131072, "hidden_size": 5120, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
    }  # fmt: skip
    vision = {
        "model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 1024, "patch_size": 16, "hidden_act": "silu",
    }  # fmt: skip
    config = LlavaConfig(
        text_config=text, vision_config=vision, vision_feature_layer=-1, vision_feature_select_strategy="full",
        tie_word_embeddings=False,
    )  # fmt: skip
    return LlavaForConditionalGeneration(config)


def _pixtral_features(side: int) -> Callable[[Any], Any]:
    def call(model: Any) -> Any:
        # What the library cuts into images at the end is read as values: tower and projector are called one by one.
        tower, project = _rows(model.model.vision_tower), model.model.multi_modal_projector
        images = numbers(1, 3, side, side)
        sizes = [(side, side)] * len(images)
        seen = tower(images, image_sizes=sizes).last_hidden_state.squeeze(0)
        return project(seen, sizes) if hasattr(project, "patch_merger") else project(seen)

    return call


def _features(side: int) -> Callable[[Any], Any]:
    return lambda model: model.get_image_features(pixel_values=numbers(1, 3, side, side))


def _llama4_features(model: Any) -> Any:
    seen = model.get_image_features(pixel_values=numbers(1, 3, 336, 336))
    hidden = seen if isinstance(seen, torch.Tensor) else seen.last_hidden_state
    return hidden if hidden.shape[-1] == 5120 else model.multi_modal_projector(hidden)


CASES: dict[str, Case] = {
    "gemma3-4b-vision": ("transformers", "tower", lambda: _gemma3(2560, 34, 8, 4, 256, 10240), _features(896)),
    "gemma3-12b-vision": ("transformers", "tower", lambda: _gemma3(3840, 48, 16, 8, 256, 15360), _features(896)),
    "gemma3-27b-vision": ("transformers", "tower", lambda: _gemma3(5376, 62, 32, 16, 128, 21504), _features(896)),
    "llama4-scout-17b-16e-vision": ("transformers", "tower", lambda: _llama4(16, 1, normed=True), _llama4_features),
    "llama4-maverick-17b-128e-vision": ("transformers", "tower", lambda: _llama4(128, 2, normed=False), _llama4_features),
    "llava-1.5-7b": ("transformers", "tower", lambda: _llava(4096, 32, 32, 11008), _features(336)),
    "llava-1.5-13b": ("transformers", "tower", lambda: _llava(5120, 40, 40, 13824), _features(336)),
    "qwen2-vl-2b-vision": (
        "transformers", "tower", lambda: _qwen2_vl(1536, 28, 12, 2, 8960, 151936, tied=True), _qwen2_features,
    ),
    "qwen2-vl-7b-vision": (
        "transformers", "tower", lambda: _qwen2_vl(3584, 28, 28, 4, 18944, 152064, tied=False), _qwen2_features,
    ),
    "qwen3-vl-8b-vision": ("transformers", "tower", _qwen3_vl, _qwen3_features),
    "internvl3-8b-vision": ("transformers", "tower", lambda: _internvl(3584, 28, 28, 4, 18944), _features(448)),
    "paligemma-3b-vision": ("transformers", "tower", _paligemma, _features(224)),
    "smolvlm-2b-vision": (
        "transformers", "tower", lambda: _idefics3("SmolVLM", 378, 3, {
            "vocab_size": 49155, "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
            "num_key_value_heads": 32, "intermediate_size": 8192,
        }), _idefics3_features(378),
    ),
    "idefics3-8b-vision": (
        "transformers", "tower", lambda: _idefics3("Idefics3", 364, 2, {
            "vocab_size": 128259, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336,
        }), _idefics3_features(364),
    ),
    "idefics2-8b-vision": ("transformers", "tower", _idefics2, _idefics2_features),
    "qwen2.5-vl-7b": ("transformers", "tower", _qwen25_vl, _qwen25_features),
    "pixtral-12b": ("transformers", "tower", _pixtral, _pixtral_features(1024)),
    "mistral-small-3.1-24b-vision": ("transformers", "tower", _mistral3, _pixtral_features(1540)),
}  # fmt: skip
#: What is saved is that of the tower, whose result is summed.
LOSSES = dict.fromkeys(CASES, tower)
