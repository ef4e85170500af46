"""Models of the catalog that are listed layer by layer against the libraries' own code.

listed_reference.csv is what benchmarks/library/count_listed.py counted: parameters of the whole model, FLOPs of one
sample, or of the part of the model that the row names.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from roofsim.graph.base import Kind
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, parameters

with Path(__file__).with_name("listed_reference.csv").open(encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_parameters_and_flops_are_those_of_the_library(row):
    model = catalog_model(row["model"])
    graph = run(model, phase="forward")
    assert parameters(graph) == model.published_parameters == int(row["parameters"])
    part = [op for op in graph if not row["part"] or op.name.startswith(f"{row['part']}.")]
    flops = {kind: sum(op.flops() * op.repeats for op in part if op.group is kind) for kind in Kind}
    assert flops[Kind.MATMUL] + flops[Kind.CONVOLUTION] == int(row["products"])
    assert flops[Kind.ATTENTION] == int(row["attention"])
