"""Turn the measurements of one card into an overlay of its constants: ``--calibration mycard.yaml``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import yaml

from roofsim.calibrate.kernels.table import kernel_table
from roofsim.cost.kernels.models.gemm import Tiling, tile_efficiency
from roofsim.cost.kernels.table import TILING, arithmetic_of, constants_of
from roofsim.errors import Problem, SpecError
from roofsim.spec import catalog
from roofsim.spec.constants.kernels import shipped
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate
from roofsim.units import humanize, parse

if TYPE_CHECKING:
    from roofsim.numeric import Array

#: Products and streams shorter than this are mostly launch.
LONG: Final = parse("200 us", "s")
#: Device memory is what a stream over more than this many caches reads.
CACHES: Final = 4.0
#: Products faster than this against what is expected were not measured on the card that was named.
IMPOSSIBLE: Final = 1.6
MICROSECOND: Final = parse("1 us", "s")


def overlay(rows: list[dict[str, str]], name: str) -> dict[str, Any]:
    """Return what the rows that `roofsim calibrate measure` wrote say of a card of the catalog.

    Products of 200 us and more give the achieved share of each format, against what the shared constants and the tiles
    of such products let expect; streams over more than four caches the share of the bandwidth; chains of tiny kernels
    the launch floor; the host's own clock its issue factor. What was not measured is left out, and keeps its constants.
    Rows of a scenario's kernels (`--for`) give what each class of them takes against what was predicted.

    Raises
    ------
    SpecError
        For an unknown card, or when no row says anything.
    """
    kernel_table(rows)  # refuses times and sizes that are none
    gpu: Gpu = validate(Gpu, catalog.load("gpu", catalog.resolve_name("gpu", name, loosely=False)))
    classes = _classes(rows)
    if classes:
        return {
            "schema": 1,
            "gpu": gpu.name,
            "deviation": {"kernels": classes},
            "source": rows[0]["source"] + ", " + rows[0]["gpu"],
        }
    compute = {dtype: value for dtype in _formats(rows) if (value := _compute(rows, gpu, dtype)) is not None}
    deviation: dict[str, Any] = {"compute": compute, "stream": _stream(rows, gpu)}
    floor, issue = _launch(rows), _issue(rows)
    if not compute and deviation["stream"] is None and floor is None and issue is None:
        raise SpecError(
            Problem("no row says anything of the card", hint="`roofsim calibrate measure` writes such tables.")
        )
    return {
        "schema": 1,
        "gpu": gpu.name,
        "deviation": {key: value for key, value in deviation.items() if value},
        **({} if floor is None else {"kernel_floor": humanize(floor, "s", 3)}),
        **({} if issue is None else {"issue_factor": round(issue / shipped_physics()["host_issue_time"], 3)}),
        "source": rows[0]["source"] + ", " + rows[0]["gpu"],
    }


def to_yaml(data: dict[str, Any]) -> str:
    """Return the overlay as a file."""
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


#: A class of kernels is held to take no less than this share of what is predicted beyond launches.
_LEAST: Final = 0.05


def _classes(rows: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Return what kernels of a scenario took against what was predicted for them, by class of ops.

    The factor is on what a kernel takes beyond its launch, each weighed by how long the step runs it. The error is the root mean
    square of what is left, as a logarithm.
    """
    facts = [(row, _other(row)) for row in rows]
    of_scenario = [(row, other) for row, other in facts if "of" in other]
    if of_scenario and len(of_scenario) < len(rows):
        message = "some rows are of a scenario's kernels (measured with --for), others of the card at large"
        raise SpecError(Problem(message, hint="Fit each of them from a table of its own."))
    return {
        name: _class([one for one in of_scenario if one[1]["of"] == name])
        for name in sorted({one["of"] for _, one in of_scenario})
    }


