"""Configurations of decoders whose layers differ: what their files may say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofsim.errors import SpecError
from roofsim.importers.huggingface import from_config
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from tests.importers.test_huggingface import imported

_ENTRIES = json.loads(Path(__file__).with_name("published_hub.json").read_text(encoding="utf-8"))
HUB = {entry["name"]: entry["config"] for entry in _ENTRIES}


def count(config):
    graph = lower(imported(config), Call(phase="forward"))
    return sum(tensor.numel * copies for tensor, copies in graph.parameters().items())


def parameters(name, **keys):
    return count({**HUB[name], **keys})


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("minimax-text-01", {"attn_type_list": [0] * 79}, "attn_type_list: has 79 entries for 80 layers"),
        ("minimax-text-01", {"attn_type_list": [2] * 80}, "expected 0 .lightning. or 1 .softmax."),
        ("minimax-text-01", {"attn_type_list": None}, "attn_type_list: is null; expected a value"),
        ("minimax-text-01", {"layer_types": ["sliding_attention"] * 80}, "expected linear_attention or full_attention"),
        ("minimax-text-01", {"shared_intermediate_size": 4096}, "shared_intermediate_size: 4096 changes the structure"),
        ("minimax-text-01", {"router_jitter_noise": 0.1}, "jitter on the router's input is not supported"),
        ("minimax-text-01", {"num_hidden_layers": 10**6}, "expected at most 512"),
        ("minimax-text-01", {"architectures": ["MiniMaxModel"]}, "MiniMaxModel has no language-model head"),
        ("minimax-text-01", {"rotary_dim": 256}, "expected a share above 0 and up to 1; got 2"),
        ("minimax-text-01", {"num_attention_heads": 0}, "num_attention_heads: expected a whole number of at least 1"),
        ("kimi-linear-48b-a3b", {"mla_use_nope": False}, "mla_use_nope: false changes the structure"),
        ("kimi-linear-48b-a3b", {"mla_use_output_gate": True}, "mla_use_output_gate: true changes the structure"),
        ("kimi-linear-48b-a3b", {"linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2]}},
         "linear_attn_config.full_attn_layers: with kda_layers, expected each number from 1 to 27 once"),
        ("kimi-linear-48b-a3b", {"linear_attn_config": None}, "full_attn_layers: required key is missing"),
        ("kimi-linear-48b-a3b", {"layer_types": ["full_attention"] * 3}, "layer_types: has 3 entries for 27 layers"),
        ("kimi-linear-48b-a3b", {"layer_types": ["mamba"] * 27}, "layer_types: 'mamba' is not supported"),
        ("kimi-linear-48b-a3b", {"mlp_layer_types": ["thin"] * 27}, "mlp_layer_types: expected dense or sparse"),
        ("kimi-linear-48b-a3b", {"moe_router_activation_func": "softmax"}, '"softmax"|softmax. changes the structure'),
        ("zamba2-7b", {"add_bias_linear": True}, "add_bias_linear: true changes the structure"),
        ("zamba2-7b", {"layers_block_type": ["mamba"] * 80}, "layers_block_type: has 80 entries for 81 layers"),
        ("zamba2-7b", {"layers_block_type": ["mamba2"] * 81}, "'mamba2' is not supported; expected mamba or hybrid"),
        ("zamba2-7b", {"layers_block_type": None}, "layer_types: required key is missing"),
        ("zamba2-7b", {"n_mamba_heads": 100}, "n_mamba_heads: 100 heads do not divide 7168 channels"),
        ("zamba2-7b", {"num_attention_heads": 100}, "num_attention_heads: twice hidden_size 3584 is not a multiple of 100"),
        ("zamba2-7b", {"gated_linear_unit": False}, "gated_linear_unit: false changes the structure"),
        ("mimo-v2-flash", {"hybrid_layer_pattern": [0] * 47}, "hybrid_layer_pattern: has 47 entries for 48 layers"),
        ("mimo-v2-flash", {"hybrid_layer_pattern": [2] * 48}, "hybrid_layer_pattern: 2 is not supported; expected 0 or 1"),
        ("mimo-v2-flash", {"layer_types": ["chunked"] * 48}, "layer_types: 'chunked' is not supported"),
        ("mimo-v2-flash", {"n_shared_experts": 1}, "n_shared_experts: 1 changes the structure"),
        ("mimo-v2-flash", {"scoring_func": "softmax"}, "scoring_func: 'softmax' changes the structure"),
        ("mimo-v2-flash", {"partial_rotary_factor": 1.5}, "partial_rotary_factor: expected a share above 0 and up to 1"),
        ("longcat-flash-560b", {"zero_expert_type": "copy"}, "zero_expert_type: 'copy' changes the structure"),
        ("longcat-flash-560b", {"router_bias": True}, "router_bias: true changes the structure"),
        ("longcat-flash-560b", {"emb_neighbor_num": 4}, "emb_neighbor_num: 4 changes the structure"),
        ("longcat-flash-560b", {"num_layers": 1000}, "num_layers: expected at most 512"),
        ("gemma-4-26b-a4b", {"num_kv_shared_layers": 30}, "no layer before the last 30 has keys and values of the same kind"),
        ("gemma-4-26b-a4b", {"attention_bias": True}, "attention_bias: true changes the structure"),
        ("gemma-4-26b-a4b", {"use_bidirectional_attention": "all"}, "use_bidirectional_attention: 'all' changes the structure"),
        ("gemma-4-26b-a4b", {"layer_types": ["full_attention"]}, "layer_types: has 1 entries for 30 layers"),
        ("gemma-4-26b-a4b", {"num_experts": None}, "num_experts: is null; expected a value"),
    ],
)  # fmt: skip
def test_what_is_not_built_is_refused(name, keys, message):
    with pytest.raises(SpecError, match=message) as caught:
        from_config({**HUB[name], **keys}, "x/config.json")
    assert str(caught.value).startswith("x/config.json: ")


def test_minimax_in_the_library_s_words_is_the_same_model():
    kinds = ["full_attention" if (layer + 1) % 8 == 0 else "linear_attention" for layer in range(80)]
    own = {key: value for key, value in HUB["minimax-text-01"].items() if not key.startswith(("attn_", "layernorm_"))}
    words = {**own, "model_type": "minimax", "architectures": ["MiniMaxForCausalLM"], "layer_types": kinds}
    del words["postnorm"]
    assert imported(words).layers == imported(HUB["minimax-text-01"]).layers
    # A layer of either kind more: each has its norms and experts.
    softmax = 6144 * (2 * 8192 + 2 * 1024)
    lightning = 6144 * 5 * 8192 + 8192
    fewer = parameters("minimax-text-01", attn_type_list=[0] * 79 + [1])
    assert fewer - parameters("minimax-text-01") == 9 * (lightning - softmax)


def test_kimi_linear_in_the_library_s_words_is_the_same_model():
    own = HUB["kimi-linear-48b-a3b"]
    kinds = ["full_attention" if layer in (4, 8, 12, 16, 20, 24, 27) else "linear_attention" for layer in range(1, 28)]
    words = {
        "layer_types": kinds,
        "mlp_layer_types": ["dense"] + ["sparse"] * 26,
        "linear_attn_config": None,
        "linear_head_dim": 128,
        "linear_num_heads": 32,
        "linear_conv_kernel_dim": 4,
    }
    assert imported({**own, **words}).layers == imported(own).layers


def test_zamba2_in_the_words_of_its_release_is_the_same_model():
    own = HUB["zamba2-7b"]
    renamed = {
        "intermediate_size": "ffn_hidden_size",
        "adapter_rank": "lora_rank",
        "mamba_d_state": "state_size",
        "mamba_d_conv": "conv_dimension",
        "mamba_expand": "expansion_factor",
        "use_shared_attention_adapter": "use_shared_attention_lora",
    }
    words = {renamed.get(key, key): value for key, value in own.items() if key != "n_mamba_heads"}
    assert imported({**words, "mamba_headdim": 64}).layers == imported(own).layers
    # One block of attention for all instead of two.
    block = 3 * 7168**2 + 7168 * 3584 + 3 * 3584 * 14336 + 7168 + 3584
    assert parameters("zamba2-7b") - parameters("zamba2-7b", num_mem_blocks=1) == block


def test_mimo_in_the_library_s_words_is_the_same_model():
    """The class's defaults are the released model; a window of 128 tokens before a token has 129."""
    own = HUB["mimo-v2-flash"]
    kinds = ["full_attention" if not pattern else "sliding_attention" for pattern in own["hybrid_layer_pattern"]]
    released = (
        "hybrid_layer_pattern",
        "moe_layer_freq",
        "sliding_window_size",
        "partial_rotary_factor",
        "add_",
        "swa_",
    )
    words = {key: value for key, value in own.items() if not key.startswith(released)}
    rope = {name: {"rope_type": "default", "partial_rotary_factor": 0.334} for name in set(kinds)}
    words |= {"layer_types": kinds, "mlp_layer_types": ["dense"] + ["sparse"] * 47, "sliding_window": 129}
    assert imported({**words, "rope_parameters": rope}).layers == imported(own).layers
    assert imported({**words, "layer_types": None, "mlp_layer_types": None}).layers == imported(own).layers


