"""What the tests of image models share: reference figures, and the passes that make a step comparable with them.

vision_reference.csv was counted, kernel by kernel, on the models of torchvision 0.28.0 and timm 1.0.31 (column
`source`; timm's own defaults, no dropout there) run by PyTorch 2.13 over fake CUDA tensors: shapes, types and storages,
no values. FLOPs are those of convolutions and matmuls as FlopCounterMode counts them, but with the groups of backward
convolutions. `saved_*` are the distinct storages that autograd keeps, parameters, buffers and inputs apart,
`forward_bytes` what every kernel reads and writes once. The loss widens the logits. Fake tensors never add gradients in
place, which real ones do: backward peaks may be half a percent lower than theirs.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from roofsim.graph.base import HEAVY_KINDS, Phase
from roofsim.graph.tensor import BF16, FP32
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.lower.flavour import Flavour
from roofsim.memory.profile import profile
from roofsim.passes.autograd import Autograd
from roofsim.passes.precision import AssignPrecision
from roofsim.spec import catalog
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.validate import validate

ORACLE = Path(__file__).parents[2] / "evidence" / "measurements" / "oracle"


@cache
def _table(path):
    with path.open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def references(family):
    """Return the reference rows of a family."""
    return [row for row in _table(Path(__file__).with_name("vision_reference.csv")) if row["family"] == family]


def by_name(rows):
    """Return rows as parameters of a test, named after the model."""
    return [pytest.param(row, id=row["model"]) for row in rows]


def oracle(table, model):
    """Return the rows of a model in a table of evidence/measurements/oracle."""
    return [row for row in _table(ORACLE / f"oracle_{table}.csv") if row["model"] == model]


def catalog_model(name):
    """Return a model of the catalog."""
    document = catalog.load("model", name)
    return validate(family_schema(document.data["family"]), document)


def step(model, batch, size, precision="bf16", *, silu_backward="decomposed"):
    """Return one training step in the flavour of the reference figures."""
    compute, parameters = (FP32 if precision == "fp32" else BF16), (BF16 if precision == "bf16" else FP32)
    flavour = Flavour.of(cross_entropy="upcast")
    call = Call(batch=batch, length=size, compute=compute, autocast=precision == "amp", flavour=flavour)
    typed = AssignPrecision(compute=compute, parameters=parameters, autocast=precision == "amp")(lower(model, call))
    return Autograd(silu_backward=silu_backward)(typed.verify()).verify()


def inference(model, batch, size):
    """Return one pass without gradients."""
    call = Call(phase="forward", batch=batch, length=size, flavour=Flavour(training=False))
    return AssignPrecision(compute=BF16, parameters=BF16)(lower(model, call)).verify()


def parameters(graph):
    """Return the number of parameters that a graph reads."""
    return sum(tensor.numel * copies for tensor, copies in graph.parameters().items())


def heavy_flops(graph, phase):
    """Return the FLOPs of convolutions and matmuls in a phase."""
    return graph.grouped(lambda op: (op.phase, op.group in HEAVY_KINDS), lambda op: op.flops())[phase, True]


def check_figures(row):
    """Hold parameters, FLOPs, bytes, saved activations and peaks against a reference row."""
    model, batch, size = catalog_model(row["model"]), float(row["batch"]), float(row["size"])
    graph = step(model, batch, size)
    assert parameters(graph) == model.published_parameters == float(row["parameters"])
    assert heavy_flops(graph, Phase.FORWARD) == float(row["forward_flops"])
    assert heavy_flops(graph, Phase.BACKWARD) == float(row["backward_flops"])
    moved = graph.grouped(lambda op: op.phase, lambda op: op.bytes_read() + op.bytes_written())
    assert moved[Phase.FORWARD] == pytest.approx(float(row["forward_bytes_bf16"]), rel=1e-4)
    memory = profile(graph)
    assert memory.saved_activations == float(row["saved_bf16"])
    assert memory.phase_peaks["forward"] == pytest.approx(float(row["forward_peak_bf16"]), rel=1e-3)
    assert memory.phase_peaks["backward"] == pytest.approx(float(row["backward_peak_bf16"]), rel=5e-3)
    for precision in ("fp32", "amp"):
        assert profile(step(model, batch, size, precision)).saved_activations == float(row[f"saved_{precision}"])


def check_inference(row):
    """Hold FLOPs of a pass without gradients against a reference row; nothing of training is left in it."""
    graph = inference(catalog_model(row["model"]), float(row["batch"]), float(row["size"]))
    assert heavy_flops(graph, Phase.FORWARD) == float(row["inference_flops"])
    assert {op.phase for op in graph} == {Phase.FORWARD}
    assert not [op for op in graph if getattr(op, "function", "") in ("random", "nll", "count", "clone")]
    assert profile(graph).saved_activations == 0.0


def check_arrays(name, sizes=(224.0, 299.0)):
    """Hold a lowering with arrays of batch and image size against those of their elements."""
    model, batches = catalog_model(name), (1.0, 37.0)
    swept = step(model, np.array(batches)[:, None], np.array(sizes)[None, :])
    memory = profile(swept)
    for i, batch in enumerate(batches):
        for j, size in enumerate(sizes):
            graph = step(model, batch, size)
            for amount in (lambda op: op.flops(), lambda op: op.bytes_read(), lambda op: op.bytes_written()):
                assert np.broadcast_to(swept.total(amount), (2, 2))[i, j] == pytest.approx(
                    graph.total(amount), rel=1e-12
                )
            assert parameters(swept) == parameters(graph)
            assert np.asarray(memory.peak)[i, j] == pytest.approx(profile(graph).peak, rel=1e-12)
