"""Name the linear layers of models, as they are called here and in the classes of the transformers library."""

from __future__ import annotations

from typing import Final

#: Layer of ours -> how the library's classes call it (the first expert stands for all).
ATTENTION: Final = {
    "self_attention.query": ("self_attn.q_proj", "attn.q_proj"),
    "self_attention.key": ("self_attn.k_proj", "attn.k_proj"),
    "self_attention.value": ("self_attn.v_proj", "attn.v_proj"),
    "self_attention.query_key_value": (
        "self_attn.qkv_proj", "self_attention.query_key_value", "attn.c_attn", "attention.query_key_value", "attn.Wqkv",
    ),
    "self_attention.output": (
        "self_attn.o_proj", "self_attn.out_proj", "self_attention.dense", "self_attn.dense", "attn.c_proj", "attn.out_proj",
        "attention.dense",
    ),
    "self_attention.query_down": ("self_attn.q_a_proj",),
    "self_attention.query_up": ("self_attn.q_b_proj",),
    "self_attention.key_value_down": ("self_attn.kv_a_proj_with_mqa",),
    "self_attention.key_value_up": ("self_attn.kv_b_proj",),
}  # fmt: skip
DELTA: Final[dict[str, tuple[str, ...]]] = {
    "delta_net.in_qkvz": ("linear_attn.in_proj_qkvz",),
    "delta_net.in_ba": ("linear_attn.in_proj_ba",),
    "delta_net.output": ("linear_attn.out_proj",),
}
MLP: Final = {
    "mlp.gate": ("mlp.gate_proj", "feed_forward.gate_proj"),
    "mlp.up": (
        "mlp.up_proj", "feed_forward.up_proj", "mlp.c_fc", "mlp.dense_h_to_4h", "mlp.fc1", "fc1", "mlp.fc_in", "ffn.up_proj",
    ),
    "mlp.gate_up": ("mlp.gate_up_proj",),
    "mlp.down": (
        "mlp.down_proj", "feed_forward.down_proj", "mlp.c_proj", "mlp.dense_4h_to_h", "mlp.fc2", "fc2", "mlp.fc_out",
        "ffn.down_proj",
    ),
}  # fmt: skip
EXPERTS: Final = {
    "experts.gate_up": (
        "mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.gate_up_proj", "block_sparse_moe.experts.0.w1",
        "feed_forward.experts.gate_up_proj", "feed_forward.experts.0.gate_proj", "mlp.experts",
    ),
    "experts.down": (
        "mlp.experts.0.down_proj", "mlp.experts.down_proj", "block_sparse_moe.experts.0.w2", "feed_forward.experts.down_proj",
        "feed_forward.experts.0.down_proj", "mlp.experts",
    ),
}  # fmt: skip
SHARED: Final = {
    f"shared_experts.{role}": tuple(
        f"{mlp}.{shared}.{role}_proj"
        for mlp in ("mlp", "feed_forward")
        for shared in ("shared_expert", "shared_experts")
    )
    for role in ("gate", "up", "down")
}


#: Layer of ours -> its names in encoder-decoders of T5's kind.
T5: Final = {
    "self_attention.query": ("SelfAttention.q",),
    "self_attention.key": ("SelfAttention.k",),
    "self_attention.value": ("SelfAttention.v",),
    "self_attention.output": ("SelfAttention.o",),
    "mlp.gate": ("DenseReluDense.wi_0",),
    "mlp.up": ("DenseReluDense.wi_1", "DenseReluDense.wi"),
    "mlp.down": ("DenseReluDense.wo",),
}


def layers_called() -> dict[str, tuple[str, ...]]:
    """Return, by the last part of a library's name, the layers of ours that have it: a name may stand for several.

    >>> layers_called()["q_proj"], layers_called()["c_proj"]
    (('query',), ('output', 'down'))
    """
    by_spelling: dict[str, dict[str, None]] = {}
    for table in (ATTENTION, DELTA, MLP, T5):
        for layer, spellings in table.items():
            for spelling in spellings:
                by_spelling.setdefault(spelling.rpartition(".")[2], {})[layer.rpartition(".")[2]] = None
    return {name: tuple(layers) for name, layers in by_spelling.items()}
