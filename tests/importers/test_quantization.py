"""What checkpoints' own weights take: bytes of published files, layers left out, and what a stated precision does.

Bytes of files are those of the tensors (``metadata.total_size`` of their index, or the sum over the safetensors headers), as
public repositories quote them; of gpt-oss-20b the index itself was read, the other files were not.
"""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.graph.ops import Cast
from roofsim.graph.tensor import Role
from roofsim.importers.huggingface import from_config
from roofsim.importers.quantization import UNREAD
from roofsim.program import build

HERE = Path(__file__)
CONFIGS = {
    entry["name"]: entry["config"]
    for name in ("published.json", "published_newer.json")
    for entry in json.loads(HERE.with_name(name).read_text(encoding="utf-8"))
}
LLAMA_8B = CONFIGS["llama3-8b"]
LLAMA_70B = {**CONFIGS["llama2-70b"], "vocab_size": 128256}

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}
MXFP4 = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head",
    ],
}  # fmt: skip
NF4 = {
    "quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
}  # fmt: skip
INT8 = {"quant_method": "bitsandbytes", "load_in_8bit": True}
MODELOPT = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "kv_cache_quant_algo": "FP8",
    "exclude_modules": ["lm_head"],
}


def compressed(weights, inputs=None, ignore=("lm_head",), **keys):
    """Return the configuration of llm-compressor with one scheme for all linear layers."""
    group = {"targets": ["Linear"], "weights": {"symmetric": True, **weights}, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(ignore), **keys,
    }  # fmt: skip


W4A16 = compressed({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "actorder": "group"},
                   format="pack-quantized")  # fmt: skip
FP8_DYNAMIC = compressed(
    {"num_bits": 8, "type": "float", "strategy": "channel"},
    {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}, format="float-quantized",
)  # fmt: skip
W8A8 = compressed(
    {"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int", "dynamic": True},
    format="int-quantized",
)  # fmt: skip


def scenario(config, quantization, *, dtype="bfloat16", gpu="b200", engine="vllm", **workload):
    """Return a scenario of inference on a configuration."""
    config = {**config, "torch_dtype": dtype}
    if quantization is not None:
        config["quantization_config"] = quantization
    return {
        "model": config,
        "workload": {"phase": "prefill", "prompt_length": 16, "engine": engine, **workload},
        "hardware": {"gpu": gpu},
    }


def parameters(request):
    """Return the tensors of a scenario's weights with the bytes of all their copies."""
    graph = build(resolve(request)).stages[0].graph
    return {t.name: (t, t.bytes * times) for t, times in graph.parameters().items() if t.role is Role.PARAMETER}


def weight_bytes(request):
    return sum(held for _, held in parameters(request).values())


