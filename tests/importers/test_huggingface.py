"""Hugging Face configurations: parameter counts of published shapes, agreement with the catalog, and bad input.

published.json holds the facts of published config.json files. The counts are those of transformers 5.23.0 on the meta
device; Whisper with its fixed positions, flan-t5-base and the sizes of Whisper as on their model cards. published_newer.json:
shapes of published models written down without their files at hand, and the counts of transformers 5.17.0 of the same shapes,
towers and projectors included. That version ties the heads of Mistral Small 3.1, InternVL3 and Ministral 3, whose files do not
ask for it: theirs are counted as well. Phi-4-multimodal is its language model, that of Phi-4-mini. published_hub.json: shapes
of decoders that hubs publish, counted by transformers 5.23.0 (types whose code it lacks as the Llama or Qwen 2 that they are);
most were held beside a second description (LitGPT 0.5.13, aiconfigurator-core 0.12), the rest beside their published sizes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofsim.errors import SpecError, UnknownNameError
from roofsim.importers.huggingface import ARCHITECTURES, from_config, import_model, read_config
from roofsim.importers.towers import WRAPPERS
from roofsim.importers.wrappers import unwrap
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.spec import catalog
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate

PUBLISHED = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
NEWER = json.loads(Path(__file__).with_name("published_newer.json").read_text(encoding="utf-8"))
HUB = json.loads(Path(__file__).with_name("published_hub.json").read_text(encoding="utf-8"))
CONFIGS = {entry["name"]: entry["config"] for entry in PUBLISHED}
#: What names a model; stochastic depth, which belongs to a recipe of training; how a published checkpoint is stored.
NAMING = {
    "name",
    "aliases",
    "source",
    "published_parameters",
    "published_parameters_source",
    "stochastic_depth",
    "stored",
}


def imported(config, where="models/some-model/config.json"):
    """Return the validated model of a configuration."""
    mapping = from_config(config, where)
    return validate(family_schema(mapping["family"]), from_mapping(mapping))


def changed(name, **keys):
    """Return a published configuration with some keys replaced, or left out where they are `...`."""
    config = {**CONFIGS[name], **keys}
    return {key: value for key, value in config.items() if value is not ...}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry["name"]) for entry in [*PUBLISHED, *NEWER, *HUB]])
def test_parameters_of_published_shapes(entry):
    graph = lower(imported(entry["config"]), Call(phase="forward"))
    assert sum(tensor.numel * copies for tensor, copies in graph.parameters().items()) == entry["parameters"]


@pytest.mark.parametrize(
    "entry", [one for one in (*PUBLISHED, *HUB) if one["name"] in catalog.names("model")], ids=lambda one: one["name"]
)
def test_the_catalog_says_the_same(entry):
    name = entry["name"]
    document = catalog.load("model", name)
    ours = validate(family_schema(document.data["family"]), document).completed().model_dump(exclude=NAMING)
    assert imported(entry["config"]).completed().model_dump(exclude=NAMING) == ours


def test_every_architecture_has_a_published_shape():
    covered = {unwrap(entry["config"], "x").config["model_type"] for entry in [*PUBLISHED, *NEWER, *HUB]}
    assert set(ARCHITECTURES) == covered | {"RefinedWeb", "RefinedWebModel"}
    wrapped = {entry["config"]["model_type"] for entry in (*NEWER, *HUB)}
    assert set(WRAPPERS) - wrapped == {"smolvlm", "phi4_multimodal"}  # other spellings of idefics3 and phi4mm


def test_a_folder_a_file_and_its_name(tmp_path):
    folder = tmp_path / "My-Llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama3-8b"]), encoding="utf-8")
    assert import_model(folder) == import_model(folder / "config.json")
    assert import_model(folder).mapping["name"] == "My-Llama"
    other = tmp_path / "tiny.json"
    other.write_text(json.dumps(changed("llama3-8b", _name_or_path="meta-llama/Llama-X")), encoding="utf-8-sig")
    assert import_model(other).mapping["name"] == "llama-x"


FILES = {
    "empty": (b"  \n", r"is empty; expected a JSON object"),
    "binary": (b"\x80\x04\x95safetensors", r"is not UTF-8 text \(byte 0\)"),
    "syntax": (b'{\n  "model_type": "llama",\n  "hidden_size": 4096,,\n}', r"config\.json:3:23: is not valid JSON"),
    "cut off": (b'{"model_type": "llama"', r"is not valid JSON"),
    "list": (b"[1, 2]", r"expected a JSON object; got list"),
    "text": (b'"llama"', r"expected a JSON object; got str"),
    "constant": (b'{"hidden_size": NaN}', r"NaN is not a number"),
    "deep": (b"[" * 100_000, r"nested too deeply"),
    "large": (b" " * (10 * 2**20 + 1), r"has 10 MiB; a config.json has at most 10"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_are_no_configuration(tmp_path, case):
    content, message = FILES[case]
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=message) as caught:
        read_config(path)
    assert "config.json" in str(caught.value)
    assert len(caught.value.problems) == 1


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(SpecError, match="no such file"):
        read_config(tmp_path / "nothing.json")
    with pytest.raises(SpecError, match=r"config\.json: no such file"):
        read_config(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(SpecError, match="is not a regular file"):
        read_config(tmp_path)


def test_an_unknown_model_type_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown model_type 'lama'\.? Did you mean 'llama'.*Known: .*gpt_oss"):
        from_config({"model_type": "lama"}, "x/config.json")
    text = {"model_type": "some_text_model"}
    with pytest.raises(
        UnknownNameError, match=r"text_config\.model_type: some_wrapper wraps unknown model_type 'some_text"
    ):
        from_config({"model_type": "some_wrapper", "text_config": text}, "x/config.json")


#: name, changed keys, what the message says
BAD = [
    ("llama3-8b", {"model_type": ...}, r"x/config\.json: model_type: required key is missing"),
    ("llama3-8b", {"model_type": 7}, r"model_type: expected a text; got 7"),
    ("llama3-8b", {"hidden_size": ...}, r"x/config\.json: hidden_size: required key is missing"),
    ("llama3-8b", {"hidden_size": None}, r"hidden_size: is null; expected a value"),
    ("llama3-8b", {"hidden_size": "4096"}, r"hidden_size: expected a whole number; got '4096'"),
    ("llama3-8b", {"hidden_size": 4096.0}, r"hidden_size: expected a whole number; got 4096\.0"),
    ("llama3-8b", {"hidden_size": True}, r"hidden_size: expected a whole number; got true"),
    ("llama3-8b", {"num_hidden_layers": 0}, r"num_hidden_layers: expected a whole number of at least 1; got 0"),
    ("llama3-8b", {"num_hidden_layers": -3}, r"at least 1; got -3"),
    ("llama3-8b", {"hidden_act": "sillu"}, r"hidden_act: unknown activation function 'sillu'\.? Did you mean 'silu'"),
    ("llama3-8b", {"tie_word_embeddings": "no"}, r"tie_word_embeddings: expected true or false; got 'no'"),
    ("llama3-8b", {"attention_dropout": 1.5}, r"attention_dropout: expected a rate from 0 to below 1; got 1\.5"),
    ("llama3-8b", {"attention_dropout": "0"}, r"attention_dropout: expected a number"),
    ("llama3-8b", {"architectures": ["LlamaForSequenceClassification"]}, r"has no language-model head"),
    ("llama3-8b", {"architectures": "LlamaForCausalLM"}, r"architectures: expected a list of texts"),
    ("gpt2-124m", {"add_cross_attention": True}, r"add_cross_attention: true changes the structure"),
    ("gpt2-124m", {"reorder_and_upcast_attn": True}, r"reorder_and_upcast_attn: true changes the structure"),
    ("gpt-neox-20b", {"rotary_pct": 1.5}, r"rotary_pct: expected a share above 0 and up to 1"),
    ("opt-1.3b", {"layer_norm_elementwise_affine": False}, r"layer_norm_elementwise_affine: false changes"),
    ("mpt-7b-alibi", {"attn_config": {"qk_ln": True}}, r"attn_config\.qk_ln: true changes the structure"),
    ("mpt-7b-alibi", {"attn_config": {"attn_type": "linear"}}, r"attn_config\.attn_type: 'linear' changes"),
    ("mpt-7b-alibi", {"attn_config": []}, r"attn_config: expected an object; got \[\]"),
    ("mpt-7b-alibi", {"norm_type": "rmsnorm"}, r"norm_type: 'rmsnorm' changes the structure"),
    ("bloom-560m", {"apply_residual_connection_post_layernorm": True}, r"apply_residual_connection_post_layernorm"),
    ("phi-2", {"qk_layernorm": True}, r"qk_layernorm: true changes the structure"),
    ("mixtral-8x7b", {"router_jitter_noise": "0.1"}, r"router_jitter_noise: expected a number"),
    ("mpt-7b-alibi", {"attn_config": {"clip_qkv": "6"}}, r"attn_config\.clip_qkv: expected a number"),
    ("mixtral-8x7b", {"output_router_logits": True}, r"output_router_logits: true changes the structure"),
    ("qwen2-7b", {"use_sliding_window": True, "max_window_layers": 21}, r"max_window_layers: 21 layers with full"),
    ("qwen3-30b-a3b", {"decoder_sparse_step": 2}, r"decoder_sparse_step: 2 changes the structure.*expected 1"),
    ("qwen3-30b-a3b", {"mlp_only_layers": [3]}, r"mlp_only_layers: supported are leading layers only"),
    ("qwen3-30b-a3b", {"mlp_only_layers": ["a"]}, r"mlp_only_layers: expected a list of whole numbers"),
    ("gemma2-9b", {"layer_types": ["full_attention"] * 41}, r"layer_types: has 41 entries for 42 layers"),
    ("gemma2-9b", {"layer_types": ["chunked_attention"] * 42}, r"layer_types: 'chunked_attention' is not supported"),
    (
        "gemma2-9b",
        {"layer_types": ["sliding_attention", "full_attention", "full_attention"] * 14},
        r"layer_types: is irregular",
    ),
    ("deepseek-v2", {"topk_method": "noaux_tc"}, r"topk_method: 'noaux_tc' changes the structure"),
    ("deepseek-v3", {"moe_layer_freq": 2}, r"moe_layer_freq: 2 changes the structure"),
    ("deepseek-v3", {"scoring_func": "softmax"}, r"scoring_func: 'softmax' changes the structure"),
    ("bert-base", {"position_embedding_type": "relative_key"}, r"position_embedding_type: 'relative_key' changes"),
    ("bert-base", {"architectures": ["BertForTokenClassification"]}, r"the head of BertForTokenClassification"),
    ("bert-base", {"is_decoder": True}, r"is_decoder: true changes the structure"),
    ("roberta-base", {"max_position_embeddings": 2}, r"max_position_embeddings: expected more than 2"),
    ("distilbert-base", {"sinusoidal_pos_embds": True}, r"sinusoidal_pos_embds: true changes"),
    ("t5-base", {"feed_forward_proj": "gated-gelu-squared"}, r"feed_forward_proj: unknown activation function"),
    ("t5-base", {"architectures": ["T5EncoderModel"]}, r"T5EncoderModel is not supported"),
    ("whisper-tiny", {"decoder_attention_heads": 8}, r"decoder_attention_heads: 8 changes the structure.*expected 6"),
    ("whisper-tiny", {"encoder_layerdrop": 0.1}, r"encoder_layerdrop: dropping whole layers"),
    ("vit-base", {"architectures": ["ViTModel"]}, r"ViTModel is not supported"),
    ("swin-tiny", {"use_absolute_embeddings": True}, r"use_absolute_embeddings: true changes"),
    ("convnext-tiny", {"patch_size": 2}, r"patch_size: 2 changes the structure"),
    ("resnet-50", {"depths": [3, 4, 5, 3]}, r"depths: \[3, 4, 5, 3\] of bottleneck blocks is none of the known"),
    ("resnet-50", {"hidden_sizes": [64, 128, 256, 512]}, r"hidden_sizes: \[64, 128, 256, 512\] changes"),
]


@pytest.mark.parametrize(("name", "keys", "message"), BAD)
def test_bad_values_are_named(name, keys, message):
    with pytest.raises(SpecError, match=message) as caught:
        from_config(changed(name, **keys), "x/config.json")
    assert str(caught.value).startswith("x/config.json: ")


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("deberta-v3-base", {"share_att_key": False}, "share_att_key: false changes the structure"),
        (
            "deberta-v3-base",
            {"share_att_key": None},
            "share_att_key: is null, which the class takes otherwise; expected true",
        ),
        ("deberta-v3-base", {"pos_att_type": "c2p"}, "pos_att_type: supported is attention both ways"),
        ("deberta-v3-base", {"pos_att_type": 7}, "pos_att_type: expected a list of texts"),
        ("deberta-v3-base", {"conv_kernel_size": 3}, "conv_kernel_size: 3 changes the structure"),
        (
            "mpnet-base",
            {"relative_attention_num_buckets": 0},
            "relative_attention_num_buckets: expected a whole number",
        ),
        ("dbrx-132b", {"ffn_config": {"moe_normalize_expert_weights": 2.0}}, "weights of another norm than the sum"),
        ("dbrx-132b", {"attn_config": {"clip_qkv": "8"}}, "attn_config.clip_qkv: expected a number"),
        ("olmoe-1b-7b", {"clip_qkv": True}, "clip_qkv: expected a number"),
        ("phi-3.5-moe", {"output_router_logits": True}, "output_router_logits: true changes the structure"),
    ],
)
def test_bad_values_of_further_models_are_named(name, keys, message):
    config = next(entry["config"] for entry in HUB if entry["name"] == name)
    with pytest.raises(SpecError, match=message):
        from_config({**config, **keys}, "x/config.json")


def test_lists_say_the_ways_of_disentangled_attention_too():
    config = next(entry["config"] for entry in HUB if entry["name"] == "deberta-v3-base")
    assert from_config({**config, "pos_att_type": ["c2p", "p2c"]}, "x") == from_config(config, "x")


def test_what_does_not_shape_the_model_is_passed_over():
    noise = {
        "rope_scaling": {"rope_type": "some-new-type", "factor": 8.0},
        "rope_theta": 1e6,
        "bos_token_id": 1,
        "use_cache": True,
        "transformers_version": "9.9",
    }
    assert from_config(changed("llama3-8b", **noise), "x") == from_config(CONFIGS["llama3-8b"], "x")


def test_regular_windows_are_read_from_the_layer_types():
    kinds = (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2
    model = imported(changed("gemma3-1b", layer_types=kinds, sliding_window_pattern=...))
    assert (model.sliding_window, model.full_attention_every) == (512, 6)
    assert imported(changed("gpt-oss-20b", layer_types=["full_attention"] * 24)).sliding_window is None
    everywhere = imported(changed("gpt-oss-20b", layer_types=["sliding_attention"] * 24))
    assert (everywhere.sliding_window, everywhere.full_attention_every) == (128, None)
    qwen = imported(changed("qwen2-7b", use_sliding_window=True, max_window_layers=0, sliding_window=4096))
    assert (qwen.sliding_window, qwen.full_attention_every) == (4096, None)
    assert imported(changed("qwen2-7b", use_sliding_window=True, max_window_layers=28)).sliding_window is None
    assert imported(changed("qwen2-7b", use_sliding_window=False, sliding_window=4096)).sliding_window is None


GEMMA_3N = next(entry["config"] for entry in HUB if entry["name"] == "gemma-3n-e4b")


def test_layers_that_are_alike_repeat_in_whatever_order_they_stand():
    def parameters(**keys):
        graph = lower(imported({**GEMMA_3N, **keys}), Call(phase="forward"))
        return sum(tensor.numel * copies for tensor, copies in graph.parameters().items())

    defaults = {"layer_types": None, "activation_sparsity_pattern": None, "intermediate_size": 16384}
    assert parameters(**defaults) == parameters()
    kinds = ["full_attention", "sliding_attention", "sliding_attention"] * 11 + ["full_attention"] * 2
    assert parameters(layer_types=kinds) == parameters()
    # One of 35 layers is half as wide; keys and values of 15 more layers, of two matrices and one norm each.
    assert parameters() - parameters(intermediate_size=[8192] + [16384] * 34) == 3 * 2048 * 8192
    assert parameters(num_kv_shared_layers=0) - parameters() == 15 * (2 * 2048 * 512 + 256)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"intermediate_size": [16384] * 34}, "intermediate_size: expected 35 widths of at least 1; got 34"),
        ({"activation_sparsity_pattern": [1.0] * 35}, "activation_sparsity_pattern: expected 35 shares from 0 to below 1"),
        ({"num_kv_shared_layers": 33}, "num_kv_shared_layers: no layer before the last 33 has keys and values"),
        ({"num_hidden_layers": 100_000}, "num_hidden_layers: expected at most 512; got 100000"),
        ({"altup_correct_scale": False}, "altup_correct_scale: false changes the structure"),
        ({"layer_types": ["full_attention"]}, "layer_types: has 1 entries for 35 layers"),
        ({"layer_types": ["chunked_attention"] * 35}, "layer_types: 'chunked_attention' is not supported"),
        ({"architectures": ["Gemma3nTextModel"]}, "Gemma3nTextModel has no language-model head"),
    ],
)  # fmt: skip
def test_lists_of_layers_that_do_not_fit_are_refused(keys, message):
    with pytest.raises(SpecError, match=message) as caught:
        from_config({**GEMMA_3N, **keys}, "x/config.json")
    assert str(caught.value).startswith("x/config.json: ")


def test_older_and_newer_spellings_agree():
    old = changed(
        "falcon-7b", model_type="RefinedWebModel", n_layer=32, n_head=71, num_hidden_layers=..., num_attention_heads=...
    )
    assert imported(old).completed() == imported(changed("falcon-7b", model_type="falcon")).completed().model_copy(
        update={"source": "Hugging Face configuration of type RefinedWebModel"}
    )
    rope = changed("gpt-neox-20b", rotary_pct=..., rope_parameters={"partial_rotary_factor": 0.25})
    assert imported(rope) == imported(CONFIGS["gpt-neox-20b"])
    assert imported(changed("mpt-7b-alibi", attn_config={"alibi": False})).position_embedding == "learned"
    assert imported(changed("mpt-7b-alibi", attn_config={"attn_type": "multiquery_attention"})).num_key_value_heads == 1


def test_an_impossible_shape_is_the_schema_s_business():
    with pytest.raises(SpecError, match="num_attention_heads 32 is not a multiple of num_key_value_heads 5"):
        imported(changed("llama3-8b", num_key_value_heads=5))
