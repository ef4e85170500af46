"""Say which models are captured: how each is made, what it is called with, and its loss. Needs torch and the models' libraries."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional

TOKENS: Final = (64, 128, 192, 256)
IMAGES: Final = (192, 224, 256, 288)


class Captured(NamedTuple):
    """A model of the list: functions as `roofsim.capture` takes them, and the lengths that it is captured at."""

    model: Any
    inputs: Any
    step: Any
    length: tuple[int, ...] = (1,)
    counted_in: str = "samples"


def of_transformers(config: str, model: str, length: tuple[int, ...] = TOKENS, **fields: Any) -> Captured:
    """Return a language model with its own loss."""

    def make() -> Any:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(use_cache=False, **fields))

    def inputs(batch: int, length: int) -> Any:
        return {"input_ids": torch.randint(0, 100, (batch, length))}

    def step(module: Any, input_ids: Any) -> Any:
        return module(input_ids=input_ids, labels=input_ids)

    return Captured(make, inputs, step, length, "tokens")


def classifier(make: Any, length: tuple[int, ...] = IMAGES) -> Captured:
    """Return an image classifier under cross entropy; it may give more than its logits."""

    def inputs(batch: int, length: int) -> Any:
        return torch.randn(batch, 3, length, length), torch.randint(0, 1000, (batch,))

    def step(module: Any, images: Any, labels: Any) -> Any:
        out = module(images)
        logits = out if isinstance(out, torch.Tensor) else out[0]
        return functional.cross_entropy(logits, labels)

    return Captured(make, inputs, step, length, "images")


def of_torchvision(name: str, length: tuple[int, ...] = IMAGES, **fields: Any) -> Captured:
    """Return a classifier of torchvision."""

    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **fields)

    return classifier(make, length)


def of_timm(name: str, length: tuple[int, ...] = (224,), **fields: Any) -> Captured:
    """Return a classifier of timm."""

    def make() -> Any:
        import timm

        return timm.create_model(name, pretrained=False, **fields)

    return classifier(make, length)


def segments(name: str) -> Captured:
    """Return a network of torchvision that labels pixels."""

    def make() -> Any:
        import torchvision

        return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21)

    def inputs(batch: int, length: int) -> Any:
        return torch.randn(batch, 3, length, length), torch.randint(0, 21, (batch, length, length))

    def step(module: Any, images: Any, labels: Any) -> Any:
        return functional.cross_entropy(module(images)["out"], labels)

    return Captured(make, inputs, step, IMAGES, "images")


def of_diffusers(
    name: str, channels: int, extra: Any, length: tuple[int, ...] = (32, 48, 64, 80), **fields: Any
) -> Captured:
    """Return a denoiser under the mean squared error; `extra` gives what it takes beside latents of a batch."""

    def make() -> Any:
        import diffusers

        return getattr(diffusers, name)(**fields)

    def inputs(batch: int, length: int) -> Any:
        return {"sample": torch.randn(batch, channels, length, length), **extra(batch)}

    def step(module: Any, sample: Any, **others: Any) -> Any:
        out = module(sample, **others)[0] if name != "AutoencoderKL" else module(sample).sample
        return functional.mse_loss(out[:, :channels].float(), sample.float())

    return Captured(make, inputs, step, length, "images")


def _text_and_time(batch: int) -> Any:
    return {"timestep": torch.ones(batch), "encoder_hidden_states": torch.randn(batch, 77, 768)}


def _class_and_time(batch: int) -> Any:
    return {"timestep": torch.ones(batch), "class_labels": torch.zeros(batch, dtype=torch.int64)}


class Rnn(nn.Module):
    """A recurrent network, cell by cell."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.read = nn.Embedding(1000, 128), nn.Linear(128, 256)
        self.pass_on, self.head = nn.Linear(256, 256), nn.Linear(256, 1000)

    def forward(self, tokens: Any) -> Any:
        """Return logits for each token."""
        x = self.table(tokens)
        state, out = x.new_zeros(x.shape[0], 256), []
        for at in range(x.shape[1]):
            state = torch.tanh(self.read(x[:, at]) + self.pass_on(state))
            out.append(self.head(state))
        return torch.stack(out, 1)


