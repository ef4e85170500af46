"""Count parameters and FLOPs of models that the catalog lists layer by layer, by the libraries themselves, without a GPU.

Runs where torch and the library of the row are: torchvision, timm, transformers, diffusers or ultralytics (not in roofsim's own
environment):

    python benchmarks/library/count_listed.py > tests/lower/listed_reference.csv
    python benchmarks/library/count_listed.py gemma3-4b-vision      # one row

Models are built over fake CUDA tensors: shapes, types and storages, no values. `parameters` are those of the whole
model, FLOPs those of one sample, as `FlopCounterMode` counts them: `products` of linear layers and convolutions,
`attention` of attention kernels (whole score matrices). `part` says what of a model is counted: ``tower`` is the image
part of a vision-language model; of ``all``, attention runs as products and is counted with them. `saved` are the bytes
that autograd keeps of a training step of two samples in bf16 (one by itself needs fewer copies): distinct storages,
parameters, buffers and inputs apart; `loss` says whether that of training is among them (it is not where targets are found
on the host). `size` are the tokens of a sample where it is not the model's usual size. Last run: torch 2.14.1 (Gemma 3n: 2.13.0),
torchvision 0.29.1, transformers 5.23.0, diffusers 0.42.1, ultralytics 8.4.190, timm 1.0.31.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

COLUMNS = ("model", "source", "part", "parameters", "products", "attention", "loss", "saved", "size")
#: Of a case: what is counted of it, what builds the model, what calls it.
Case = tuple[str, str, Callable[[], Any], Callable[[Any], Any]]


#: Where fake tensors lie; a build for the CPU, whose flash kernel has the same results, knows no other device.
DEVICE = "cuda" if torch.backends.cuda.is_built() else "cpu"


def flash(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_others):
    """Run the flash kernel: over fake tensors PyTorch would choose the unfused one. With a bias of its own, the efficient one."""
    if attn_mask is not None and attn_mask.requires_grad:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        return attend(query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0]
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    return attend(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


torch.nn.functional.scaled_dot_product_attention = flash
torch.cuda.get_device_capability = lambda *_args: (9, 0)
# Weights without values need no first ones, and some are drawn until they fit.
torch.nn.init.trunc_normal_ = lambda tensor, *_args, **_kwargs: tensor
PreTrainedModel.initialize_weights = lambda _self: None


class Samples:
    """How many samples a call has, and what entered it."""

    count = 1
    entered: ClassVar[list[torch.Tensor]] = []


def entering(given: torch.Tensor) -> torch.Tensor:
    """Note what enters a model, which autograd keeps for nothing."""
    Samples.entered.append(given)
    return given


def numbers(*shape: int) -> torch.Tensor:
    """Return numbers of a shape; a first 1 stands for the samples."""
    first = Samples.count if shape[0] == 1 else shape[0]
    return entering(torch.zeros(first, *shape[1:], dtype=torch.bfloat16))


def ids(length: int) -> torch.Tensor:
    """Return token ids."""
    return entering(torch.zeros(Samples.count, length, dtype=torch.int64))


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


def _qwen2_vl(width: int, layers: int, heads: int, shared: int, inner: int, vocabulary: int, *, tied: bool) -> Any:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    text = {
        "vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": shared, "intermediate_size": inner, "tie_word_embeddings": tied,
    }  # fmt: skip
    config = Qwen2VLConfig(text_config=text, vision_config={"hidden_size": width}, tie_word_embeddings=tied)
    return Qwen2VLForConditionalGeneration(config)


def _qwen2_features(model: Any) -> Any:
    # Lengths of images are read as values: the layers are called one by one, with one image of 48 x 48 patches.
    visual = model.model.visual
    hidden = visual.patch_embed(numbers(2304, 1176))
    for block in visual.blocks:
        heads = block.attn.qkv(block.norm1(hidden)).view(1, 2304, 3, 16, 80).permute(2, 0, 3, 1, 4)
        hidden = hidden + block.attn.proj(flash(*heads.unbind()).transpose(1, 2).reshape(2304, 1280))
        hidden = hidden + block.mlp(block.norm2(hidden))
    return visual.merger(hidden)


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
    visual = model.model.visual
    hidden, deep = visual.patch_embed(numbers(2304, 1536)) + visual.pos_embed.weight, []
    for number, block in enumerate(visual.blocks):
        heads = block.attn.qkv(block.norm1(hidden)).view(1, 2304, 3, 16, 72).permute(2, 0, 3, 1, 4)
        hidden = hidden + block.attn.proj(flash(*heads.unbind()).transpose(1, 2).reshape(2304, 1152))
        hidden = hidden + block.mlp(block.norm2(hidden))
        if number in visual.deepstack_visual_indexes:
            deep.append(visual.deepstack_merger_list[len(deep)](hidden))
    return visual.merger(hidden), deep


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
    latents = resampler.latents.detach().clone().unsqueeze(0)
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


def _mistral3_features(model: Any) -> Any:
    side = 1540 // 14
    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    embedded = tower.ln_pre(tower.patch_conv(numbers(1, 3, 1540, 1540)).flatten(2).transpose(1, 2))
    turned = (torch.zeros(1, side * side, 64, dtype=torch.bfloat16),) * 2
    hidden = tower.transformer(embedded, attention_mask=None, position_embeddings=turned).last_hidden_state
    merged = torch.zeros(1, side * side // 4, 4096, dtype=torch.bfloat16)  # unfolded, which moves numbers alone
    hidden = projector.patch_merger.merging_layer(merged + 0.0 * projector.norm(hidden).sum())
    return projector.linear_2(projector.act(projector.linear_1(hidden)))


def _features(side: int) -> Callable[[Any], Any]:
    return lambda model: model.get_image_features(pixel_values=numbers(1, 3, side, side))


def _llama4_features(model: Any) -> Any:
    seen = model.get_image_features(pixel_values=numbers(1, 3, 336, 336))
    hidden = seen if isinstance(seen, torch.Tensor) else seen.last_hidden_state
    return hidden if hidden.shape[-1] == 5120 else model.multi_modal_projector(hidden)


# -- diffusion transformers -----------------------------------------------------------------------------------------


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


# -- images ---------------------------------------------------------------------------------------------------------


def _yolo(name: str) -> Any:
    from ultralytics.nn import tasks

    with unset_fake_temporarily(), torch.device("cpu"):
        torch.set_default_dtype(torch.float32)
        return tasks.DetectionModel(f"{name}.yaml", verbose=False)


def _yolo_call(model: Any) -> Any:
    """Run with values: strides and anchors follow from them; in training, which has no anchors, without."""
    if model.training:
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        model._apply(
            lambda held: torch.zeros(held.shape, dtype=torch.bfloat16 if held.is_floating_point() else held.dtype)
        )
        return model(numbers(1, 3, 640, 640))
    with unset_fake_temporarily(), torch.device("cpu"):
        head = model.model[-1]
        if head.end2end:  # one object a box: the other heads are of training alone
            head.fuse()
        return model(torch.zeros(1, 3, 640, 640))


def _one_image(*shape: int) -> Callable[[Any], Any]:
    return lambda model: model(numbers(1, *shape))


def _rcnn(name: str) -> Any:
    from torchvision.models import detection, resnet50
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.misc import FrozenBatchNorm2d

    # As with weights of ImageNet: norms are frozen.
    return getattr(detection, name)(_resnet_fpn_extractor(resnet50(norm_layer=FrozenBatchNorm2d), 3), 91)


def _rcnn_call(model: Any) -> Any:
    """Run the networks one by one: what chooses boxes between them needs values. Training samples 512 boxes, 128 with masks."""
    from torchvision.ops import roi_align

    features = list(model.backbone(numbers(1, 3, 800, 1088)).values())
    made = [model.rpn.head(features)]
    heads, boxes, masks = model.roi_heads, 1000, 100
    if model.training:
        boxes, masks = 512 * Samples.count, 128 * Samples.count
    made.append(heads.box_predictor(heads.box_head(roi_align(features[0], numbers(boxes, 5), 7))))
    if heads.has_mask():
        made.append(heads.mask_predictor(heads.mask_head(roi_align(features[0], numbers(masks, 5), 14))))
    return made


def _detr() -> Any:
    from transformers import DetrConfig, DetrForObjectDetection

    return DetrForObjectDetection(DetrConfig(use_pretrained_backbone=False, num_labels=91))


def _clip(patch: int, width: int, layers: int, heads: int, text: int) -> Any:
    from transformers import CLIPConfig, CLIPModel

    vision = {
        "patch_size": patch, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }  # fmt: skip
    words = {"hidden_size": text, "num_attention_heads": text // 64, "intermediate_size": 4 * text, "eos_token_id": 2}
    return CLIPModel(CLIPConfig(text_config=words, vision_config=vision, projection_dim=text))


def _clip_call(model: Any) -> Any:
    return model(input_ids=ids(77), pixel_values=numbers(1, 3, 224, 224))


def _torchvision(name: str) -> Any:
    from torchvision import models

    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return getattr(models, name)(**more)


def _conformer() -> Any:
    from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerForCTC

    config = Wav2Vec2ConformerConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, hidden_act="swish",
        feat_extract_norm="layer", conv_bias=True, position_embeddings_type="rotary", vocab_size=32, layerdrop=0.0,
    )  # fmt: skip
    return Wav2Vec2ConformerForCTC(config)


def _timm(name: str) -> Any:
    from timm import create_model
    from timm.models import metaformer, vision_transformer

    # Rates of dropped paths are 0, and would be read as values.
    metaformer.calculate_drop_path_rates = lambda _rate, depths, **_others: [[0.0] * depth for depth in depths]
    vision_transformer.calculate_drop_path_rates = lambda _rate, depth, **_others: [0.0] * depth
    return create_model(name, num_classes=1000)


def _maxvit() -> Any:
    model = _torchvision("maxvit_t")
    for part in model.modules():
        if hasattr(part, "relative_position_bias_table"):  # made in fp32, whatever the rest is in
            shape = part.relative_position_bias_table.shape
            part.relative_position_bias_table = torch.nn.Parameter(torch.zeros(shape))
    return model


def _sam(width: int, layers: int, heads: int) -> Any:
    from transformers import SamConfig, SamModel, SamVisionConfig

    whole = [layers // 4 * place - 1 for place in (1, 2, 3, 4)]
    vision = SamVisionConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        mlp_dim=4 * width,
        global_attn_indexes=whole,
    )
    return SamModel(SamConfig(vision_config=vision))


def _sam_call(model: Any) -> Any:
    """Run encoder and decoder by themselves: what prompts become needs values."""
    seen = model.vision_encoder(numbers(1, 3, 1024, 1024))
    maps = (numbers(1, 256, 64, 64) for _ in range(3))
    return seen, model.mask_decoder(next(maps), next(maps), numbers(1, 1, 2, 256), next(maps), multimask_output=True)


class _Transducer(torch.nn.Module):
    """MLPerf's RNN-T: networks of labels and of frames, whose sums of all pairs a joint network reads."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.labels = torch.nn.Embedding(1023, 512), torch.nn.LSTM(512, 512, 2, batch_first=True)
        self.frames = torch.nn.LSTM(240, 1024, 2, batch_first=True)
        self.stacked = torch.nn.LSTM(2048, 1024, 3, batch_first=True)
        self.of_labels, self.of_frames = torch.nn.Linear(512, 512), torch.nn.Linear(1024, 512)
        self.joint = torch.nn.Linear(512, 1024)

    def forward(self, frames: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen = self.frames(frames)[0]
        seen = self.stacked(seen.reshape(len(seen), -1, 2048))[0]
        said = self.labels(self.table(labels))[0]
        return self.joint(torch.relu(self.of_frames(seen).unsqueeze(2) + self.of_labels(said).unsqueeze(1)))


def _parakeet(layers: int, kernel: int) -> Any:
    from transformers import ParakeetCTCConfig, ParakeetEncoderConfig, ParakeetForCTC

    encoder = ParakeetEncoderConfig(num_hidden_layers=layers, conv_kernel_size=kernel, scale_input=False)
    return ParakeetForCTC(ParakeetCTCConfig(encoder_config=encoder.to_dict()))


def _parakeet_tdt() -> Any:
    from transformers import ParakeetForTDT, ParakeetTDTConfig

    config = ParakeetTDTConfig()
    config.encoder_config.num_mel_bins = 128
    config.encoder_config.scale_input = False
    return ParakeetForTDT(config)


def _parakeet_tdt_call(model: Any) -> Any:
    """Join all pairs, as training does: by itself the class joins one step and one label."""
    seen = model.encoder_projector(model.encoder(numbers(1, 1600, 128)).last_hidden_state)
    joint = model.joint
    return joint.head(joint.activation(seen.unsqueeze(2) + model.decoder(ids(101)).unsqueeze(1)))


def _gemma3n(layers: int, inner: int, shared: int) -> Any:
    from transformers import Gemma3nForCausalLM, Gemma3nTextConfig

    sizes = {"num_hidden_layers": layers, "intermediate_size": inner, "num_kv_shared_layers": shared}
    return Gemma3nForCausalLM(Gemma3nTextConfig(**sizes))


def _tokens(model: Any) -> Any:
    # Keys and values as they are, for all heads that share them, as on a GPU.
    from transformers.integrations import sdpa_attention

    sdpa_attention.use_gqa_in_sdpa = lambda *_args, **_kwargs: True
    return model(input_ids=ids(SIZES["gemma-3n-e2b"]), use_cache=False)


#: Tokens of a sample of models that are not counted at their usual size: no window hides any.
SIZES: dict[str, int] = {"gemma-3n-e2b": 256, "gemma-3n-e4b": 256}
CASES: dict[str, Case] = {
    "gemma-3n-e2b": ("transformers", "", partial(_gemma3n, 30, 8192, 10), _tokens),
    "gemma-3n-e4b": ("transformers", "", partial(_gemma3n, 35, 16384, 15), _tokens),
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
    "mistral-small-3.1-24b-vision": ("transformers", "tower", _mistral3, _mistral3_features),
    "wan2.1-t2v-1.3b": ("diffusers", "", *_wan(12, 8960, 30, (60, 104))),
    "wan2.1-t2v-14b": ("diffusers", "", *_wan(40, 13824, 40, (90, 160))),
    "wan2.2-ti2v-5b": ("diffusers", "", _wan22, _wan22_call),
    "hunyuanvideo": ("diffusers", "", _hunyuan_video, _hunyuan_call),
    "cogvideox-2b": ("diffusers", "", *_cogvideox(30, 30, rotary=False)),
    "cogvideox-5b": ("diffusers", "", *_cogvideox(48, 42, rotary=True)),
    "clip-vit-base-patch32": ("transformers", "", partial(_clip, 32, 768, 12, 12, 512), _clip_call),
    "clip-vit-base-patch16": ("transformers", "", partial(_clip, 16, 768, 12, 12, 512), _clip_call),
    "clip-vit-large-patch14": ("transformers", "", partial(_clip, 14, 1024, 24, 16, 768), _clip_call),
    "detr-resnet-50": ("transformers", "", _detr, _one_image(3, 800, 1066)),
    **{
        name: ("torchvision", "", partial(_torchvision, name.replace(".", "_")), _one_image(3, 224, 224))
        for name in ("alexnet", "squeezenet1.1", "googlenet", "shufflenet_v2_x1_0")
    },
    "faster-rcnn-resnet50-fpn": ("torchvision", "", partial(_rcnn, "FasterRCNN"), _rcnn_call),
    "mask-rcnn-resnet50-fpn": ("torchvision", "", partial(_rcnn, "MaskRCNN"), _rcnn_call),
    **{
        name: ("ultralytics", "all", partial(_yolo, name), _yolo_call)
        for name in [
            f"yolo{version}{size}"
            for version, sizes in (("v8", "nsmlx"), ("v9", "tsmc"), ("v10", "nsmblx"), ("11", "nsmlx"))
            for size in sizes
        ]
    },
    "maxvit_t": ("torchvision", "all", _maxvit, _one_image(3, 224, 224)),
    "sam-vit-base": ("transformers", "", partial(_sam, 768, 12, 12), _sam_call),
    "sam-vit-large": ("transformers", "", partial(_sam, 1024, 24, 16), _sam_call),
    "sam-vit-huge": ("transformers", "", partial(_sam, 1280, 32, 16), _sam_call),
    "parakeet-ctc-0.6b": ("transformers", "", partial(_parakeet, 24, 9), lambda model: model(numbers(1, 1600, 80))),
    "parakeet-ctc-1.1b": ("transformers", "", partial(_parakeet, 42, 5), lambda model: model(numbers(1, 1600, 80))),
    "parakeet-tdt-0.6b-v3": ("transformers", "", _parakeet_tdt, _parakeet_tdt_call),
    "rnnt": ("torch", "all", _Transducer, lambda model: model(numbers(1, 500, 240), ids(129))),
    "qwen-image": ("diffusers", "", _qwen_image, _qwen_image_call),
    "wav2vec2-conformer-rope-large": ("transformers", "", _conformer, lambda model: model(numbers(1, 160000))),
    **{
        f"vit-{size}-patch14-dinov2": (
            "timm", "", partial(_timm, f"vit_{size}_patch14_dinov2"), _one_image(3, 518, 518),
        )
        for size in ("small", "base", "large")
    },
    "gmlp-s16": ("timm", "", partial(_timm, "gmlp_s16_224"), _one_image(3, 224, 224)),
    "resmlp-12": ("timm", "", partial(_timm, "resmlp_12_224"), _one_image(3, 224, 224)),
    "poolformer-s12": ("timm", "", partial(_timm, "poolformer_s12"), _one_image(3, 224, 224)),
    "convmixer-768-32": ("timm", "", partial(_timm, "convmixer_768_32"), _one_image(3, 224, 224)),
}  # fmt: skip


def _first(out: Any) -> torch.Tensor:
    return out if isinstance(out, torch.Tensor) else out[0]


def _squares(out: Any) -> torch.Tensor:
    made = _first(out)
    return functional.mse_loss(made, entering(torch.zeros_like(made)))


def _classes(out: Any) -> torch.Tensor:
    rows = _first(out).flatten(0, -2)
    return functional.cross_entropy(rows, entering(torch.zeros(len(rows), dtype=torch.int64)))


def _both_ways(out: Any) -> torch.Tensor:
    return _classes([out.logits_per_image]) + _classes([out.logits_per_text])


def _none(out: Any) -> Any:
    """Take no loss: what matches boxes with objects needs values."""
    return out


#: The loss of models whose saved bytes are counted.
LOSSES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (
            "wan2.1-t2v-1.3b",
            "wan2.1-t2v-14b",
            "wan2.2-ti2v-5b",
            "hunyuanvideo",
            "cogvideox-2b",
            "cogvideox-5b",
            "qwen-image",
        ),
        _squares,
    ),
    **dict.fromkeys(
        (
            "alexnet",
            "squeezenet1.1",
            "googlenet",
            "shufflenet_v2_x1_0",
            "maxvit_t",
            "gmlp-s16",
            "resmlp-12",
            "poolformer-s12",
            "convmixer-768-32",
        ),
        _classes,
    ),
    **dict.fromkeys((name for name in CASES if name.endswith("dinov2")), _classes),
    **dict.fromkeys((name for name in CASES if name.startswith("clip")), _both_ways),
    **dict.fromkeys((name for name in CASES if name.startswith("gemma-3n")), _classes),
    **dict.fromkeys((name for name in CASES if name.startswith(("yolo", "faster", "mask", "sam"))), _none),
}


def saved(case: Case, loss: Callable[[Any], Any]) -> int:
    """Return the bytes that autograd keeps of a step."""
    _, _, build, call = case
    kept: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = build().train()
        Samples.count, Samples.entered[:] = 2, []
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss(call(model))
        Samples.count = 1
        own = {held.untyped_storage()._cdata for held in (*model.parameters(), *model.buffers(), *Samples.entered)}
        return sum(storage.nbytes() for key, storage in kept.items() if key not in own)


def count(case: Case) -> dict[str, Any]:
    """Return the counts of one model."""
    _, _, build, call = case
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
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
        row = {"model": name, "source": source, "part": part, "size": SIZES.get(name, "")} | count(CASES[name])
        if name in LOSSES:
            row |= {
                "loss": "left out" if LOSSES[name] is _none else "included",
                "saved": saved(CASES[name], LOSSES[name]),
            }
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
