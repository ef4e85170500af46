"""Captured programs that a plan of their modules splits: against roofsim's own families, and what is refused."""

import itertools
import re
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import roofsim
from roofsim.cli.lazy import app
from roofsim.errors import SpecError
from roofsim.graph.base import HEAVY_KINDS
from roofsim.graph.ops import Collective
from roofsim.structures import program_of
from roofsim_evidence.places import measurements

CAPTURES = measurements() / "captures"
GPT2, GPT2_8, LLAMA = (CAPTURES / f"{name}.roofsim.json.gz" for name in ("gpt2", "gpt2-8-heads", "llama-8-heads"))
OF_GPT2: dict[str, Any] = {
    "tensor": {
        "transformer.wte": "RowwiseParallel",
        "transformer.h.*.attn.c_attn": {"style": "ColwiseParallel", "parts": 3},
        "transformer.h.*.attn.c_proj": "RowwiseParallel",
        "transformer.h.*.mlp.c_fc": "ColwiseParallel",
        "transformer.h.*.mlp.c_proj": "RowwiseParallel",
        "lm_head": "ColwiseParallel",
    },
    "loss_parallel": True,
    "pipeline": "transformer.h",
}
OF_LLAMA: dict[str, Any] = {
    "tensor": {
        "model.embed_tokens": "RowwiseParallel",
        "model.layers.*.self_attn": "PrepareModuleInput",
        "model.layers.*.self_attn.[qkv]_proj": "ColwiseParallel",
        "model.layers.*.self_attn.o_proj": "RowwiseParallel",
        "model.layers.*.mlp": "PrepareModuleInput",
        "model.layers.*.mlp.gate_proj": "ColwiseParallel",
        "model.layers.*.mlp.up_proj": "ColwiseParallel",
        "model.layers.*.mlp.down_proj": "RowwiseParallel",
        "lm_head": "ColwiseParallel",
    },
    "loss_parallel": True,
    "pipeline": "model.layers",
}
BY_TOKENS: dict[str, Any] = {
    "tensor": {
        **OF_LLAMA["tensor"],
        "model.embed_tokens": {"style": "RowwiseParallel", "output_layouts": "Shard(1)"},
        "model.layers.*.*norm": "SequenceParallel",
        "model.layers.*.self_attn": {"style": "PrepareModuleInput", "input_layouts": "Shard(1)"},
        "model.layers.*.self_attn.o_proj": {"style": "RowwiseParallel", "output_layouts": "Shard(1)"},
        "model.layers.*.mlp": {"style": "PrepareModuleInput", "input_layouts": "Shard(1)"},
        "model.layers.*.mlp.down_proj": {"style": "RowwiseParallel", "output_layouts": "Shard(1)"},
        "model.norm": "SequenceParallel",
    },
    "loss_parallel": True,
}
OWN_GPT2: dict[str, Any] = {
    "inherits": "gpt2-124m", "hidden_size": 512, "num_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 8,
    "intermediate_size": 2048, "published_parameters": None,
}  # fmt: skip
OWN_LLAMA: dict[str, Any] = {
    "family": "decoder", "hidden_size": 512, "intermediate_size": 1408, "num_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 32000, "normalization": "rmsnorm", "position_embedding": "rotary",
    "gated_mlp": True, "tie_embeddings": False, "max_sequence_length": 4096,
}  # fmt: skip
CASES: dict[str, Any] = {
    "gpt2": (GPT2_8, OF_GPT2, OWN_GPT2, {}),
    "llama": (LLAMA, OF_LLAMA, OWN_LLAMA, {}),
    "llama by tokens": (
        LLAMA,
        BY_TOKENS,
        OWN_LLAMA,
        {"sequence": True, "workload__engine_facts": {"sequence_gather": "saved"}},
    ),
}
WORK = {"gpu": "h100", "engine": "huggingface", "batch": 8, "seq_len": 1024}


def totals(scenario, **settings):
    """Return heavy FLOPs by phase, bytes of messages by phase and function, and the parameters of a rank."""
    flops: dict[str, Any] = {}
    messages: dict[tuple[str, str], Any] = {}
    graph = program_of(roofsim.resolve(scenario, **settings)).stages[0].graph
    for op in graph:
        times = 1.0 if op.block is None else op.block.repeat
        if op.group in HEAVY_KINDS:
            flops[str(op.phase)] = flops.get(str(op.phase), 0.0) + op.flops() * times
        if isinstance(op, Collective) and op.function != "identity":
            key = (str(op.phase), op.function)
            messages[key] = messages.get(key, 0.0) + op.message() * times
    return flops, messages, sum(tensor.numel * times for tensor, times in graph.parameters().items())