class Gnn(nn.Module):
    """A graph network: each layer averages over neighbours by an index of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 256), nn.Linear(256, 40)

    def forward(self, x: Any, edges: Any) -> Any:
        """Return logits of each node."""
        x = functional.relu(self.first(self._mean(x, edges)))
        return self.second(self._mean(x, edges))

    def _mean(self, x: Any, edges: Any) -> Any:
        out = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
        return out * 0.25


class OwnAttention(nn.Module):
    """Attention written out, with a bias for the distance of two tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.slope = nn.Linear(256, 768), nn.Linear(256, 256), nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x: Any) -> Any:
        """Return as many tokens as there are."""
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, 8, 32).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        places = torch.arange(length, device=x.device)
        bias = (places[None] - places[:, None]).abs().to(x.dtype) * self.slope
        weights = torch.softmax(q @ k.transpose(-1, -2) * 32**-0.5 - bias, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, 256))


class Conditional(nn.Module):
    """A network whose way depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        """Return what one of two layers says."""
        return self.small(x) if x.sum() > 0 else self.large(x)


def _rnn() -> Captured:
    def step(module: Any, tokens: Any) -> Any:
        return functional.cross_entropy(module(tokens).flatten(0, 1), tokens.flatten())

    return Captured(Rnn, lambda batch, length: (torch.randint(0, 1000, (batch, length)),), step, (32,), "tokens")


def _gnn() -> Captured:
    def inputs(batch: int, _length: int) -> Any:
        nodes = 100 * batch
        return torch.randn(nodes, 64), torch.randint(0, nodes, (2, 4 * nodes)), torch.randint(0, 40, (nodes,))

    def step(module: Any, x: Any, edges: Any, labels: Any) -> Any:
        return functional.cross_entropy(module(x, edges), labels)

    return Captured(Gnn, inputs, step)


def _mlp() -> Captured:
    def make() -> Any:
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))

    def step(module: Any, x: Any, labels: Any) -> Any:
        return functional.cross_entropy(module(x), labels)

    return Captured(make, lambda batch, _length: (torch.randn(batch, 64), torch.randint(0, 10, (batch,))), step)


def _squared(make: Any, inputs: Any, length: tuple[int, ...], unit: str) -> Captured:
    return Captured(make, inputs, lambda module, *given: module(*given).float().square().mean(), length, unit)


def _of_two(config: str, model: str, **fields: Any) -> Captured:
    """Return an encoder with a decoder, which reads as many tokens as it."""
    plain = of_transformers(config, model, **fields)

    def step(module: Any, input_ids: Any) -> Any:
        return module(input_ids=input_ids, labels=input_ids, use_cache=False)

    return plain._replace(step=step)


LLAMA: Final[dict[str, Any]] = {
    "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 8, "vocab_size": 32000,
}  # fmt: skip

#: As facebook/bart-base's config.json has it.
BART: Final[dict[str, Any]] = {
    "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
}  # fmt: skip

MODELS: Final[dict[str, Captured]] = {
    # transformers
    "gpt2": of_transformers("GPT2Config", "GPT2LMHeadModel"),
    "gpt2-8-heads": of_transformers("GPT2Config", "GPT2LMHeadModel", n_embd=512, n_layer=6, n_head=8),
    "bert-base": of_transformers("BertConfig", "BertForMaskedLM"),
    "distilbert": of_transformers("DistilBertConfig", "DistilBertForMaskedLM"),
    "roberta": of_transformers("RobertaConfig", "RobertaForMaskedLM"),
    "albert": of_transformers("AlbertConfig", "AlbertForMaskedLM", num_hidden_layers=4),
    "electra": of_transformers("ElectraConfig", "ElectraForMaskedLM"),
    "opt-125m": of_transformers("OPTConfig", "OPTForCausalLM"),
    "llama": of_transformers("LlamaConfig", "LlamaForCausalLM", **LLAMA, num_key_value_heads=2),
    "llama-8-heads": of_transformers("LlamaConfig", "LlamaForCausalLM", **LLAMA, num_key_value_heads=8),
    "mistral": of_transformers("MistralConfig", "MistralForCausalLM", **LLAMA, num_key_value_heads=2, sliding_window=None),
    "qwen2": of_transformers("Qwen2Config", "Qwen2ForCausalLM", **LLAMA, num_key_value_heads=2),
    "qwen3": of_transformers("Qwen3Config", "Qwen3ForCausalLM", **LLAMA, num_key_value_heads=2, head_dim=64),
    "gemma": of_transformers("GemmaConfig", "GemmaForCausalLM", **LLAMA, num_key_value_heads=1, head_dim=64),
    "phi": of_transformers("PhiConfig", "PhiForCausalLM", **LLAMA),
    "pythia": of_transformers("GPTNeoXConfig", "GPTNeoXForCausalLM", **LLAMA),
    "gpt-j": of_transformers("GPTJConfig", "GPTJForCausalLM", n_embd=512, n_layer=4, n_head=8, rotary_dim=32),
    "bloom": of_transformers("BloomConfig", "BloomForCausalLM", hidden_size=512, n_layer=4, n_head=8),
    "t5-small": _of_two("T5Config", "T5ForConditionalGeneration", decoder_start_token_id=0),
    "bart-base": _of_two("BartConfig", "BartForConditionalGeneration", d_model=768, encoder_layers=6, decoder_layers=6, **BART),
    # torchvision
    "resnet18": of_torchvision("resnet18"),
    "resnet50": of_torchvision("resnet50"),
    "vgg16": of_torchvision("vgg16"),
    "alexnet": of_torchvision("alexnet"),
    "densenet121": of_torchvision("densenet121"),
    "mobilenet-v2": of_torchvision("mobilenet_v2"),
    "mobilenet-v3-small": of_torchvision("mobilenet_v3_small"),
    "efficientnet-b0": of_torchvision("efficientnet_b0"),
    "convnext-tiny": of_torchvision("convnext_tiny"),
    "regnet-y-400mf": of_torchvision("regnet_y_400mf"),
    "squeezenet": of_torchvision("squeezenet1_1"),
    "shufflenet": of_torchvision("shufflenet_v2_x1_0"),
    "inception-v3": of_torchvision("inception_v3", (299,), aux_logits=True, init_weights=False),
    "swin-t": of_torchvision("swin_t", (224,)),
    "vit-b-16": of_torchvision("vit_b_16", (224,)),
    "fcn-resnet50": segments("fcn_resnet50"),
    "deeplabv3-resnet50": segments("deeplabv3_resnet50"),
    # timm
    "timm-mixer-b16": of_timm("mixer_b16_224"),
    "timm-deit-tiny": of_timm("deit_tiny_patch16_224"),
    "timm-vit-base": of_timm("vit_base_patch16_224"),
    "timm-swin-tiny": of_timm("swin_tiny_patch4_window7_224"),
    "timm-beit-base": of_timm("beit_base_patch16_224"),
    "timm-resnext50": of_timm("resnext50_32x4d", IMAGES),
    "timm-seresnet50": of_timm("seresnet50", IMAGES),
    "timm-efficientnetv2-s": of_timm("tf_efficientnetv2_s", (224,)),
    "timm-poolformer-s12": of_timm("poolformer_s12", (224,)),
    "timm-resmlp-12": of_timm("resmlp_12_224"),
    # diffusers
    "sd15-unet": of_diffusers("UNet2DConditionModel", 4, _text_and_time, cross_attention_dim=768, attention_head_dim=8),
    "dit": of_diffusers(
        "DiTTransformer2DModel", 4, _class_and_time, (32,), num_attention_heads=6, attention_head_dim=64, num_layers=6,
        in_channels=4, out_channels=8,
    ),
    "vae": of_diffusers(
        "AutoencoderKL", 3, lambda _batch: {}, (64, 96, 128, 160), block_out_channels=(64, 128, 128),
        down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
    ),
    # by hand
    "rnn": _rnn(),
    "gnn": _gnn(),
    "own-attention": _squared(
        OwnAttention, lambda batch, length: (torch.randn(batch, length, 256),), (64, 128, 192, 256), "tokens"
    ),
    "mlp": _mlp(),
    "conditional": _squared(Conditional, lambda batch, _length: (torch.randn(batch, 16),), (1,), "samples"),
}  # fmt: skip