#: name -> (configuration, quantization, bytes of the published file beyond what is counted, bytes of the file)
PUBLISHED = {
    # metadata.total_size of openai/gpt-oss-20b and -120b, model.safetensors.index.json
    "gpt-oss-20b": (CONFIGS["gpt-oss-20b"], MXFP4, 0, 13_761_264_768),
    "gpt-oss-120b": (CONFIGS["gpt-oss-120b"], MXFP4, 0, 65_248_815_744),
    # safetensors metadata of RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic
    "fp8 of channels": (LLAMA_8B, FP8_DYNAMIC, 0, 9_083_953_152),
    # RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16, taken to be a GPTQ file with a bias for each of the 43,008 rows of
    # a layer, as AutoGPTQ wrote them: that is what is left
    "gptq": (LLAMA_8B, GPTQ, 32 * 43_008 * 2, 5_735_587_840),
    # RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16, nvidia/Llama-3.3-70B-Instruct-FP4. That the former holds g_idx follows
    # from its size: without, 24,903,680 bytes are missing, which is four for each input of every matrix.
    "compressed int4": (LLAMA_70B, W4A16, 0, 39_525_311_232),
    "nvfp4": (LLAMA_70B, MODELOPT, 0, 42_709_045_632),
    # bf16: unsloth/Meta-Llama-3.1-8B-Instruct
    "bf16": (LLAMA_8B, None, 0, 16_060_522_496),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_bytes_of_published_checkpoints(name):
    config, quantization, beyond, published = PUBLISHED[name]
    assert weight_bytes(scenario(config, quantization)) + beyond == published


def test_bytes_of_deepseek_v3():
    """The published files hold a further layer for multi-token prediction; what is left, 17 ppm, would be their headers."""
    request = scenario(CONFIGS["deepseek-v3"], BLOCKS)
    tensors = parameters(request)
    one = sum(held for name, (_, held) in tensors.items() if name.startswith("layers.")) / 58
    hidden, vocabulary = 7168, 129_280
    head = 2 * vocabulary * hidden * 2  # embedding and output matrix once more, bf16
    joining = hidden * 2 * hidden * 2 + 3 * hidden * 2  # eh_proj and three norms
    corrections = 59 * 256 * 4
    total = sum(held for _, held in tensors.values()) + one + head + joining + corrections
    assert 0 < 688_586_727_753 - total < 2e-5 * total
    # 576 rows of the compressed keys and values: four and a half blocks of 128, whose scales are five.
    down = tensors["layers.self_attention.key_value_down.weight"][0]
    assert down.dtype.itemsize * down.numel == pytest.approx(576 * 7168 + 4 * 5 * 56, rel=1e-12)


def test_bits_of_grouped_integers():
    """Group sizes, zero points and the order of activations as the quantisers lay them out."""
    rows, columns = 4096, 4096
    elements = rows * columns

    def bits(quantization):
        tensor, _ = parameters(scenario(LLAMA_8B, quantization, gpu="h100"))["layers.self_attention.output.weight"]
        return tensor.dtype.itemsize * 8 * elements

    for group in (32, 64, 128):
        assert bits({**AWQ, "group_size": group}) == 4 * elements + elements // group * (16 + 4)
        assert bits({**GPTQ, "group_size": group}) == 4 * elements + elements // group * (16 + 4) + 32 * columns
        plain = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": group}
        assert bits(compressed(plain)) == 4 * elements + elements // group * 16 + 128
        assert bits(compressed({**plain, "symmetric": False})) == 4 * elements + elements // group * 20 + 128
    assert bits({**GPTQ, "group_size": -1}) == 4 * elements + rows * (16 + 4) + 32 * columns
    assert bits({**GPTQ, "bits": 8}) == 8 * elements + elements // 128 * (16 + 8) + 32 * columns
    assert bits(NF4) == 4 * elements + elements // 64 * 8 + elements // (64 * 256) * 32 + 32 * (16 + 256)
    assert bits({**NF4, "bnb_4bit_use_double_quant": False}) == 4 * elements + elements // 64 * 32 + 32 * 16
    assert bits(INT8) == 8 * elements + rows * 32
    assert bits(W8A8) == 8 * elements + rows * 16
    assert bits({**BLOCKS, "weight_block_size": None}) == 8 * elements + 32


def test_left_out_layers_keep_their_type():
    def types(quantization, config=LLAMA_8B):
        return {name: tensor.dtype for name, (tensor, _) in parameters(scenario(config, quantization)).items()}

    plain = types(NF4)
    assert plain["layers.mlp.down.weight"].packed
    assert plain["head.logits.weight"].name == "bf16"
    left = types({**NF4, "llm_int8_skip_modules": ["down_proj", "self_attn", "lm_head"]})
    # Query, key and value are one product where all of them are stored alike and the engine's kernel takes the format.
    kept = {name for name in left if left[name].name == "bf16" and (name not in plain or plain[name].packed)}
    assert kept == {f"layers.{name}.weight" for name in (
        "mlp.down", "self_attention.query_key_value", "self_attention.output",
    )}  # fmt: skip
    # Of one layer in 32 an eighth more bits of the mean: 16 instead of the format's own.
    first = types({**NF4, "llm_int8_skip_modules": ["model.layers.0.mlp.down_proj"]})["layers.mlp.down.weight"]
    own = plain["layers.mlp.down.weight"].itemsize
    assert first.itemsize == pytest.approx(2 / 32 + own * 31 / 32, rel=1e-12)
    experts = types(MXFP4, CONFIGS["gpt-oss-20b"])
    assert {name for name, dtype in experts.items() if dtype.packed} == {
        f"{stack}layers.experts.{role}.weight" for stack in ("", "windowed_") for role in ("gate_up", "down")
    }
    # GPTQ lists what it quantises; ModelOpt and llm-compressor write patterns.
    some = types({**GPTQ, "modules_in_block_to_quantize": [["mlp.up_proj"], ["mlp.gate_proj"]]})
    assert {name for name, dtype in some.items() if dtype.packed} == {"layers.mlp.gate_up.weight"}
    globbed = types({**MODELOPT, "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]})
    assert not globbed["layers.self_attention.query_key_value.weight"].packed
    assert globbed["layers.mlp.gate_up.weight"].packed
    ignoring = copy.deepcopy(FP8_DYNAMIC) | {"ignore": ["re:.*lm_head", "re:.*down_proj"]}
    assert not types(ignoring)["layers.mlp.down.weight"].packed
    assert types(copy.deepcopy(FP8_DYNAMIC) | {"ignore": []})["head.logits.weight"].packed


def test_thousands_of_names_are_read_in_no_time():
    """Files of fp8 list every norm and router of every layer."""
    names = [
        f"model.layers.{n}.{leaf}" for n in range(94) for leaf in ("mlp.gate", "input_layernorm", "self_attn.q_norm")
    ]
    config = {
        **CONFIGS["qwen3-235b-a22b"],
        "quantization_config": {**BLOCKS, "modules_to_not_convert": [*names, "lm_head"]},
    }
    began = time.perf_counter()
    assert from_config(config, "x")["stored"]["wide"] == {}
    assert time.perf_counter() - began < 2.0


def test_products_of_layers_left_out_run_in_16_bits():
    request = scenario(LLAMA_8B, {**BLOCKS, "modules_to_not_convert": ["self_attn"]}, gpu="h100")
    graph = build(resolve(request)).stages[0].graph
    math = {op.name: op.math for op in graph if op.name.startswith("layers.") and op.name.endswith(".matmul")}
    assert {name for name, dtype in math.items() if dtype is not None and dtype.name == "fp8"} == {
        f"layers.mlp.{role}.matmul" for role in ("gate_up", "down")
    }


@pytest.mark.parametrize(
    ("quantization", "dtype", "name", "compute", "math"),
    [
        (AWQ, "float16", "awq-int4-g128", "fp16", "fp16"),
        ({**GPTQ, "bits": 8}, "bfloat16", "gptq-int8-g128", "bf16", "bf16"),
        (BLOCKS, "bfloat16", "fp8-128x128", "bf16", "fp8"),
        (MXFP4, "bfloat16", "mxfp4", "bf16", "bf16"),
        (NF4, "bfloat16", "bitsandbytes-nf4", "bf16", "bf16"),
        (INT8, "float16", "bitsandbytes-int8", "bf16", "int8"),
        (W8A8, "bfloat16", "compressed-tensors-int8", "bf16", "int8"),
        (FP8_DYNAMIC, "bfloat16", "compressed-tensors-fp8", "bf16", "fp8"),
        (W4A16, "bfloat16", "compressed-tensors-int4-g128", "bf16", "bf16"),
        (None, "float16", "fp16", "fp16", "fp16"),
        (None, "torch.bfloat16", "bf16", "bf16", "bf16"),
        (None, "float32", "bf16", "bf16", "bf16"),
        (None, "auto", "bf16", "bf16", "bf16"),
    ],
)
def test_precision_is_the_checkpoint_s_own(quantization, dtype, name, compute, math):
    precision = resolve(scenario(LLAMA_8B, quantization, dtype=dtype, gpu="h100", engine="huggingface")).precision
    assert (precision.name, precision.compute, precision.math) == (name, compute, math)


def test_a_stated_precision_wins_and_says_so():
    request = scenario(
        CONFIGS["gpt-oss-20b"], MXFP4, gpu="rtx4090", phase="decode", prompt_length=None, context_length=512
    )
    own, stated = roofsim.run(request), roofsim.run(request, precision="bf16")
    assert own.memory.fits
    assert not stated.memory.fits
    assert "precision bf16 as stated, instead of the checkpoint's own mxfp4" in stated.warnings
    assert "precision: mxfp4" in own.assumed
    unquantised = roofsim.run(scenario(LLAMA_8B, None, gpu="h100"), precision="fp8")
    assert not any("as stated" in warning for warning in unquantised.warnings)


def test_keys_and_values_take_the_type_that_the_file_asks_for():
    assert resolve(scenario(LLAMA_70B, MODELOPT)).precision.key_value_cache == "fp8"
    assert resolve(scenario(LLAMA_8B, BLOCKS)).precision.key_value_cache == "bf16"


def test_training_takes_16_bits():
    request: dict[str, Any] = {"model": {**LLAMA_8B, "quantization_config": AWQ}, "workload": {"sequence_length": 128}}
    assert resolve(request).precision.weights is None
    assert any("training updates no awq-int4-g128 weights" in note for note in resolve(request).assumed)


@pytest.mark.parametrize("method", [*UNREAD, "something-new"])
def test_methods_that_are_not_read_are_named(method):
    quantization = {"group_size": 64, "bits": 4} if method == "mlx" else {"quant_method": method}
    request = scenario(LLAMA_8B, None if method == "mlx" else quantization)
    if method == "mlx":
        request["model"]["quantization"] = quantization
    with pytest.raises(SpecError, match=rf"does not price weights of {method} .*State the precision that is nearest"):
        resolve(request)
    stated = resolve({**request, "workload": {**request["workload"], "precision": "int4"}})
    assert f"precision int4 as stated, instead of the checkpoint's own {method}" in stated.warnings


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        ({"bits": 4}, r"quantization_config\.quant_method: required key is missing"),
        ([], None),
        ("awq", r": quantization_config: expected an object; got str$"),
        ({**AWQ, "bits": 3}, r"quantization_config\.bits: 3 bits are not supported; expected 4"),
        ({**AWQ, "group_size": "all"}, r"quantization_config\.group_size: expected a whole number"),
        ({**AWQ, "modules_to_not_convert": "lm_head"}, r"modules_to_not_convert: expected a list of texts"),
        ({**BLOCKS, "weight_block_size": [128]}, r"weight_block_size: expected rows and columns"),
        ({**BLOCKS, "activation_scheme": "sometimes"}, r"activation_scheme: 'sometimes' changes"),
        ({**NF4, "bnb_4bit_quant_type": "nf3"}, r"bnb_4bit_quant_type: 'nf3' changes"),
        ({"quant_method": 4}, r"quant_method: expected a text; got 4"),
        ({**W4A16, "ignore": ["re:(a+)+b"]}, r"quantization_config: the pattern '\(a\+\)\+b' repeats what repeats"),
        ({**W4A16, "ignore": ["re:("]}, r"quantization_config: the pattern '\(' is none: missing \)"),
        ({**AWQ, "modules_to_not_convert": [f"part{n}" for n in range(99_999)]}, r"too many patterns for 32 layers"),
    ],
)
def test_bad_values_are_named(quantization, message):
    config = {**LLAMA_8B, "quantization_config": quantization}
    if message is None:
        assert "stored" not in from_config(config, "x/config.json")
        return
    with pytest.raises(SpecError, match=message):
        from_config(config, "x/config.json")


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        (compressed({"num_bits": 4, "type": "int"}, {"num_bits": 8, "type": "int"}), "W4A8"),
        ({**W8A8, "sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse weights"),
        ({**W4A16, "config_groups": {}}, "without config_groups"),
        ({**W4A16, "config_groups": {**W4A16["config_groups"],
            "group_1": FP8_DYNAMIC["config_groups"]["group_0"]}}, "several schemes"),
        ({**MODELOPT, "quant_algo": "W4A8_AWQ"}, "ModelOpt's W4A8_AWQ"),
        ({**GPTQ, "dynamic": {"+:.*mlp.*": {"bits": 8}}}, "differ in bits"),
    ],
)  # fmt: skip
def test_schemes_that_are_not_read_say_so(quantization, message):
    with pytest.raises(SpecError, match=f"{message}.*State the precision"):
        resolve(scenario(LLAMA_8B, quantization))


