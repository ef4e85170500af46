"""Hybrids of attention and of states: language models whose scans and convolutions are fused kernels; and whose layers differ.

What scans compute is left out (``hybrid``): the library's own code beside the kernels computes other products than they do; of
``chunks`` it computes the same ones.
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
#: Of models whose windows would hide some of these.
FEWER = 256


def _build(kind: str, **fields: Any) -> Any:
    kernels.install()
    config = getattr(transformers, f"{kind}TextConfig", None) or getattr(transformers, f"{kind}Config")
    return getattr(transformers, f"{kind}ForCausalLM")(config(**fields))


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


def _minimax() -> Any:
    """MiniMax-Text-01; while training, its loop over blocks is stood in for by the function that it is the same as.

    The class turns whole heads; the released model turns half of each (``rotary_dim``), by the code that MiniMax-M2's class has.
    """
    from transformers.models.minimax import modeling_minimax
    from transformers.models.minimax_m2 import modeling_minimax_m2

    class Lightning(modeling_minimax.MiniMaxLightningAttention):
        def forward(self, hidden_states: torch.Tensor, *given: Any, **named: Any) -> Any:
            if self.training:
                return kernels.lightning_attention(self, hidden_states)
            return super().forward(hidden_states, *given, **named)

    modeling_minimax.MiniMaxLightningAttention = Lightning
    modeling_minimax.MiniMaxRotaryEmbedding = modeling_minimax_m2.MiniMaxM2RotaryEmbedding
    modeling_minimax.apply_rotary_pos_emb = modeling_minimax_m2.apply_rotary_pos_emb
    kinds = ["full_attention" if (layer + 1) % 8 == 0 else "linear_attention" for layer in range(80)]
    return _build(
        "MiniMax", vocab_size=200064, hidden_size=6144, intermediate_size=9216, num_hidden_layers=80,
        num_attention_heads=64, num_key_value_heads=8, head_dim=128, num_local_experts=32, num_experts_per_tok=2,
        layer_types=kinds, linear_attn_alpha_factor=3.5565588200778455, full_attn_alpha_factor=3.5565588200778455,
        mlp_alpha_factor=3.5565588200778455, linear_attn_beta_factor=1.0, full_attn_beta_factor=1.0, mlp_beta_factor=1.0,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5},
    )  # fmt: skip


def _zamba2(layers: int, hybrids: set[int], **fields: Any) -> Any:
    kinds = ["hybrid" if layer in hybrids else "mamba" for layer in range(layers)]
    model = _build("Zamba2", num_hidden_layers=layers, layers_block_type=kinds, **fields)
    model.tie_weights()
    return model


def _kimi_linear() -> Any:
    from transformers.models.kimi_linear import modeling_kimi_linear

    modeling_kimi_linear.chunk_kimi_delta_attention = kernels.chunk_kda
    modeling_kimi_linear.causal_conv1d_fn = kernels.causal_conv1d_fn
    full = [4, 8, 12, 16, 20, 24, 27]
    others = [layer for layer in range(1, 28) if layer not in full]
    linear = {"head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4}
    return _build("KimiLinear", linear_attn_config={**linear, "full_attn_layers": full, "kda_layers": others})


class _Working(torch.nn.Module):
    """LongCat-Flash's experts in grouped products, over the rows that reach one which computes if all are chosen alike.

    The class holds matrices of the others as well, which it never reads and no checkpoint has.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.share = config.n_routed_experts / (config.n_routed_experts + config.zero_expert_num)
        experts, inner, width = config.n_routed_experts, config.expert_ffn_hidden_size, config.hidden_size
        self.gate_up_proj = torch.nn.Parameter(torch.empty(experts, 2 * inner, width))
        self.down_proj = torch.nn.Parameter(torch.empty(experts, width, inner))

    def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, _weights: torch.Tensor) -> torch.Tensor:
        rows = tokens.new_empty(int(chosen.numel() * self.share), tokens.shape[-1])
        ends = torch.empty(len(self.down_proj), dtype=torch.int32, device=tokens.device)
        gate, up = torch._grouped_mm(rows, self.gate_up_proj.transpose(-2, -1), offs=ends).chunk(2, dim=-1)
        torch._grouped_mm(torch.nn.functional.silu(gate) * up, self.down_proj.transpose(-2, -1), offs=ends)
        return torch.zeros_like(tokens)


def _longcat() -> Any:
    """LongCat-Flash, whose configuration is the class's own."""
    from transformers.models.longcat_flash import modeling_longcat_flash

    modeling_longcat_flash.LongcatFlashExperts = _Working
    return _build("LongcatFlash")


