"""Compare every oracle table with the catalog's models: docs/exactness.md."""

from __future__ import annotations

import statistics
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import roofsim
from roofsim.graph.base import Phase
from roofsim.graph.tensor import DTYPES, Role
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.memory.profile import profile
from roofsim.passes.optimizer.step import AddOptimizerStep
from roofsim.spec import catalog
from roofsim_evidence.exactness.families import by_family
from roofsim_evidence.exactness.oracle import (
    PHASES,
    compiled_step_of,
    heavy_flops,
    inference_of,
    model,
    moved,
    parameters,
    rows,
    step,
    step_of,
)
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.numeric import Real
    from roofsim.spec.model.base import ModelSpec

#: Phase -> its columns in the table of peaks.
_PHASE_COLUMNS = {"forward": "fwd", "backward": "bwd", "optimizer": "opt"}
#: Optimizer of the table -> method and implementation.
_OPTIMIZERS = {"sgd": ("sgd", "foreach"), "sgd_mom": ("sgd-momentum", "foreach")}
PATH: Final = "docs/exactness.md"


def relative(counted: Real, wanted: float) -> float:
    """Return the relative difference."""
    difference = abs(float(counted) - wanted)
    return difference / wanted if wanted else difference


def _parameters() -> Iterator[tuple[str, float]]:
    for row in rows("params"):
        size = next(other["size"] for other in rows("flops") if other["model"] == row["model"])
        counted = parameters(step(row["model"], 1.0, float(size)))
        yield "parameters of models with a table", relative(counted, float(row["params_total"]))


@cache
def count_parameters(name: str) -> tuple[float, int | None]:
    """Return the counted and the published parameters of a catalog model, in the build that its library makes."""
    spec: ModelSpec = model_of(name)
    if hasattr(spec, "num_inference_steps"):  # several networks, of which nobody lowers all at once
        total = roofsim.run(name, phase="forward", gpu="a100", engine="diffusers-2022").parameters["total"]
        return float(total), spec.published_parameters
    lengths: dict[str, Any] = {}
    if _has_tokens(spec):
        lengths["target_length" if spec.family == "encoder-decoder" else "length"] = 64.0
    if getattr(spec, "head", "") == "none":  # nothing to train on: embeddings, as they are asked for
        lengths["phase"] = "forward"
    calls = [Call(batch=1.0, **lengths)]
    if hasattr(spec, "layers") and "phase" not in lengths:  # published is what the library builds, or what it deploys
        calls.append(Call(batch=1.0, phase="forward", **lengths))
    published = spec.published_parameters
    counted = [parameters(lower(spec, call)) for call in calls]
    return (min(counted, key=lambda each: abs(each - published)) if published else max(counted)), published


def model_of(name: str) -> ModelSpec:
    """Return a completed model of the catalog."""
    from roofsim.spec.model.registry import family_schema
    from roofsim.spec.reading.validate import validate

    document = catalog.load("model", name)
    return validate(family_schema(document.data["family"]), document).completed()


def _has_tokens(spec: Any) -> bool:
    return spec.family in ("decoder", "encoder", "encoder-decoder", "mamba")


def _published() -> Iterator[tuple[str, float]]:
    for name in catalog.names("model"):
        counted, wanted = count_parameters(name)
        if wanted is not None:
            yield "parameters of catalog models, as published", relative(counted, float(wanted))


def _flops() -> Iterator[tuple[str, float]]:
    for row in rows("flops"):
        graph = step_of(row)
        for phase, column in ((Phase.FORWARD, "fwd_flops"), (Phase.BACKWARD, "bwd_flops")):
            yield f"FLOPs, {phase}", relative(heavy_flops(graph, phase), float(row[column]))


def _bytes() -> Iterator[tuple[str, float]]:
    for row in rows("ops_bytes"):
        graph, phase = step_of(row), PHASES[row["phase"]]
        yield "bytes of heavy kernels", relative(moved(graph, phase, heavy=True), float(row["heavy_only_bytes"]))
        yield "bytes of all kernels", relative(moved(graph, phase), float(row["eager_total"]))


def _activations() -> Iterator[tuple[str, float]]:
    for row in rows("activations"):
        wanted = float(row["act_bytes"]) + float(row["weight_cast_bytes"])
        yield "bytes saved for backward", relative(profile(step_of(row)).saved_activations, wanted)