def test_quantised_decoding_reads_fewer_bytes():
    """The whole of it: weights of four bits are read in less time, and one card holds what needed two."""
    big = scenario(LLAMA_70B, AWQ, dtype="float16", gpu="a100", phase="decode", prompt_length=None, context_length=512)
    wide = copy.deepcopy(big)
    del wide["model"]["quantization_config"]
    own, plain = roofsim.run(big), roofsim.run(wide)
    assert own.memory.fits
    assert not plain.memory.fits
    assert own.step_time < 0.6 * plain.step_time


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("gpt-oss-20b", MXFP4),
        ("gpt-oss-120b", MXFP4),
        ("deepseek-v3", BLOCKS),
        ("kimi-k2", BLOCKS),
        ("minimax-m2", BLOCKS),
    ],
)
def test_the_catalog_says_how_published_checkpoints_are_stored(name, quantization):
    request = scenario(CONFIGS[name], quantization)
    assert weight_bytes({**request, "model": name}) == weight_bytes(request)
    assert resolve({**request, "model": name}).precision == resolve(request).precision


def test_a_checkpoints_own_name_means_its_own_weights():
    """What the headline calls the precision can be stated; a name that means every layer elsewhere says what it leaves out."""
    own = scenario(LLAMA_8B, AWQ, gpu="h100")
    named = scenario(LLAMA_8B, AWQ, gpu="h100", precision="awq-int4-g128")
    assert roofsim.run(named).step_time == roofsim.run(own).step_time
    assert weight_bytes(named) == weight_bytes(own)
    request: dict[str, Any] = {
        "model": "gpt-oss-20b",
        "workload": {"phase": "decode", "engine": "vllm"},
        "hardware": {"gpu": "h100"},
    }
    everywhere = {**request, "workload": {**request["workload"], "precision": "mxfp4"}}
    assert weight_bytes(everywhere) < weight_bytes(request)
    assert [note for note in resolve(everywhere).warnings if "the checkpoint's own mxfp4" in note]
    assert not [note for note in resolve(request).warnings if "checkpoint" in note]


