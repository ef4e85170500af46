"""Each rule on layouts and sizes is one condition: on arrays of points it says of each what it says of that point alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import SpecError
from roofsim.points import Diverged, points
from roofsim.records import replace
from roofsim.spec.rules.degrees import complete_degrees
from roofsim.spec.rules.experts import EXPERTS
from roofsim.spec.rules.layouts import LAYOUTS
from roofsim.spec.rules.pipelines import PIPELINES
from roofsim.spec.rules.rule import Checks, ScenarioCase
from roofsim.spec.rules.sizes import SIZES
from roofsim.spec.scenario.point import Point, at_place
from tests.scenarios import TINY_EXPERTS, TINY_LLAMA

COUNT = 24
VALUES = {
    "tensor": [1, 2, 3, 4, 5],
    "pipeline": [1, 2, 3, 4, 40],
    "data": [1, 2, 6],
    "context": [1, 2, 3],
    "expert": [1, 2, 3, 4],
    "expert_tensor": [1, 2, 3],
    "virtual_stages": [1, 2],
    "micro_batch_size": [1, 2, 3],
    "global_batch_size": [4, 6, 12],
    "sequence_length": [32, 33, 96],
}


def case_of(model, **workload):
    resolved = roofsim.resolve({"model": model, "workload": workload})
    return ScenarioCase(
        point=Point.of(resolved.parallel, resolved.workload, None),
        parallel=resolved.parallel,
        workload=resolved.workload,
        model=resolved.model,
        traits=resolved.model.traits(),
        engine=resolved.engine,
    )


CASES = {
    "dense": case_of(TINY_LLAMA),
    "experts": case_of(TINY_EXPERTS),
    "served": case_of(TINY_EXPERTS, phase="forward", engine="vllm"),
}


@settings(max_examples=60)
@given(st.sampled_from(sorted(CASES)), st.booleans(), st.sampled_from(sorted(VALUES)), st.integers(0, 10**6))
def test_a_rule_says_of_an_array_what_it_says_of_each_point(name, sequence, stated, seed):
    rng = np.random.default_rng(seed)
    drawn = {
        key: points(rng.choice(values, COUNT)) for key, values in VALUES.items() if key == stated or rng.random() < 0.7
    }
    case = CASES[name]
    case = replace(
        case,
        point=replace(case.point, **drawn),
        parallel=case.parallel.model_copy(update={"sequence": sequence}),
    )
    for rule in (*SIZES, *LAYOUTS):
        try:
            with np.errstate(all="ignore"):
                whole = np.broadcast_to(np.asarray(rule.broken(case)), COUNT)
        except Diverged:  # points of several schedules: a sweep parts them first
            continue
        for place in range(COUNT):
            alone = at_place(case, place)
            assert bool(rule.broken(alone)) == whole[place], (rule.code, alone.point)
            if whole[place]:
                message, _ = rule.says(alone)
                assert ".0 " not in message, "whole numbers are written as such"


def test_degrees_of_many_points_are_those_of_each():
    stated = Point(gpus=points([8, 12, 7]), tensor=points([2, 4, 2]), pipeline=points([2, 1, 1]))

    class Silent(Checks):
        def hold(self, rules, case):
            self.broken = [rule.code for rule in rules if np.any(rule.broken(case))]

    no_document: Any = None
    case, checks = CASES["dense"], Silent(no_document)
    completed = complete_degrees(stated, case.parallel, checks)
    assert completed.data.tolist() == [2.0, 3.0, 3.0]
    assert checks.broken == ["gpus-multiple-of-layout"]


def test_codes_are_unique_but_for_keys_of_one_kind():
    codes = [rule.code for rule in (*LAYOUTS, *SIZES)]
    repeated = {code for code in codes if codes.count(code) > 1}
    assert repeated == {"serving-word", "length-of-generation"}
    assert {rule.code for rule in (*PIPELINES, *EXPERTS)} < set(codes)


@pytest.mark.parametrize(
    ("parallel", "workload", "code"),
    [
        ({"tensor": 3}, {}, "tensor-divides-model"),
        ({"pipeline": 40}, {}, "more-stages-than-layers"),
        ({"expert": 2}, {}, "expert-without-experts"),
        ({"data": 2}, {"global_batch_size": 3}, "global-batch-multiple"),
        ({"data": 2, "tensor": 2}, {"phase": "decode", "prompt_length": 3, "sequence_length": 4}, "sequence-in-decode"),
    ],
)
def test_an_error_has_the_code_of_its_rule(parallel, workload, code):
    with pytest.raises(SpecError) as error:
        roofsim.resolve({"model": TINY_LLAMA, "workload": workload, "parallel": parallel})
    assert error.value.code == code


def test_what_is_no_rule_has_the_kind_of_its_error():
    with pytest.raises(SpecError) as error:
        roofsim.resolve("gpt2", gpu="h10O")
    assert error.value.code == "unknown-name"
