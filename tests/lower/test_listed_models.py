"""Models of the catalog that are listed layer by layer against the libraries' own code.

listed_reference.csv is what benchmarks/library/count_listed.py counted: parameters of the whole model, FLOPs of one
sample, or of the part of the model that the row names; of ``all``, the library's attention is products; of a ``hybrid``, what
scans compute is left out; of ``chunks``, it is products. What autograd keeps is that of two samples.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import HEAVY_KINDS, Kind, Phase
from roofsim.graph.component import Purpose
from roofsim.graph.ops import HostTransfer
from roofsim.memory.profile import Liveness
from roofsim.spec import catalog
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, parameters

with Path(__file__).with_name("listed_reference.csv").open(encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file))


#: Small things that the library keeps, and what a model's list leaves out (or the other way), as parts of the whole.
NEARLY = {
    **dict.fromkeys(("sam-vit-base", "sam-vit-large", "sam-vit-huge"), 1.2e-3),
    # Its first layers read tokens that lie channel by channel, copied for each projection, and zeros where its queries begin.
    "detr-resnet-50": 2e-3,
    # Tables of positions are those of each image, in fp32 for Qwen: here one of a whole batch, in the type of the rest.
    **dict.fromkeys(("qwen2-vl-2b-vision", "qwen2-vl-7b-vision", "qwen2.5-vl-7b", "qwen3-vl-8b-vision"), 4e-4),
    **dict.fromkeys(("mistral-small-3.1-24b-vision", "pixtral-12b"), 1e-4),
    # Tokens without that of the class are copied before a linear layer, where more than one sample runs.
    **dict.fromkeys(("llava-1.5-7b", "llava-1.5-13b"), 4e-6),
    # Kimi Delta Attention makes the reciprocal lengths of queries and keys again: 5,242,880 bytes, four of each head.
    "kimi-linear-48b-a3b": 5.13e-4,
    # Instance norms repeat their weights for each sample.
    "unet3d": 5e-6,
    # Nodes that neighbours bring in are an expectation here, and whole ones there.
    "graphsage-ogbn-products": 1e-6,
    # The library's table of positions is a buffer, which is not counted as kept.
    **dict.fromkeys(("llama4-scout-17b-16e-vision", "llama4-maverick-17b-128e-vision"), 6e-5),
}
#: Libraries (and a part of their models) whose rows differ in no byte, where `NEARLY` says nothing.
EXACT = (
    ("torchvision", ""),
    ("timm", ""),
    ("torch_geometric", ""),
    ("torchrec", ""),
    ("torch", ""),
    ("transformers", "tower"),
    ("transformers", "hybrid"),
    ("transformers", "chunks"),
)
_EXACT_MODELS = ("yolov8", "yolov9", "wav2vec2-conformer", "sd15", "sd21", "sdxl", "dit-", "sd3", "flux", "gemma-4")
#: Nodes whose neighbours are drawn, as one of the library's samples counts them.
SEEDS = {"graphsage-ogbn-products": 1024.0}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_parameters_and_flops_are_those_of_the_library(row):
    model = catalog_model(row["model"])
    graph = run(model, phase="forward", batch=SEEDS.get(row["model"], 1.0), size=_size(row))
    assert parameters(graph) == model.published_parameters == int(row["parameters"])
    part = [op for op in graph if row["part"] != "tower" or op.name.startswith(f"{row['part']}.")]
    flops = {kind: sum(op.flops() * op.repeats for op in part if op.group is kind) for kind in Kind}
    apart = 0.0 if row["part"] == "all" else flops[Kind.ATTENTION]
    drawn = NEARLY[row["model"]] if row["model"] in SEEDS else 0.0
    # Products of chunks inside of a scan are written as attention's.
    inside = sum(op.flops() * op.repeats for op in part if op.group is Kind.ATTENTION is not op.kind)
    counted = inside if row["part"] == "chunks" else 0.0
    products = sum(flops[kind] for kind in HEAVY_KINDS) - apart + counted
    assert products == pytest.approx(int(row["products"]), rel=drawn, abs=0.0)
    assert apart - (inside if row["part"] in ("hybrid", "chunks") else 0.0) == int(row["attention"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["saved"]], ids=lambda row: row["model"])
def test_what_autograd_keeps_is_what_the_library_keeps(row):
    """To the byte; small copies differ where attention or norms are: tables of positions, weights of norms in fp32.

    Gemma 3n: a second table of positions, ids of the second table of tokens, a number for each layer that cuts gates off.

    Of a tower, whose result is summed, what its own ops made is compared. What is fetched from the host enters the library's.
    """
    graph = run(catalog_model(row["model"]), batch=2.0 * SEEDS.get(row["model"], 1.0), size=_size(row))
    counted = {"sum": _of_tower, "left out": lambda op: not _within_loss(op)}.get(row["loss"], lambda _: True)
    liveness = Liveness(graph)
    kept = sum(
        storage.size * liveness.copies_saved(storage)
        for storage in liveness.storages.values()
        if counted(graph.ops[storage.born]) and not isinstance(graph.ops[storage.born], HostTransfer)
    )
    exact = (row["source"], row["part"]) in EXACT or row["model"].startswith(_EXACT_MODELS)
    assert kept == pytest.approx(int(row["saved"]), rel=NEARLY.get(row["model"], 0.0 if exact else 5e-4))


def _of_tower(op):
    return op.name.startswith("tower.")


def _size(row):
    """Return what a row was counted at, where that is not the model's usual size."""
    return float(row["size"]) if row["size"] else None