def fine_tuned(quantization, adapter, engine="huggingface", **workload):
    config = {**LLAMA_8B, "torch_dtype": "bfloat16", "quantization_config": quantization}
    return {
        "model": config, "workload": {"adapter": adapter, "engine": engine, "sequence_length": 64, **workload},
        "hardware": {"gpu": "h100"},
    }  # fmt: skip


def test_adapters_on_a_quantised_checkpoint_say_how_the_base_is_kept():
    """Adapters update no base weights, quantised or not: that is no reason to expand them, where the engine can do without."""
    said = {
        (adapter, engine): "; ".join(resolve(fine_tuned(NF4, adapter, engine)).assumed)
        for adapter, engine in (
            (None, "huggingface"),
            ("lora", "huggingface"),
            ("lora", "torchtitan"),
            ("qlora", "huggingface"),
        )
    }
    assert "training updates no bitsandbytes-nf4 weights" in said[None, "huggingface"]
    assert "the frozen base stays bitsandbytes-nf4" in said["lora", "huggingface"]
    for adapter, engine in (("lora", "torchtitan"), ("qlora", "huggingface")):
        assert "the frozen base is not kept as bitsandbytes-nf4" in said[adapter, engine]


@pytest.mark.parametrize("quantization", [AWQ, GPTQ, NF4, INT8], ids=["awq", "gptq", "nf4", "int8"])
@pytest.mark.parametrize("precision", ["bf16", "bf16-amp"])
def test_adapters_leave_a_quantised_base_its_bytes(quantization, precision):
    tuned = parameters(fine_tuned(quantization, "lora", precision=precision))
    served = parameters(scenario(LLAMA_8B, quantization, gpu="h100", engine="huggingface"))
    packed = {name: held for name, (tensor, held) in served.items() if tensor.dtype.packed}
    assert len(packed) == 7
    assert {name: held for name, (tensor, held) in tuned.items() if tensor.dtype.packed} == packed
    trained = sum(tensor.numel for name, (tensor, _) in tuned.items() if tensor.requires_grad)
    assert {name for name, (tensor, _) in tuned.items() if tensor.requires_grad} == {
        name for name in tuned if name not in served
    }
    assert trained == 16 * (2 * 4096 + 2 * (4096 + 1024) + 2 * 4096 + 3 * (4096 + 14336))
    graph = build(resolve(fine_tuned(quantization, "lora", precision=precision))).stages[0].graph
    written = [op for op in graph if isinstance(op, Cast) and op.dequantises]
    assert (
        sum(op.outputs[0].numel * op.count for op in written) == 2 * 32 * 218_103_808
    )  # forward, and again in backward


@pytest.mark.parametrize(
    ("quantization", "adapter"), [(BLOCKS, "lora"), (AWQ, {"kind": "lora", "base": "none"})], ids=["fp8", "stated"]
)
def test_a_base_that_no_engine_trains_beside_is_expanded(quantization, adapter):
    assert not [
        name for name, (tensor, _) in parameters(fine_tuned(quantization, adapter)).items() if tensor.dtype.packed
    ]


@pytest.mark.parametrize("adapter", ["lora", "qlora"])
def test_shards_of_a_quantised_base_stay_quantised(adapter):
    facts = {"frozen_formats": ["int4"]}
    request = fine_tuned(AWQ, adapter, "pytorch-fsdp", engine_facts=facts, global_batch_size=4, precision="bf16")
    whole = sum(held for tensor, held in parameters(request).values() if tensor.dtype.packed)
    request |= {"parallel": {"sharding": "full"}, "hardware": {"gpu": "h100", "gpus": 4}}
    shards = sum(held for tensor, held in parameters(request).values() if tensor.dtype.packed)
    assert whole > 0.0
    assert shards == pytest.approx(whole / 4.0)