def _gemma4(kind: str, layers: int, cycle: int, **fields: Any) -> Any:
    kinds = (["sliding_attention"] * (cycle - 1) + ["full_attention"]) * (layers // cycle)
    return _build(
        kind, num_hidden_layers=layers, layer_types=kinds, head_dim=256, global_head_dim=512,
        final_logit_softcapping=30.0, **fields,
    )  # fmt: skip


def _mimo() -> Any:
    """MiMo-V2-Flash, whose configuration is the class's own; its attention is products."""
    return _build("MiMoV2Flash")


def _trained(out: Any) -> torch.Tensor:
    """Return the loss of the class itself, over logits in fp32."""
    logits = first(out)
    return ForCausalLMLoss(logits, entering(torch.zeros(*logits.shape[:-1], dtype=torch.int64)), logits.shape[-1])


def _tokens(model: Any, count: int = TOKENS) -> Any:
    return model(input_ids=ids(count), use_cache=False)


#: Of NVIDIA's configuration: mixers, feed-forward layers, attention.
PATTERN = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
#: Of Zyphra's configurations: one block of attention with products of its own on queries, keys and values; two without.
ZAMBA2_SMALL = {
    "hidden_size": 2048, "mamba_d_state": 128, "n_mamba_heads": 64, "use_mem_rope": True, "use_shared_attention_adapter": True,
}  # fmt: skip
ZAMBA2_LARGE = {
    "hidden_size": 3584, "mamba_d_state": 64, "n_mamba_heads": 112, "mamba_ngroups": 2, "num_mem_blocks": 2,
    "use_mem_rope": True,
}  # fmt: skip
#: Of Google's configurations.
GEMMA4_LARGE = {"sliding_window": 1024, "attention_k_eq_v": True}
GEMMA4_MIXTURE = GEMMA4_LARGE | {
    "hidden_size_per_layer_input": 0,
    "hidden_size": 2816, "intermediate_size": 2112, "moe_intermediate_size": 704, "num_attention_heads": 16,
    "num_key_value_heads": 8, "num_global_key_value_heads": 2, "num_experts": 128, "top_k_experts": 8,
    "enable_moe_block": True,
}  # fmt: skip
GEMMA4_DENSE = GEMMA4_LARGE | {
    "hidden_size_per_layer_input": 0,
    "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 16,
    "num_global_key_value_heads": 4,
}  # fmt: skip
GEMMA4_UNIFIED = GEMMA4_LARGE | {
    "hidden_size": 3840, "intermediate_size": 15360, "num_attention_heads": 16, "num_key_value_heads": 8,
    "num_global_key_value_heads": 1,
}  # fmt: skip
GEMMA4_E2B = {
    "hidden_size": 1536, "intermediate_size": 6144, "num_key_value_heads": 1, "num_kv_shared_layers": 20,
    "use_double_wide_mlp": True,
}  # fmt: skip
GEMMA4_E4B = {"hidden_size": 2560, "intermediate_size": 10240, "num_key_value_heads": 2, "num_kv_shared_layers": 18}
CASES: dict[str, Case] = {
    "jamba-v0.1": ("transformers", "hybrid", _jamba, _tokens),
    "falcon-h1-7b": ("transformers", "hybrid", _falcon_h1, _tokens),
    "lfm2-1.2b": ("transformers", "hybrid", _lfm2, _tokens),
    "nemotron-h-8b": ("transformers", "hybrid", partial(_nemotron_h, PATTERN), _tokens),
    "granite-4.0-h-small": ("transformers", "hybrid", _granite_small, _tokens),
    "zamba2-1.2b": ("transformers", "hybrid", partial(_zamba2, 38, {*range(5, 36, 6)}, **ZAMBA2_SMALL), _tokens),
    "zamba2-7b": ("transformers", "hybrid", partial(_zamba2, 81, {6, *range(11, 78, 6)}, **ZAMBA2_LARGE), _tokens),
    "kimi-linear-48b-a3b": ("transformers", "hybrid", _kimi_linear, _tokens),
    "minimax-text-01": ("transformers", "chunks", _minimax, _tokens),
    "gemma-4-e2b": ("transformers", "", partial(_gemma4, "Gemma4", 35, 5, **GEMMA4_E2B), partial(_tokens, count=FEWER)),
    "gemma-4-e4b": ("transformers", "", partial(_gemma4, "Gemma4", 42, 6, **GEMMA4_E4B), partial(_tokens, count=FEWER)),
    "gemma-4-12b": ("transformers", "", partial(_gemma4, "Gemma4Unified", 48, 6, **GEMMA4_UNIFIED), _tokens),
    "gemma-4-26b-a4b": ("transformers", "", partial(_gemma4, "Gemma4", 30, 6, **GEMMA4_MIXTURE), _tokens),
    "gemma-4-31b": ("transformers", "", partial(_gemma4, "Gemma4", 60, 6, **GEMMA4_DENSE), _tokens),
    "longcat-flash-560b": ("transformers", "", _longcat, _tokens),
    "mimo-v2-flash": ("transformers", "all", _mimo, _tokens),
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
LOSSES = dict.fromkeys(CASES, classes)
# Unfused attention of its own keeps other scores than the library's usual one; these experts are added up without their weights.
for _name in ("mimo-v2-flash", "longcat-flash-560b"):
    del LOSSES[_name]
LOSSES |= {"mamba-130m": _trained, "mamba-2.8b": _trained}
SIZES = dict.fromkeys(CASES, TOKENS) | {"gemma-4-e2b": FEWER, "gemma-4-e4b": FEWER}
