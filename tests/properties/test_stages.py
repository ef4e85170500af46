"""Laws of stages of stated sizes: layers are all there once, and the schedule waits for the longest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.analyze.work import flops_of
from roofsim.api import resolve
from roofsim.errors import NoDataError, SpecError
from roofsim.graph.ops import Collective
from roofsim.spec.catalog import names
from tests.scenarios import TINY, spread

MODEL = TINY | {"num_layers": 12, "hidden_size": 512, "vocab_size": 4096}
SIZES = {"sequence_length": 128, "global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16"}


def run(**keys):
    return spread(MODEL, {"pipeline": 4} | keys, engine="megatron-core", **SIZES)


def layers_of(evaluation):
    """Layers of each stage, in order of their first place."""
    return [(stage.graph.blocks[0].repeat, stage.positions) for stage in evaluation.program.stages]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [(3.0, 1), (3.0, 2), (3.0, 1)]),
        ({"stage_layers": [2, 4, 4, 2]}, [(2.0, 1), (4.0, 2), (2.0, 1)]),
        ({"stage_layers": [1, 5, 2, 4]}, [(1.0, 1), (5.0, 1), (2.0, 1), (4.0, 1)]),
        # 13 and 14 layers over four stages; one or two of them are no layers.
        ({"account_for_embedding": True}, [(2.0, 1), (4.0, 1), (3.0, 1), (3.0, 1)]),
        ({"account_for_embedding": True, "account_for_loss": True}, [(2.0, 1), (4.0, 2), (2.0, 1)]),
    ],
)
def test_layers_of_stages(keys, expected):
    evaluation = run(**keys)
    assert layers_of(evaluation) == expected
    assert flops_of(evaluation) == pytest.approx(
        flops_of(spread(MODEL, {}, engine="megatron-core", **SIZES)), rel=1e-12
    )


def test_equal_stages_of_a_stated_pipeline_that_do_not_touch_stay_apart():
    evaluation = spread(
        MODEL,
        {"pipeline": 5, "stage_layers": [2, 3, 2, 3, 2]},
        engine="megatron-core",
        **(SIZES | {"global_batch_size": 20}),
    )
    assert [positions for _, positions in layers_of(evaluation)] == [1.0] * 5


def test_the_longest_stage_sets_the_pace():
    even, uneven = run(stage_layers=[3, 3, 3, 3]), run(stage_layers=[1, 9, 1, 1])
    assert even.step.step == pytest.approx(run().step.step)
    assert uneven.step.step > 1.5 * even.step.step


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        ({"pipeline": 4, "stage_layers": [3, 3, 3]}, "3 numbers of layers for 4 stages"),
        ({"pipeline": 4, "stage_layers": [3, 3, 3, 4]}, "add up to 13, the model has 12 layers"),
        ({"pipeline": 4, "stage_layers": [0, 4, 4, 4]}, "a stage without layers"),
        ({"stage_layers": [12]}, "stage_layers without pipeline"),
        ({"pipeline": 2, "virtual_stages": 2, "stage_layers": [6, 6]}, "stage_layers beside virtual_stages"),
        ({"pipeline": 2, "account_for_loss": True, "stage_layers": [6, 6]}, "beside account_for_embedding or"),
        ({"pipeline": 12, "account_for_loss": True}, "one would have none"),
        ({"pipeline": 4, "stage_layer": [3, 3, 3, 3]}, "stage_layers"),
    ],
)
def test_refusals(parallel, message):
    with pytest.raises(SpecError, match=message):
        resolve({"model": MODEL, "workload": SIZES | {"engine": "megatron-core"}, "parallel": parallel})


def messages(stage):
    return sorted(op.function for op in stage.graph if isinstance(op, Collective) and op.group_of == "pipeline")


@given(
    st.sampled_from(sorted(names("engine"))),
    st.sampled_from(["fp32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8"]),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from([None, "unfused"]),
    st.sampled_from([0.0, 0.1]),
    st.integers(2, 4),
)
def test_a_stage_gets_back_what_it_sends(engine, precision, recompute, attention, dropout, pipeline):
    """Whatever casts, fused kernels and recomputation stand around it: what goes on comes back as a gradient."""
    choices = {"engine": engine, "precision": precision, "recompute": recompute, "dropout": dropout}
    choices |= {} if attention is None else {"attention": attention}
    try:
        evaluation = spread(TINY | {"num_layers": 4}, {"pipeline": pipeline}, gpu="h100", sequence_length=64, **choices)
    except (SpecError, NoDataError):
        return  # an engine that does not train, or not so
    first, *middle, last = evaluation.program.stages
    assert messages(first) == messages(last) == ["receive", "send"]
    assert all(messages(stage) == ["receive", "receive", "send", "send"] for stage in middle)
