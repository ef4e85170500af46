"""Networks of sound and of text."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from counting import Case, classes, ids, numbers, squares


def _conformer() -> Any:
    from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerForCTC

    config = Wav2Vec2ConformerConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, hidden_act="swish",
        feat_extract_norm="layer", conv_bias=True, position_embeddings_type="rotary", vocab_size=32, layerdrop=0.0,
        hidden_dropout=0.0, activation_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, final_dropout=0.0,
        conformer_conv_dropout=0.0, apply_spec_augment=False,
    )  # fmt: skip
    return Wav2Vec2ConformerForCTC(config)


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


class _EmbeddingGemma(torch.nn.Module):
    """Gemma 3 without the causal mask, averaged, with the linear layers that sentence-transformers puts behind it."""

    def __init__(self) -> None:
        from transformers import Gemma3TextConfig, Gemma3TextModel

        super().__init__()
        self.model = Gemma3TextModel(
            Gemma3TextConfig(
                vocab_size=262144,
                hidden_size=768,
                intermediate_size=1152,
                num_hidden_layers=24,
                num_attention_heads=3,
                num_key_value_heads=1,
                head_dim=256,
                max_position_embeddings=2048,
                query_pre_attn_scalar=256,
                sliding_window=512,
                use_bidirectional_attention=True,
            )
        )
        self.up, self.down = torch.nn.Linear(768, 3072, bias=False), torch.nn.Linear(3072, 768, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        seen = self.model(input_ids=tokens, use_cache=False).last_hidden_state
        return torch.nn.functional.normalize(self.down(self.up(seen.mean(1))))


def _jina() -> Any:
    from transformers import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

    return JinaEmbeddingsV3Model(JinaEmbeddingsV3Config())


def _tokens(model: Any) -> Any:
    return model(input_ids=ids(SIZES["gemma-3n-e2b"]), use_cache=False)


#: Tokens of a sample of models that are not counted at their usual size: no window hides any.
SIZES: dict[str, int] = {
    "gemma-3n-e2b": 256,
    "gemma-3n-e4b": 256,
    "embeddinggemma-300m": 256,
    "jina-embeddings-v3": 512,
}
CASES: dict[str, Case] = {
    "gemma-3n-e2b": ("transformers", "", partial(_gemma3n, 30, 8192, 10), _tokens),
    "gemma-3n-e4b": ("transformers", "", partial(_gemma3n, 35, 16384, 15), _tokens),
    "embeddinggemma-300m": ("transformers", "", _EmbeddingGemma, lambda model: model(ids(256))),
    "jina-embeddings-v3": ("transformers", "", _jina, lambda model: model(input_ids=ids(512))),
    "parakeet-ctc-0.6b": ("transformers", "", partial(_parakeet, 24, 9), lambda model: model(numbers(1, 1600, 80))),
    "parakeet-ctc-1.1b": ("transformers", "", partial(_parakeet, 42, 5), lambda model: model(numbers(1, 1600, 80))),
    "parakeet-tdt-0.6b-v3": ("transformers", "", _parakeet_tdt, _parakeet_tdt_call),
    "rnnt": ("torch", "all", _Transducer, lambda model: model(numbers(1, 500, 240), ids(129))),
    "wav2vec2-conformer-rope-large": ("transformers", "", _conformer, lambda model: model(numbers(1, 160000))),
}  # fmt: skip
#: The loss of models whose saved bytes are counted.
LOSSES = dict.fromkeys(("gemma-3n-e2b", "gemma-3n-e4b", "wav2vec2-conformer-rope-large"), classes)
LOSSES |= {"embeddinggemma-300m": squares}