def kept_by_compiler(row: dict[str, str]) -> float:
    """Return how far the bytes that a compiled forward pass keeps are from the table's, relative to these."""
    return float(profile(compiled_step_of(row)).saved_activations) / float(row["saved_bytes"]) - 1.0


def _compiled() -> Iterator[tuple[str, float]]:
    for row in rows("compile"):
        yield f"bytes that torch.compile keeps, {row['family']}", abs(kept_by_compiler(row))


def _peaks() -> Iterator[tuple[str, float]]:
    for row in rows("peak_fast"):
        if row["iteration"] == row["set_to_none"] == "1":
            memory, state = profile(step_of(row)), float(row["opt_state"])
            backward = max(memory.phase_peaks["backward"], memory.phase_peaks.get("recompute", 0.0))
            yield (
                "peak of live tensors, forward",
                relative(memory.phase_peaks["forward"] + state, float(row["fwd_peak"])),
            )
            yield "peak of live tensors, backward", relative(backward + state, float(row["bwd_peak"]))
            peak, phase = whole_step(row)
            yield "peak of the step, optimizer included", relative(peak, float(row["step_peak"]))
            yield "phase of the step's peak", float(phase != fullest_phase(row))


def whole_step(row: dict[str, str]) -> tuple[float, str]:
    """Return the peak of a step with its optimizer, and the phase that it lies in."""
    name = row["optimizer"]
    method, implementation = _OPTIMIZERS.get(name, ("adamw", name.removeprefix("adamw_")))
    dtype = DTYPES["bf16" if row["precision"] == "bf16" else "fp32"]
    graph = AddOptimizerStep(method=method, implementation=implementation, state_type=dtype)(step_of(row))
    step_profile = profile(graph)
    phase = {"recompute": "backward"}.get(step_profile.peak_phase, step_profile.peak_phase)
    return float(step_profile.peak), phase


def fullest_phase(row: dict[str, str]) -> str:
    """Return the phase in which the oracle's step is fullest."""
    peaks = {name: float(row[f"{column}_peak"]) for name, column in _PHASE_COLUMNS.items()}
    return max(peaks, key=lambda name: peaks[name])


def _per_layer() -> Iterator[tuple[str, float]]:
    for row in rows("act_per_layer"):
        if "num_layers" in type(model(row["model"])).model_fields:
            saved = [float(profile(step_of(row, layers=layers)).saved_activations) for layers in (3, 2)]
            wanted = float(row["bytes_per_layer"]) + float(row["weight_cast_per_layer"])
            yield "bytes saved per layer (3 layers minus 2)", relative(saved[0] - saved[1], wanted)


def _inference() -> Iterator[tuple[str, float]]:
    for row in rows("decode"):
        graph = inference_of(row)
        total = float(row["eager_read"]) + float(row["eager_write"])
        cached = sum(
            tensor.numel * tensor.dtype.itemsize * op.count
            for tensor, op in graph.sources.items()
            if tensor.role is Role.KEY_VALUE_CACHE
        )
        yield "FLOPs of prefill and decode", relative(heavy_flops(graph, Phase.FORWARD), float(row["flops"]))
        yield "bytes of prefill and decode", relative(moved(graph, Phase.FORWARD), total)
        yield "bytes of the key-value cache", relative(float(cached), float(row["kv_cache_bytes"]))


def differences() -> str:
    """Return the table in Markdown: rows compared, rows equal, median, mean and largest relative difference."""
    by_quantity: dict[str, list[float]] = {}
    for part in (_parameters, _published, _flops, _bytes, _activations, _per_layer, _compiled, _peaks, _inference):
        for name, difference in part():
            by_quantity.setdefault(name, []).append(difference)
    cells = []
    for name, values in by_quantity.items():
        equal = sum(value == 0.0 for value in values)
        close = sum(value <= 0.001 for value in values)
        differences = (f"{amount(values):.4%}" for amount in (statistics.median, statistics.fmean, max))
        cells.append((name, str(len(values)), str(equal), str(close), *differences))
    return table(("quantity", "rows", "equal", "within 0.1 %", "median difference", "mean", "largest"), cells)


def page() -> DocsPage:
    """Return the page."""
    return DocsPage(path=PATH, text=filled("exactness.md", table=differences(), families=by_family(count_parameters)))
