"""What a traced program keeps: its operations, and not what they gave of the samples."""

from __future__ import annotations

import gc

import numpy as np

from roofsim.api import import_model
from roofsim.search.mesh import forget
from roofsim.search.product import evaluate_product
from roofsim.spec.scenario.document import load_scenario
from roofsim.traced.points import TracedPoints


def test_samples_of_a_trace_are_freed_once_its_program_is_made():
    document = load_scenario("gpt2-124m", {"precision": "bf16", "gpu": "a100", "engine": "megatron-core"})
    forget()
    gc.collect()
    before = sum(type(one) is TracedPoints for one in gc.get_objects())
    axes = {"gpus": [8, 16], "micro_batch_size": [1, 2], "global_batch_size": list(range(64, 64 * 40, 64))}
    answer = evaluate_product(document, axes, import_model)
    assert answer.programs > 0
    assert np.isfinite(answer.figures["step_time"]).any()
    gc.collect()
    left = sum(type(one) is TracedPoints for one in gc.get_objects()) - before
    assert left < 100, f"{left} of the arrays that tracing made are still there"