def _within_loss(op):
    return op.component is not None and op.component.within(Purpose.LOSS)


def test_a_stream_beside_the_tokens_has_gradients_though_nothing_reads_its_end():
    """The text of Qwen-Image: what its last layer makes of it is dropped, and all layers before are trained."""
    graph = run(catalog_model("qwen-image"))
    words = [op for op in graph if op.group is Kind.MATMUL and op.name.startswith("repeat.aside5.")]
    flops = {phase: sum(op.flops() for op in words if op.phase is phase) for phase in (Phase.FORWARD, Phase.BACKWARD)}
    assert flops[Phase.BACKWARD] == 2.0 * flops[Phase.FORWARD] > 0.0


@pytest.mark.parametrize(
    ("name", "nodes", "products"),
    [
        ("gcn-ogbn-arxiv", 169343, 128 * 256 + 256 * 256 + 256 * 40),
        ("gcn-cora", 2708, 1433 * 16 + 16 * 7),
        ("gcn-ogbn-products", 2449029, 100 * 256 + 256 * 256 + 256 * 47),
        ("graphsage-ogbn-arxiv", 169343, 2 * (128 * 256 + 256 * 256 + 256 * 40)),
        # Weights, and none of the scores: those are sums over the width.
        ("gat-cora", 2708, 1433 * 64 + 64 * 7),
    ],
)
def test_graph_networks_multiply_each_node_once(name, nodes, products):
    graph = run(catalog_model(name), phase="forward")
    assert sum(op.flops() * op.repeats for op in graph if op.group is Kind.MATMUL) == 2 * nodes * products


def test_positions_of_tokens_are_as_wide_as_their_heads_though_a_tower_comes_first():
    """LLaVA's tower has heads of 64 and no rotation; the language model behind it has heads of 128."""
    tables = [op for op in run(catalog_model("llava-1.5-7b"), size=1024.0) if "rotary.cast" in op.name]
    shapes = {tensor.shape for op in tables for tensor in op.outputs}
    assert shapes == {(1024.0, 1.0, 128.0)}


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
    ("side", "why"), [(680.0, "680 is not a multiple of 14"), (686.0, "2,401 is not a multiple of 4")]
)
def test_images_beside_tokens_that_patches_or_mergers_do_not_divide_are_refused(side, why):
    model = {
        **catalog.load("model", "qwen2.5-vl-3b").data,
        "more_inputs": {"images": {"image_size": side, "channels": 6}},
    }
    with pytest.raises(SpecError) as caught:
        roofsim.run({"model": model, "workload": {"phase": "prefill"}, "hardware": {"gpu": "h100"}})
    assert caught.value.problems[0].path == "model.more_inputs"
    assert why in str(caught.value)


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
