"""Tables are priced as one row is: steps as `run`, kernels and layers as `ops`, collectives as `collectives`, to 1e-9."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.ops import Attention, Matmul
from roofsim.oracle import steps
from roofsim.search.mesh import forget
from tests.traces.scenarios import evaluation_of

SAME = 1e-9
SMALL: dict[str, Any] = {
    "family": "decoder", "num_layers": 4, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 4096, "max_sequence_length": 65536, "gated_mlp": True, "normalization": "rmsnorm",
    "position_embedding": "rotary",
}  # fmt: skip


def run_of(row, **options):
    words = {key.replace(".", "__"): value for key, value in row.items()}
    return roofsim.run({"model": SMALL}, **words, **options)


def compare(table, kind, **options):
    priced = roofsim.predict_batch(kind, table, {"model": SMALL}, **options)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    for number, row in enumerate(rows):
        single = run_of(
            {key: value.item() if hasattr(value, "item") else value for key, value in row.items()},
            phase=kind,
            **options,
        )
        assert priced["time"][number] == pytest.approx(float(single.step_time), rel=SAME)
        assert priced["memory_peak"][number] == pytest.approx(float(single.memory.device_total), rel=SAME)
        assert bool(priced["fits"][number]) == single.memory.fits
    return priced


@settings(max_examples=6, deadline=None)
@given(
    kind=st.sampled_from(["prefill", "decode"]),
    gpu=st.sampled_from(["h100", "a100", "l4", "mi300x"]),
    engine=st.sampled_from(["vllm", "tensorrt-llm", "pytorch-eager"]),
    tensor=st.sampled_from([1, 2, 4]),
    rows=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 16_384)), min_size=1, max_size=4),
)
def test_steps_of_inference_are_those_of_run(kind, gpu, engine, tensor, rows):
    length = "context_length" if kind == "decode" else "prompt_length"
    table = {"batch_size": [batch for batch, _ in rows], length: [tokens for _, tokens in rows]}
    compare(table, kind, gpu=gpu, engine=engine, tensor=tensor, gpus=tensor)


def test_steps_of_training_are_those_of_run():
    table: dict[str, Any] = {
        "micro_batch_size": [1, 2, 3],
        "sequence_length": [128, 1024, 640],
        "recompute": ["none", "full", "selective"],
    }
    compare(table, "train", gpu="a100", engine="torchtitan", sharding="full", gpus=8)


def test_words_and_numbers_of_hardware_may_be_columns():
    table: dict[str, Any] = {
        "gpu": ["h100", "a100", "h100"],
        "batch_size": [4, 4, 8],
        "memory.bandwidth": ["2 TB/s", "1 TB/s", "4 TB/s"],
    }
    table["hardware.override.gpu.memory.bandwidth"] = table.pop("memory.bandwidth")
    priced = roofsim.predict_batch("decode", table, {"model": SMALL}, context_length=512)
    for number in range(3):
        scenario = {
            "model": SMALL,
            "workload": {"phase": "decode", "batch_size": table["batch_size"][number], "context_length": 512},
            "hardware": {
                "gpu": table["gpu"][number],
                "override": {"gpu.memory.bandwidth": table["hardware.override.gpu.memory.bandwidth"][number]},
            },
        }
        assert priced["time"][number] == pytest.approx(float(roofsim.run(scenario).step_time), rel=SAME)


def test_many_rows_are_replayed_and_stay_the_same(monkeypatch):
    forget()
    monkeypatch.setattr(steps, "_REPLAYED_FROM", 64)
    generator = np.random.default_rng(3)
    table = {"batch_size": generator.integers(1, 200, 400), "context_length": generator.integers(1, 9000, 400)}
    priced = roofsim.predict_batch("decode", table, {"model": SMALL}, gpu="h100", engine="vllm")
    assert not priced.reasons
    for number in (0, 17, 399):
        row = {name: int(values[number]) for name, values in table.items()}
        single = run_of(row, phase="decode", gpu="h100", engine="vllm")
        assert priced["time"][number] == pytest.approx(float(single.step_time), rel=SAME)
    again = roofsim.predict_batch(
        "decode", {name: values[:3] for name, values in table.items()}, {"model": SMALL}, gpu="h100", engine="vllm"
    )
    assert again["time"] == pytest.approx(priced["time"][:3], rel=SAME)


def test_rows_that_cannot_be_have_a_reason():
    table = {"tensor": [1, 3, 2], "batch_size": [1, 1, 0], "gpus": [1, 3, 2]}
    priced = roofsim.predict_batch("decode", table, {"model": SMALL}, gpu="h100", context_length=128)
    assert np.isnan(priced["time"]).tolist() == [False, True, True]
    assert set(priced.reasons) == {1, 2}
    assert "0" in priced.reasons[2]
    assert json.loads(json.dumps(priced.to_dict()))["columns"]["time"][1] is None
    assert [row["time"] is None for row in priced.to_rows()] == [False, True, True]
    with pytest.raises(SpecError, match=r"no row can be priced; row 0"):
        roofsim.predict_batch("decode", {"batch_size": [0]}, {"model": SMALL}, gpu="h100")


# -- kernels --------------------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    phase=st.sampled_from(["train", "prefill"]),
    gpu=st.sampled_from(["h100", "a100", "rtx4090", "v100"]),
    length=st.integers(16, 4096),
)
def test_kernels_are_those_of_a_step(phase, gpu, length):
    workload = {"phase": phase, "micro_batch_size": 2, "precision": "fp16"}
    workload |= {"prompt_length": length} if phase == "prefill" else {"sequence_length": length}
    scenario = {"model": SMALL, "workload": workload, "hardware": {"gpu": gpu}}
    evaluation = evaluation_of(scenario)
    costs = [cost for priced in evaluation.priced for cost in priced.per_op() if str(cost.op.phase) == "forward"]
    products = [cost for cost in costs if type(cost.op) is Matmul and not cost.op.scores and len(cost.op.inputs) == 2]
    products = [cost for cost in products if cost.op.inputs[0].dtype.name == "fp16" == cost.op.outputs[0].dtype.name]
    assert products
    table = {name: [float(getattr(cost.op, name)) for cost in products] for name in ("m", "n", "k", "batch")}
    priced = roofsim.predict_batch("kernel", {**table, "op": ["matmul"], "dtype": ["fp16"]}, scenario)
    assert priced["time"] == pytest.approx([float(cost.lasting(0.0)) for cost in products], rel=SAME)
    assert priced["flops"] == pytest.approx([float(cost.op.flops()) for cost in products], rel=SAME)


def test_attention_is_that_of_a_step():
    scenario = {
        "model": SMALL,
        "workload": {"phase": "prefill", "prompt_length": 1024, "batch_size": 3},
        "hardware": {"gpu": "h100"},
    }
    evaluation = evaluation_of(scenario)
    cost = next(cost for priced in evaluation.priced for cost in priced.per_op() if isinstance(cost.op, Attention))
    priced = roofsim.predict_batch(
        "kernel",
        [{"op": "attention", "batch": 3, "heads": 8, "kv_heads": 4, "head_size": 64, "q_length": 1024}],
        scenario,
    )
    assert priced["time"][0] == pytest.approx(float(cost.lasting(0.0)), rel=SAME)
    assert priced["bound"][0] in ("compute", "memory_bandwidth", "launch")


def test_a_table_of_kernels_is_its_rows_one_by_one():
    generator = np.random.default_rng(1)
    table = {name: generator.integers(1, 5000, 60) for name in ("m", "n", "k", "elements", "rows", "width")}
    table["op"] = np.array(["matmul", "elementwise", "normalization", "softmax"] * 15)
    together = roofsim.predict_batch("kernel", table, gpu="a100")
    apart = [
        roofsim.predict_batch("kernel", {name: values[at : at + 1] for name, values in table.items()}, gpu="a100")
        for at in range(0, 60, 7)
    ]
    for name in ("time", "flops", "bytes"):
        assert together[name][::7] == pytest.approx([one[name][0] for one in apart], rel=SAME)
    assert np.isfinite(together["time"]).all()


# -- layers and collectives -------------------------------------------------------------------------------------------------


def test_layers_are_the_kernels_of_ops():
    options: dict[str, Any] = {"gpu": "a100", "engine": "pytorch-eager"}
    table = {"micro_batch_size": [1, 4], "sequence_length": [512, 2048]}
    priced = roofsim.predict_batch("layer", table, {"model": SMALL}, **options)
    for number in range(2):
        scenario = {"model": SMALL, "workload": {key: values[number] for key, values in table.items()}}
        rows = roofsim.ops(scenario, **options).rows
        for phase, name in (("forward", "layers.forward"), ("backward", "layers.backward")):
            own = [row["time"] for row in rows if row["phase"] == phase and row["name"].startswith("layers.")]
            assert priced[name][number] == pytest.approx(math.fsum(own) / SMALL["num_layers"], rel=SAME)


def test_messages_of_layers_are_added():
    priced = roofsim.predict_batch(
        "layer", {"sequence_length": [512, 1024]}, {"model": SMALL}, gpu="a100", gpus=2, tensor=2
    )
    assert (priced["layers.communication"] > 0.0).all()
    assert priced["layers.communication"][1] > priced["layers.communication"][0]


def test_collectives_are_those_of_the_verb():
    sizes = [2.0**power for power in range(10, 30, 3)]
    priced = roofsim.predict_batch(
        "collective", {"op": ["all_gather"], "bytes": sizes, "ranks": [16]}, gpu="h100", gpus=16
    )
    rows = roofsim.collectives("dgx-h100", "all_gather", ranks=[16], sizes=sizes).rows
    assert priced["time"] == pytest.approx([row["seconds"] for row in rows], rel=SAME)
    assert priced["bus_bandwidth"] == pytest.approx([row["bus_bandwidth"] for row in rows], rel=SAME)


# -- refusals and forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "table", "said"),
    [
        ("kernels", {"m": [1]}, "unknown kind 'kernels'.*Did you mean 'kernel'"),
        ("kernel", {"mm": [1]}, "a kernel has no column 'mm'"),
        (
            "kernel",
            {"op": ["matmull"], "m": [1], "n": [1], "k": [1]},
            "row 0: unknown op 'matmull'.*Did you mean 'matmul'",
        ),
        ("kernel", {"m": [1], "n": [1]}, "a matmul needs the column 'k'"),
        ("kernel", {"m": [0], "n": [1], "k": [1]}, "row 0: expected a number above 0; got 0"),
        ("kernel", {"m": ["x"], "n": [1], "k": [1]}, "table m: expected numbers"),
        ("kernel", {"m": [math.inf], "n": [1], "k": [1]}, "row 0: expected a number above 0; got inf"),
        ("collective", {"size": [1], "ranks": [8]}, "a collective has no column 'size'"),
        ("collective", {"bytes": [1e30], "ranks": [8]}, "row 0: at most"),
        ("decode", {"batchsize": [1]}, "is no key of a scenario. Did you mean 'batch_size'"),
        ("decode", {"batch_size": [1, 2], "context_length": [1, 2, 3]}, "columns differ in their lengths"),
        ("decode", {}, "has no rows"),
        ("decode", 3, "expected columns or rows; got int"),
        ("decode", [{"batch_size": 1}, {}], "row 1 has no batch_size"),
        ("decode", {"batch_size": [[1, 2]]}, "an array of 2 dimensions"),
    ],
)
def test_what_is_wrong_is_named(kind, table, said):
    with pytest.raises(SpecError, match=f"(?s){said}"):
        roofsim.predict_batch(kind, table, {"model": SMALL}, gpu="h100")


def test_a_step_needs_a_model():
    with pytest.raises(SpecError, match="expected a scenario"):
        roofsim.predict_batch("decode", {"batch_size": [1]}, gpu="h100")
    rows = [{"model": name, "batch_size": 1} for name in ("gpt2-124m", "gpt2-355m")]
    small, large = roofsim.predict_batch("decode", rows, gpu="h100", context_length=64)["time"]
    assert small < large


def test_answers_are_versioned_and_plain():
    priced = roofsim.predict_batch("kernel", [{"m": 8, "n": 8, "k": 8}], gpu="h100")
    assert priced.to_dict()["schema"] == "roofsim/predict-batch/1"
    assert list(priced.columns) == ["time", "flops", "bytes", "bound"]
    assert len(priced) == 1
    assert "1 rows of kind kernel" in str(priced)
    with pytest.raises(KeyError, match="no column 'seconds'; there are time"):
        priced["seconds"]
