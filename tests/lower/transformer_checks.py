"""What the tests of encoders, encoder-decoders and vision transformers share: passes, reference and oracle rows.

transformer_reference.csv was counted on the models of transformers 5.23.0 and timm 1.0.31 (column `source`; timm's own
defaults, among them the stochastic depth of Swin) run by PyTorch 2.13 over fake CUDA tensors: shapes, types and
storages, no values. The method gives the oracle tables' figures for BERT to the byte. FLOPs are those of
FlopCounterMode; attention is the kernel that `scaled_dot_product_attention` picks on CUDA (a mask is padded as
`preprocess_mask` does), or written out (`unfused`). `saved` are the distinct storages that autograd keeps, parameters,
buffers and inputs apart; peaks count live storages in blocks of 512 bytes. The fake tensors add two gradients out of
place, which real ones do in place: such additions were left out of the backward peak. The loss takes the logits as they
come. Sizes are tokens or pixels; `target` the decoder's tokens. Rows named `bert-base/...` are that model with another
head, `t5-base/gated` with a gated MLP.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from roofsim.graph.base import Phase
from roofsim.graph.tensor import BF16, FP32
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.lower.flavour import Flavour
from roofsim.memory.profile import profile
from roofsim.passes.autograd import Autograd
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute
from tests.lower.vision_checks import catalog_model, heavy_flops, oracle, parameters

AMOUNTS = (lambda op: op.flops(), lambda op: op.bytes_read(), lambda op: op.bytes_written())


@cache
def _references():
    with Path(__file__).with_name("transformer_reference.csv").open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def references(*models):
    """Return the reference rows of some models as parameters of a test."""
    rows = [row for row in _references() if row["model"] in models]
    assert {row["model"] for row in rows} == set(models)
    keys = ("model", "precision", "attention", "size")
    return [pytest.param(row, id="-".join(row[key] for key in keys)) for row in rows]


def run(
    model,
    *,
    phase="train",
    batch=1.0,
    size=None,
    precision="bf16",
    attention="sdpa",
    loss="native",
    dropout=None,
    cache="in_place",
    **call,
):
    """Return the typed graph of one pass; while training, with its backward pass."""
    compute, stored = (FP32 if precision == "fp32" else BF16), (BF16 if precision == "bf16" else FP32)
    flavour = Flavour.of(
        attention=attention, rms_norm="chain", gelu_new="chain", rotary="chain", cross_entropy=loss, dropout=dropout,
        key_value_cache=cache, training=phase == "train",
    )  # fmt: skip
    amp = precision == "amp"
    request = Call(phase=phase, batch=batch, length=size, compute=compute, autocast=amp, flavour=flavour, **call)
    graph = AssignPrecision(compute=compute, parameters=stored, autocast=amp)(lower(model, request)).verify()
    return Autograd(silu_backward="decomposed")(graph).verify() if phase == "train" else graph


def run_row(model, row, **changes):
    """Return the step that a reference row measured."""
    target = {"target_length": float(row["target"])} if row["target"] else {}
    settings = {"precision": row["precision"], "attention": row["attention"], **target, **changes}
    return run(model, batch=float(row["batch"]), size=float(row["size"]), **settings)


def check_reference(model, row, *, kernels=True):
    """Hold parameters, FLOPs, saved activations, peaks and kernels against a reference row."""
    graph = run_row(model, row)
    assert heavy_flops(graph, Phase.FORWARD) == float(row["forward_flops"])
    assert heavy_flops(graph, Phase.BACKWARD) == float(row["backward_flops"])
    memory = profile(graph)
    assert memory.saved_activations == float(row["saved"])
    assert memory.phase_peaks["forward"] == pytest.approx(float(row["forward_peak"]), rel=1e-2)
    assert memory.phase_peaks["backward"] == pytest.approx(float(row["backward_peak"]), rel=1e-3)
    if kernels:
        launched = graph.grouped(lambda op: op.phase, lambda op: op.kernels())[Phase.FORWARD]
        assert launched == pytest.approx(float(row["forward_kernels"]), rel=kernels if kernels is not True else 0.0)
    inferred = run_row(model, row, phase="forward")
    assert heavy_flops(inferred, Phase.FORWARD) == float(row["forward_flops"])
    assert {op.phase for op in inferred} == {Phase.FORWARD}
    assert profile(inferred).saved_activations == 0.0
    return graph


def _oracle_step(model, row, loss, target, **changes):
    attention = "unfused" if row["attn"] == "eager" else "sdpa"
    batch, size = float(row["batch"]), float(row["size"])
    lengths = {"target_length": size} if target else {"size": size}
    return run(model, batch=batch, attention=attention, loss=loss, **lengths, **changes)


def check_oracle_flops(name, *, loss="native", target=False):
    """Hold FLOPs and parameters against the oracle, row by row."""
    model, (counted,) = catalog_model(name), oracle("params", name)
    for row in oracle("flops", name):
        graph = _oracle_step(model, row, loss, target)
        assert parameters(graph) == model.published_parameters == float(counted["params_total"])
        assert heavy_flops(graph, Phase.FORWARD) == float(row["fwd_flops"])
        assert heavy_flops(graph, Phase.BACKWARD) == float(row["bwd_flops"])


def check_oracle_memory(name, *, loss="native", target=False):
    """Hold saved activations against the oracle to the byte, and peaks to a thousandth."""
    model = catalog_model(name)
    for row in oracle("activations", name):
        dropout = None if row["dropout"] == "default" else 0.0
        graph = _oracle_step(model, row, loss, target, precision=row["precision"], dropout=dropout)
        graph = Recompute()(graph).verify() if row["grad_ckpt"] == "1" else graph
        assert profile(graph).saved_activations == float(row["act_bytes"]) + float(row["weight_cast_bytes"]), row
    for row in oracle("peak_fast", name):
        if row["iteration"] == row["set_to_none"] == "1":
            graph = _oracle_step(model, row, loss, target, precision=row["precision"])
            graph = Recompute()(graph).verify() if row["grad_ckpt"] == "1" else graph
            peaks, state = profile(graph).phase_peaks, float(row["opt_state"])
            backward = max(peaks["backward"], peaks.get("recompute", 0.0))
            assert backward + state == pytest.approx(float(row["bwd_peak"]), rel=1e-3), row
            assert peaks["forward"] + state == pytest.approx(float(row["fwd_peak"]), rel=1e-2), row


def check_oracle_bytes(name, *, loss="native"):
    """Hold kernels and bytes against the oracle; it counts whole embedding tables, we count the rows that are read."""
    model = catalog_model(name)
    for row in oracle("ops_bytes", name):
        graph = _oracle_step(model, row, loss, target=False, precision=row["precision"])
        phase = {"fwd": Phase.FORWARD, "bwd": Phase.BACKWARD}[row["phase"]]
        moved = graph.grouped(lambda op: op.phase, lambda op: op.bytes_read() + op.bytes_written())[phase]
        launched = graph.grouped(lambda op: op.phase, lambda op: op.kernels())[phase]
        assert launched == pytest.approx(float(row["ops"]), abs=1.0)
        assert moved == pytest.approx(float(row["eager_total"]), rel=1e-2)


def check_arrays(model, sizes, *, key="size", peaks=True, **call):
    """Hold a lowering with arrays of batch and size against those of their elements."""
    batches = (1.0, 37.0)
    swept = run(model, batch=np.array(batches)[:, None], **{key: np.array(sizes)[None, :]}, **call)
    memory = profile(swept)
    for i, batch in enumerate(batches):
        for j, size in enumerate(sizes):
            graph = run(model, batch=batch, **{key: size}, **call)
            for amount in AMOUNTS:
                whole = np.broadcast_to(swept.total(amount), (2, len(sizes)))[i, j]
                assert whole == pytest.approx(graph.total(amount), rel=1e-12)
            assert np.broadcast_to(parameters(swept), (2, len(sizes)))[i, j] == parameters(graph)
            alone = profile(graph)
            saved = np.broadcast_to(memory.saved_activations, (2, len(sizes)))[i, j]
            assert saved == pytest.approx(alone.saved_activations, rel=1e-12)
            if peaks:
                assert np.broadcast_to(memory.peak, (2, len(sizes)))[i, j] == pytest.approx(alone.peak, rel=1e-12)
