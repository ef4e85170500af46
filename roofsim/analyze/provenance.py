"""List the numbers that a result rests on, each with where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.architecture import Architecture
    from roofsim.spec.engine import Engine
    from roofsim.spec.hardware import Gpu


def provenance(
    gpu: Gpu, architecture: Architecture, engine: Engine, math: str, override: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return rows of what, value and source: the card's numbers, the achieved fractions, the engine's facts."""
    rows = _card(gpu, math)
    rows += [
        _row(
            f"architecture.{architecture.name}.matmul.{math}",
            architecture.matmul.get(math),
            architecture.sources.get("matmul"),
        ),
        _row(
            f"architecture.{architecture.name}.bandwidth", architecture.bandwidth, architecture.sources.get("bandwidth")
        ),
        _row(
            f"architecture.{architecture.name}.kernel_floor",
            humanize(architecture.kernel_floor, "s"),
            architecture.sources.get("kernel_floor"),
        ),
        _row(f"engine.{engine.name}.attention", engine.attention, engine.sources.get("attention")),
        _row(
            f"engine.{engine.name}.host_issue_time",
            humanize(engine.host_issue_time, "s"),
            engine.sources.get("host_issue_time"),
        ),
    ]
    return rows + [_row(key, value, "hardware.override of the scenario") for key, value in override.items()]


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
        found = gpu.sources.get(".".join(parts[:length]))
        if found:
            return found
    return "stated without a source"


def _row(what: str, value: Any, source: str | None) -> dict[str, Any]:
    return {"what": what, "value": value, "source": source or "stated without a source"}