@pytest.mark.parametrize(("case", "tensor"), list(itertools.product(CASES, (2, 4, 8))))
def test_a_tensor_rank_does_what_one_of_the_family_does(case, tensor):
    file, plan, own, more = CASES[case]
    settings = {**WORK, "gpus": tensor, "tensor": tensor}
    flops, messages, parameters = totals(file, model__parallelize=plan, **settings)
    assert (flops, messages, parameters) == totals({"model": own}, **settings, **more)
    assert len(messages) >= 2
    captured = roofsim.run(file, model__parallelize=plan, **settings)
    family = roofsim.run({"model": own}, **settings, **more)
    assert captured.step_time == pytest.approx(family.step_time, rel=0.03)
    assert captured.to_dict()["memory"]["peak"] == pytest.approx(family.to_dict()["memory"]["peak"], rel=0.03)


@pytest.mark.parametrize(
    ("case", "pipeline", "tensor"), [("gpt2", 2, 1), ("gpt2", 3, 2), ("llama", 6, 1), ("llama", 2, 4)]
)
def test_a_pipeline_stage_is_that_of_the_family(case, pipeline, tensor):
    file, plan, own, _ = CASES[case]
    settings = {"gpu": "h100", "engine": "huggingface", "micro_batch_size": 8, "global_batch_size": 64, "seq_len": 1024}
    settings |= {"gpus": pipeline * tensor, "pipeline": pipeline, "tensor": tensor}
    captured = roofsim.run(file, model__parallelize=plan, **settings)
    family = roofsim.run({"model": own}, **settings)
    assert captured.step_time == pytest.approx(family.step_time, rel=0.03)
    assert captured.to_dict()["memory"]["peak"] == pytest.approx(family.to_dict()["memory"]["peak"], rel=0.03)


def test_stages_begin_where_the_plan_says():
    plan = {"pipeline": ["transformer.h.2", "transformer.h.6", "transformer.h.9"]}
    settings = {"gpu": "h100", "gpus": 4, "pipeline": 4, "micro_batch_size": 1, "global_batch_size": 8, "seq_len": 512}
    assert roofsim.resolve(GPT2, model__parallelize=plan, **settings).parallel.stage_layers == (2, 4, 3, 3)
    even = roofsim.resolve(GPT2, model__parallelize={"pipeline": "transformer.h"}, **settings)
    assert even.parallel.stage_layers is None
    with pytest.raises(SpecError, match="4 numbers of layers for 2 stages"):
        roofsim.resolve(GPT2, model__parallelize=plan, **{**settings, "pipeline": 2, "gpus": 2})


def test_without_a_module_input_that_is_prepared_each_layer_sums_its_gradient():
    """PrepareModuleInput makes queries, keys and values share one sum; without it, each linear layer has its own."""
    plain = {key: style for key, style in OF_LLAMA["tensor"].items() if style != "PrepareModuleInput"}
    settings = {**WORK, "gpus": 2, "tensor": 2}
    _, shared, _ = totals(LLAMA, model__parallelize=OF_LLAMA, **settings)
    _, each, _ = totals(LLAMA, model__parallelize={**OF_LLAMA, "tensor": plain}, **settings)
    message = 8 * 1024 * 512 * 2
    assert shared["backward", "all_reduce"] == message * (6 * 2 + 1)
    assert each["backward", "all_reduce"] == message * (6 * 5 + 1)


def test_logits_are_gathered_for_a_loss_that_wants_whole_rows():
    plan = {**OF_LLAMA, "loss_parallel": False}
    settings = {**WORK, "gpus": 2, "tensor": 2}
    with pytest.raises(SpecError, match="needs whole rows of what is split"):
        roofsim.run(LLAMA, model__parallelize=plan, **settings)
    gathers = {**plan, "tensor": {**plan["tensor"], "lm_head": "colwise_rep"}}
    _, messages, _ = totals(LLAMA, model__parallelize=gathers, **settings)
    assert messages["forward", "all_gather"] == 8 * 1024 * 32000 * 2


def test_a_sweep_over_degrees_is_each_of_its_points():
    table = roofsim.sweep(
        LLAMA, {"tensor": [1, 2, 4], "batch": [2, 4]}, figures="step_time", gpu="h100", gpus=4, seq_len=512,
        model__parallelize=OF_LLAMA, global_batch_size=16,
    )  # fmt: skip
    for row in table.to_rows():
        alone = roofsim.run(
            LLAMA, gpu="h100", gpus=4, seq_len=512, global_batch_size=16, model__parallelize=OF_LLAMA,
            tensor=row["tensor"], batch=row["batch"],
        )  # fmt: skip
        assert row["step_time"] == pytest.approx(alone.step_time, rel=1e-9)


