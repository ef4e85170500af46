"""`benchmarks/calculon_space.py` counts what Calculon's search does, and its axes are what a plan takes."""

from __future__ import annotations

from benchmarks import calculon_space
from roofsim.search.axes import read_axes


def test_as_many_executions_are_counted_as_calculon_tries():
    """9,259,840 is what Calculon itself says of GPT-3 175B on 1,024 A100, with its search for the best execution."""
    tried, said = calculon_space.executions()
    assert tried == 9_259_840
    assert said == 774_624


def test_all_options_that_a_scenario_can_say_are_axes():
    axes = read_axes(calculon_space.ALL_AXES).axes
    values = {".".join(axis.path): axis.values for axis in axes}
    known = {(tensor, pipeline) for tensor, pipeline, _ in calculon_space._degrees()}
    assert {tensor for tensor, _ in known} == set(values["parallel.tensor"])
    assert {pipeline for _, pipeline in known} == set(values["parallel.pipeline"])
    assert max(values["workload.micro_batch_size"]) == calculon_space.BATCH