def _class(rows: list[tuple[dict[str, str], dict[str, Any]]]) -> dict[str, Any]:
    columns = [[float(other[f"{name}_us"]) for _, other in rows] for name in ("predicted", "floor", "step")]
    predicted, floor, step = (np.array(column) for column in columns)
    measured = np.array([float(row["time_us"]) for row, _ in rows])
    runs = step / predicted
    beyond = float(np.sum(runs * (measured - floor)) / np.sum(runs * (predicted - floor)))
    factor = max(beyond, _LEAST)
    left = np.log(measured / (floor + factor * (predicted - floor)))
    error = float(np.sqrt(np.sum(step * left**2) / np.sum(step)))
    share = min(float(other["share"]) for _, other in rows)
    return {"factor": round(factor, 4), "error": round(error, 4), "share": round(share, 4), "kernels": len(rows)}


def _formats(rows: list[dict[str, str]]) -> list[str]:
    return sorted({row["dtype"] for row in rows if row["op"] == "gemm"} & set(shipped().compute))


def _seconds(rows: list[dict[str, str]]) -> Array:
    return np.array([float(row["time_us"]) for row in rows]) * MICROSECOND


def _sizes(rows: list[dict[str, str]], *names: str) -> list[Array]:
    return [np.array([float(row[name] or 1.0) for row in rows]) for name in names]


def _compute(rows: list[dict[str, str]], gpu: Gpu, dtype: str) -> float | None:
    """Return the share of long products against the shared one, or None where there are none, or no peak."""
    peak = gpu.peak.get(dtype) or gpu.vector_peak.get(dtype)
    own = [row for row in rows if row["op"] == "gemm" and row["dtype"] == dtype]
    if peak is None or not own:
        return None
    m, n, k = _sizes(own, "m", "n", "k")
    seconds = _seconds(own)
    expected = np.full(len(own), shipped().compute[dtype] * peak)
    if gpu.compute_units is not None:
        _, numbers = constants_of("gemm", gpu.architecture, None, arithmetic_of(dtype))
        tiling = Tiling(**{name: numbers[name] for name in TILING})
        expected = expected * np.asarray(tile_efficiency(m, n, k, 1.0, float(gpu.compute_units), tiling))
    reached = 2.0 * m * n * k / seconds / expected
    long = seconds > LONG
    if (reached[long] > IMPOSSIBLE).any():
        raise SpecError(
            Problem(f"gemm rows in {dtype} are {reached.max():.3g} times as fast as expected: is this {gpu.name}?")
        )
    return round(float(np.median(reached[long])), 4) if long.any() else None


def _stream(rows: list[dict[str, str]], gpu: Gpu) -> float | None:
    """Return the bandwidth of large triads and copies against the shared share and what simple kernels reach."""
    own = [row for row in rows if row["op"] == "stream" and _other(row).get("fn") in _MOVED]
    if not own:
        return None
    (elements,) = _sizes(own, "n")
    moved = 4.0 * elements * np.array([_MOVED[_other(row)["fn"]] for row in own])
    large = moved > CACHES * (0.0 if gpu.l2 is None else gpu.l2.capacity)
    seconds = _seconds(own)
    large &= seconds > LONG
    if not large.any():
        return None
    constants = shipped()
    reach = 1.0
    if gpu.compute_units is not None:
        load = gpu.memory.bandwidth / gpu.compute_units / constants.unit_bandwidth
        reach = float((1.0 + load * load) ** -0.5)
    share = float(np.median(moved[large] / seconds[large])) / gpu.memory.bandwidth
    return round(share / (constants.stream * reach), 4)


#: Streams that both read and write, and how often each element moves.
_MOVED: Final = {"copy": 2.0, "triad": 3.0}


def _other(row: dict[str, str]) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(row["other"] or "{}")
    return facts


def _launch(rows: list[dict[str, str]]) -> float | None:
    return _median([row for row in rows if row["op"] == "launch_gap" and _other(row).get("variant") == "eager"])


def _issue(rows: list[dict[str, str]]) -> float | None:
    return _median([row for row in rows if row["op"] == "host_issue" and "backward" not in _other(row).get("call", "")])


def _median(rows: list[dict[str, str]]) -> float | None:
    return float(np.median(_seconds(rows))) if rows else None