def test_gemma_4_in_its_wrapper_is_the_same_language_model():
    own = HUB["gemma-4-26b-a4b"]
    text = {key: value for key, value in own.items() if key != "architectures"}
    wrapper = {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], "vision_config": {}}
    assert imported({**wrapper, "text_config": text}).layers == imported(own).layers
    # Layers that see all without keys as values have as many heads as the others, and values.
    apart = parameters("gemma-4-26b-a4b", attention_k_eq_v=False)
    assert apart - parameters("gemma-4-26b-a4b") == 5 * 2816 * 512 * (2 * 8 - 2)


def test_gemma_4_s_small_models_give_each_layer_an_input_of_its_own():
    text = HUB["gemma-4-e2b"]["text_config"]
    plain = imported({**text, "hidden_size_per_layer_input": 0}).layers
    assert len(imported(text).layers) == len(plain) + 2
    # Tables and projections of all layers; in each, two projections and a norm; one norm of the inputs.
    less = 256 * 35 * (262144 + 1536) + 35 * (2 * 256 * 1536 + 1536) + 256
    assert count(text) - count({**text, "hidden_size_per_layer_input": 0}) == less
    # Of the layers that read others' keys and values, the feed-forward parts are twice as wide.
    assert count(text) - count({**text, "use_double_wide_mlp": False}) == 20 * 3 * 6144 * 1536
    alone = count({**text, "num_kv_shared_layers": 0, "use_double_wide_mlp": False})
    own = 16 * (2 * 256 * 1536 + 256) + 4 * (2 * 512 * 1536 + 512)
    assert alone - count({**text, "use_double_wide_mlp": False}) == own


def test_gemma_4_s_last_layer_sees_all():
    """Its configuration changes a last layer that looks back a limited distance."""
    text = HUB["gemma-4-e2b"]["text_config"]
    kinds = [*text["layer_types"][:-1], "sliding_attention"]
    assert imported({**text, "layer_types": kinds}).layers == imported(text).layers


def test_gemma_4_12b_in_its_wrapper_is_the_same_language_model():
    wrapped = HUB["gemma-4-12b"]
    text = wrapped["text_config"]
    assert imported(wrapped).layers == imported(text).layers
    silent = {key: value for key, value in text.items() if key not in ("hidden_size_per_layer_input", "sliding_window")}
    assert imported(silent).layers == imported(text).layers
    with pytest.raises(SpecError, match="hidden_size_per_layer_input: 256 changes the structure"):
        imported({**text, "hidden_size_per_layer_input": 256})


def test_residuals_before_a_norm_keep_as_many_parameters():
    assert parameters("minimax-text-01", postnorm=False) == parameters("minimax-text-01")
    assert imported({**HUB["minimax-text-01"], "postnorm": False}).layers[1].layers[0].layers[0].residual is not None
