"""Models of the catalog that are listed layer by layer against the libraries' own code.

listed_reference.csv is what benchmarks/library/count_listed.py counted: parameters of the whole model, FLOPs of one
sample, or of the part of the model that the row names; of ``all``, the library's attention is products.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import HEAVY_KINDS, Kind, Phase
from roofsim.spec import catalog
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, parameters

with Path(__file__).with_name("listed_reference.csv").open(encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_parameters_and_flops_are_those_of_the_library(row):
    model = catalog_model(row["model"])
    graph = run(model, phase="forward")
    assert parameters(graph) == model.published_parameters == int(row["parameters"])
    part = [op for op in graph if row["part"] in ("", "all") or op.name.startswith(f"{row['part']}.")]
    flops = {kind: sum(op.flops() * op.repeats for op in part if op.group is kind) for kind in Kind}
    apart = 0.0 if row["part"] == "all" else flops[Kind.ATTENTION]
    assert sum(flops[kind] for kind in HEAVY_KINDS) - apart == int(row["products"])
    assert apart == int(row["attention"])


@pytest.mark.parametrize(
    ("name", "nodes", "products"),
    [
        ("gcn-ogbn-arxiv", 169343, 128 * 256 + 256 * 256 + 256 * 40),
        ("graphsage-ogbn-arxiv", 169343, 2 * (128 * 256 + 256 * 256 + 256 * 40)),
        # Weights, and none of the scores: those are sums over the width.
        ("gat-cora", 2708, 1433 * 64 + 64 * 7),
    ],
)
def test_graph_networks_multiply_each_node_once(name, nodes, products):
    graph = run(catalog_model(name), phase="forward")
    assert sum(op.flops() * op.repeats for op in graph if op.group is Kind.MATMUL) == 2 * nodes * products


def test_stages_that_are_frozen_have_no_gradients():
    """torchvision trains three of five stages of a detector's ResNet-50: stem and first stage get no gradients."""
    graph = run(catalog_model("faster-rcnn-resnet50-fpn"))
    backward = [op for op in graph if op.phase is Phase.BACKWARD and op.group is Kind.CONVOLUTION]
    assert backward
    assert not [op for op in backward if op.name.startswith(("stem.", "stage1."))]


def test_shared_weights_are_counted_once_and_used_at_each_level():
    graph = run(catalog_model("faster-rcnn-resnet50-fpn"), phase="forward")
    heads = [op for op in graph if op.name.startswith("rpn") and op.group is Kind.CONVOLUTION]
    assert len(heads) == 5
    assert len({op.inputs[1] for op in heads}) == 1


def test_boxes_are_sizes_that_can_be_set():
    model = catalog_model("faster-rcnn-resnet50-fpn")

    def flops(proposals):
        return run(model.with_sizes(sizes=model.sizes | {"proposals": proposals}), phase="forward").total(
            lambda op: op.flops() if op.group is Kind.MATMUL else 0.0
        )

    head = 2 * (256 * 49 * 1024 + 1024 * 1024 + 1024 * (364 + 91))
    assert flops(1000.0) - flops(300.0) == 700 * head


@pytest.mark.parametrize(
    ("name", "sizes", "workload", "path"),
    [
        ("yolo11n", {}, {"image_size": 650}, "workload.image_size"),
        ("faster-rcnn-resnet50-fpn", {"height": 801}, {}, "model.sizes"),
    ],
)
def test_images_whose_maps_do_not_meet_are_refused(name, sizes, workload, path):
    data = catalog.load("model", name).data
    model = {**data, "sizes": {**data.get("sizes", {}), **sizes}}
    with pytest.raises(SpecError) as caught:
        roofsim.run({"model": model, "workload": {"phase": "forward", **workload}, "hardware": {"gpu": "h100"}})
    assert caught.value.problems[0].path == path