@pytest.mark.parametrize(
    ("plan", "degree", "said"),
    [
        ({"tensor": {"transformer.h.*.attn.c_atn": "colwise"}}, 2, "is called. Did you mean 'transformer.h.*.attn.c_attn'"),
        ({"tensor": {"transformer.h.*.attn.c_attn": "Colwise"}}, 2, "'Colwise' is no style of a module. Did you mean 'colwise'"),
        ({"tensor": {"transformer.h.*.attn.c_attn": "colwise"}}, 2, "where the weight stacks 3 matrices, say parts: 3"),
        ({"tensor": {"transformer.h.*.ln_1": "colwise"}}, 2, "this module runs aten.native_layer_norm"),
        ({"tensor": {"transformer.h.*.ln_1": "SequenceParallel"}}, 2, "let what makes it give output_layouts: Shard(1)"),
        ({"tensor": {"transformer.h.*.mlp.c_proj": "rowwise"}}, 2, "its input comes as Replicate: a RowwiseParallel module takes"),
        ({"tensor": {"transformer.h.*.mlp.c_fc": "colwise"}}, 2, "aten.addmm (transformer.h.0.mlp.c_proj"),
        ({"tensor": {"transformer.wte": "rowwise"}}, 2, "Name lm_head in the plan as well: both read the same weight"),
        ({"tensor": {"transformer.wte": "rowwise", "*.wte": "rowwise"}}, 2, "which another line of the plan names"),
        (OF_GPT2, 8, "tensor 8 does not divide 12, which the plan splits in transformer.h.0.attn"),
        (OF_GPT2, 5, "tensor 5 does not divide"),
        ({}, 2, "an empty mapping changes nothing"),
        ({"tensor": {"": "colwise"}}, 2, "expected the name of a module"),
        ({"tensor": {"lm_head": {"style": "ColwiseParallel", "parts": 0}}}, 2, "parts"),
        ({"tensor": {"lm_head": {"style": "ColwiseParallel", "output_layouts": "Shard(7)"}}}, 2, "Shard(1)"),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_refused(plan, degree, said):
    with pytest.raises(SpecError, match=re.escape(said)):
        roofsim.run(GPT2, model__parallelize=plan, gpu="h100", gpus=degree, tensor=degree, batch=8, seq_len=512)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ("transformer.hh", "no list of modules 'transformer.hh' is in"),
        (["transformer.h.3", "lm_head"], "no stage can begin at 'lm_head'"),
        (["transformer.h.12"], "Stages behind the first begin at transformer.h.1 to transformer.h.11"),
        (["transformer.h.0"], "no stage can begin at 'transformer.h.0'"),
        (["transformer.h.6", "transformer.h.3"], "in the order of their layers"),
    ],
)
def test_where_no_stage_can_begin(points, said):
    with pytest.raises(SpecError, match=re.escape(said)):
        roofsim.run(GPT2, model__parallelize={"pipeline": points}, gpu="h100", gpus=2, pipeline=2)


def test_an_op_without_a_sharding_rule_is_named(tmp_path):
    import gzip
    import json

    data = json.loads(gzip.decompress(LLAMA.read_bytes()))
    next(op for op in data["ops"] if op["op"] == "aten.silu")["op"] = "aten.cumsum"
    path = tmp_path / "own.roofsim.json"
    path.write_text(json.dumps(data))
    with pytest.raises(SpecError, match=r"aten\.cumsum \(model\.layers\.0\.mlp\.act_fn.*has no sharding rule"):
        roofsim.run(path, model__parallelize=OF_LLAMA, gpu="h100", gpus=2, tensor=2, batch=4)


def test_a_plan_file_on_the_command_line(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump(OF_LLAMA))
    command = ["run", str(LLAMA), "--parallelize", str(plan), "--gpu", "h100", "--gpus", "2", "--tensor", "2", "--json"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    for text, said in (
        (None, "plan.yaml"),
        ("", "plan.yaml"),
        ("[1, 2]", "parallelize"),
        ("tensor: {a: 3}", "parallelize"),
    ):
        plan.unlink(missing_ok=True)
        if text is not None:
            plan.write_text(text)
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, SpecError)
        assert said in str(refused.exception)
