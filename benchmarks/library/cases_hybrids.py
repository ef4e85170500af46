"""Hybrids of attention and of states: language models whose scans and convolutions are fused kernels.

What scans compute is left out (``hybrid``): the library's own code beside the kernels computes other products than they do.
Sizes are those of the published configurations. `CASES` builds what `kernels` stands in for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import kernels
import torch
import transformers
from counting import Case, classes, entering, first, ids
from transformers.loss.loss_utils import ForCausalLMLoss

TOKENS = 512


def _build(kind: str, **fields: Any) -> Any:
    kernels.install()
    return getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**fields))


def _jamba() -> Any:
    """Jamba v0.1, whose configuration is the class's own."""
    return _build("Jamba")


def _falcon_h1() -> Any:
    return _build(
        "FalconH1", vocab_size=130049, hidden_size=3072, intermediate_size=12288, num_hidden_layers=44,
        num_attention_heads=12, num_key_value_heads=2, head_dim=128, mamba_d_ssm=3072, mamba_n_heads=24,
        mamba_d_head=128, mamba_n_groups=1, mamba_d_state=256, mamba_chunk_size=128, mamba_rms_norm=False,
        mamba_norm_before_gate=False,
    )  # fmt: skip


def _lfm2() -> Any:
    full = {2, 5, 8, 10, 12, 14}
    return _build(
        "Lfm2", vocab_size=65536, hidden_size=2048, intermediate_size=12288, num_hidden_layers=16,
        num_attention_heads=32, num_key_value_heads=8,
        layer_types=["full_attention" if layer in full else "conv" for layer in range(16)],
    )  # fmt: skip


def _nemotron_h(pattern: str, **fields: Any) -> Any:
    names = {"M": "mamba", "-": "mlp", "*": "attention", "E": "moe"}
    return _build("NemotronH", layers_block_type=[names[letter] for letter in pattern], **fields)


def _granite_small() -> Any:
    attended = {5, 15, 25, 35}
    return _build(
        "GraniteMoeHybrid", vocab_size=100352, hidden_size=4096, intermediate_size=768, num_hidden_layers=40,
        num_attention_heads=32, num_key_value_heads=8, num_local_experts=72, num_experts_per_tok=10,
        shared_intermediate_size=1536, mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128, mamba_n_groups=1,
        tie_word_embeddings=True, position_embedding_type="nope",
        layer_types=["attention" if layer in attended else "mamba" for layer in range(40)],
    )  # fmt: skip


def _mamba(hidden: int, layers: int) -> Any:
    """Mamba, whose classes widen its residuals."""
    return _build("Mamba", hidden_size=hidden, num_hidden_layers=layers, vocab_size=50280)


def _mamba2(hidden: int, layers: int, **fields: Any) -> Any:
    return _build(
        "Mamba2", hidden_size=hidden, num_hidden_layers=layers, num_heads=2 * hidden // 64, **{"n_groups": 1, **fields}
    )


def _falcon_mamba() -> Any:
    return _build("FalconMamba", hidden_size=4096, num_hidden_layers=64, vocab_size=65024, tie_word_embeddings=False)


def _trained(out: Any) -> torch.Tensor:
    """Return the loss of the class itself, over logits in fp32."""
    logits = first(out)
    return ForCausalLMLoss(logits, entering(torch.zeros(*logits.shape[:-1], dtype=torch.int64)), logits.shape[-1])


def _tokens(model: Any) -> Any:
    return model(input_ids=ids(TOKENS), use_cache=False)


#: Of NVIDIA's configuration: mixers, feed-forward layers, attention.
PATTERN = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
CASES: dict[str, Case] = {
    "jamba-v0.1": ("transformers", "hybrid", _jamba, _tokens),
    "falcon-h1-7b": ("transformers", "hybrid", _falcon_h1, _tokens),
    "lfm2-1.2b": ("transformers", "hybrid", _lfm2, _tokens),
    "nemotron-h-8b": ("transformers", "hybrid", partial(_nemotron_h, PATTERN), _tokens),
    "granite-4.0-h-small": ("transformers", "hybrid", _granite_small, _tokens),
    "mamba-130m": ("transformers", "hybrid", partial(_mamba, 768, 24), _tokens),
    "mamba-2.8b": ("transformers", "hybrid", partial(_mamba, 2560, 64), _tokens),
    "mamba2-130m": (
        "transformers",
        "hybrid",
        partial(_mamba2, 768, 24, vocab_size=50288, tie_word_embeddings=True),
        _tokens,
    ),
    "mamba2-2.7b": (
        "transformers",
        "hybrid",
        partial(_mamba2, 2560, 64, vocab_size=50288, tie_word_embeddings=True),
        _tokens,
    ),
    "mamba-codestral-7b": ("transformers", "hybrid", partial(_mamba2, 4096, 64, vocab_size=32768, n_groups=8), _tokens),
    "falcon-mamba-7b": ("transformers", "hybrid", _falcon_mamba, _tokens),
}
#: Over logits in the type that the class gives them.
LOSSES = dict.fromkeys(CASES, classes) | {"mamba-130m": _trained, "mamba-2.8b": _trained}
SIZES = dict.fromkeys(CASES, TOKENS)
