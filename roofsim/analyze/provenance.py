"""List the numbers that a result rests on, each with where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.constants.kernels import Constants
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.resolve import Resolved


def provenance(resolved: Resolved) -> list[dict[str, Any]]:
    """Return rows of what, value and source: what was read, the card's numbers, the achieved fractions, the engine's facts."""
    architecture, engine, math = resolved.architecture, resolved.engine, resolved.precision.math
    rows = [_row(what, where, "the request") for what, where in resolved.origins]
    rows += [*_card(resolved.gpu, math), *_fractions(resolved.constants, resolved.gpu, math)]
    floor = humanize(architecture.kernel_floor, "s")
    rows.append(_row(f"architecture.{architecture.name}.kernel_floor", floor, architecture.sources.get("kernel_floor")))
    for name in ("attention", "host_issue_time"):
        value = engine.fact(name)
        shown = humanize(value, "s") if isinstance(value, float) else value
        rows.append(_row(f"engine.{engine.name}.{name}", shown, engine.source(name)))
    return rows + [_row(key, value, "hardware.override of the scenario") for key, value in resolved.override.items()]


def _fractions(constants: Constants, gpu: Gpu, math: str) -> list[dict[str, Any]]:
    """Return the achieved fractions with the level they come from: this card, its architecture, or all cards."""
    deviation, level = constants.of(gpu)
    rows = [
        (f"constants.compute.{math}", constants.compute.get(math, 0.0) * deviation.compute.get(math, 1.0), "compute"),
        ("constants.stream", constants.stream * deviation.stream, "stream"),
    ]
    return [
        _row(name, round(value, 4), f"{level}; {constants.sources.get(key, '')}".rstrip("; "))
        for name, value, key in rows
        if value
    ]


def _card(gpu: Gpu, math: str) -> list[dict[str, Any]]:
    rows = []
    table, name = (gpu.peak, "peak") if math in gpu.peak else (gpu.vector_peak, "vector_peak")
    rate = table.get(math)
    if isinstance(rate, float):
        rows.append(_row(f"gpu.{name}.{math}", humanize(rate, "FLOP/s"), _source(gpu, name)))
    if isinstance(gpu.memory.bandwidth, float):
        value = humanize(gpu.memory.bandwidth, "B/s")
        rows.append(_row("gpu.memory.bandwidth", value, _source(gpu, "memory.bandwidth")))
    if isinstance(gpu.memory.capacity, float):
        value = humanize(gpu.memory.capacity, "B")
        rows.append(_row("gpu.memory.capacity", value, _source(gpu, "memory.capacity")))
    return rows


def _source(gpu: Gpu, path: str) -> str:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        source = gpu.sources.get(".".join(parts[:length]))
        if source:
            return source
    return "stated without a source"


def _row(what: str, value: Any, source: str | None) -> dict[str, Any]:
    return {"what": what, "value": value, "source": source or "stated without a source"}
