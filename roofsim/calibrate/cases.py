"""Read measurements, each with the scenario that was run: JSON Lines, one measurement per line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.api import resolve
from roofsim.errors import Place, Problem, SpecError, UnitError, UnknownNameError, did_you_mean
from roofsim.evaluate import Evaluation, evaluate
from roofsim.records import dataclass, fields
from roofsim.spec.engine.choice import read_choice
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roofsim.spec.resolve import Resolved

STEP_TIME: Final = "step_time"
REQUESTS: Final = "requests_per_second"
#: Quantity that may be measured -> its unit; quantities have the names that they have in a result.
QUANTITIES: Final = {
    STEP_TIME: "s",
    "time_per_output_token": "s",
    "time_to_first_token": "s",
    "output_tokens_per_second": "",
    REQUESTS: "",
    "allocated_peak": "B",
    "reserved": "B",
    "device_total": "B",
    "parameters": "B",
}
#: Quantities of a server under load.
SERVED: Final = ("time_per_output_token", "time_to_first_token", "output_tokens_per_second", REQUESTS)
#: Latencies that a measured rate may have had to keep.
LATENCIES: Final = ("time_to_first_token", "time_per_output_token", "end_to_end")
#: Quantities of memory.
BYTES: Final = ("allocated_peak", "reserved", "device_total", "parameters")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One measurement and the scenario that was run.

    Attributes
    ----------
    measured
        In seconds, bytes, or tokens or requests per second.
    quantity
        What was measured: a key of `QUANTITIES`.
    source
        Short name of the publication; empty for measurements of one's own.
    year
        Of the publication or of its software; 0 if not stated.
    software
        Engine and version, as the source names them; by default the scenario's engine.
    regime
        Group of the measurement: train, forward, prefill, decode, serving ...; by default the phase.
    family
        Kind of network; by default the model's name.
    grade
        A: every setting is stated; B: one is assumed, or the host may dominate.
    citation
        Repository and file or table.
    apart
        Why the row is scored separately: a setting is not stated. Empty for all others.
    machine
        What it was measured on, where several rows share it: organization and system. Empty where the source does not say.
    peer
        What the source's own simulator predicts, where it publishes that; in the unit of `measured`.
    bounds
        Mean latencies in seconds that the server had to keep: the rate measured is the highest one that does.
    fits
        Whether constants, or widths of intervals, may be fitted to the row.
    """

    name: str
    measured: float
    scenario: dict[str, Any]
    quantity: str = STEP_TIME
    source: str = ""
    year: int = 0
    software: str = ""
    regime: str = ""
    family: str = ""
    grade: str = ""
    citation: str = ""
    note: str = ""
    apart: str = ""
    machine: str = ""
    peer: float | None = None
    bounds: dict[str, float] | None = None
    fits: bool = False

    def __post_init__(self) -> None:
        defaults = {"software": self.engine, "regime": _regime(self), "family": self.model}
        for name, value in defaults.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)

    @property
    def model(self) -> str:
        """The name of the network."""
        model = self.scenario["model"]
        return model if isinstance(model, str) else str(model.get("name", model.get("family", "")))

    @property
    def engine(self) -> str:
        """The name of the engine, without its version; empty where the scenario leaves it to the default."""
        engine = self.scenario.get("workload", {}).get("engine")
        return "" if engine is None else read_choice(engine, Place(self.name)).name

    @property
    def gpu(self) -> str:
        """The card, as the scenario names it."""
        gpu = self.scenario.get("hardware", {}).get("gpu", "")
        return gpu if isinstance(gpu, str) else str(gpu.get("name", ""))

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return int(self.scenario.get("hardware", {}).get("gpus", 1))

    @property
    def precision(self) -> str:
        """The precision as named, or what a mapping computes in."""
        given = self.scenario.get("workload", {}).get("precision", "")
        return given if isinstance(given, str) else f"{given['compute']} (mixed)"

    def resolve(self) -> Resolved:
        """Resolve the scenario."""
        return resolve(self.scenario)

    def evaluate(self) -> Evaluation:
        """Price the scenario with the shipped constants."""
        return evaluate(self.resolve())


def _regime(case: Case) -> str:
    return "serving" if case.quantity in SERVED else str(case.scenario.get("workload", {}).get("phase", "train"))


_KEYS: Final = tuple(field.name for field in fields(Case) if field.name != "fits")
_REQUIRED: Final = ("measured", "scenario")


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the measurements of a file, in its order.

    Every line is a JSON object with `scenario` (as `roofsim run` takes it) and `measured` (a number in SI units, or text with a
    unit); `quantity` says what was measured (a step's time, if left out); the other keys describe the row.

    Raises
    ------
    SpecError
        When the file cannot be read, or a line is no such object: with the line and the key.
    """
    cases = tuple(_case(row, place) for row, place in read_objects(path, _KEYS, _REQUIRED))
    if not cases:
        raise SpecError(Problem("has no measurements", Place(str(path)), hint="Expected one JSON object per line."))
    return cases


def read_objects(path: Path, keys: Sequence[str], required: Sequence[str]) -> list[tuple[dict[str, Any], Place]]:
    """Return the JSON objects of a file, one per line, each with its place.

    Raises
    ------
    SpecError
        When the file cannot be read, or a line is no object with the required keys and no others.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            Problem(f"cannot be read: {getattr(error, 'strerror', None) or error}", Place(str(path)))
        ) from None
    places = ((line, Place(str(path), number)) for number, line in enumerate(lines, 1) if line.strip())
    return [(_object(line, place, keys, required), place) for line, place in places]


def _object(line: str, place: Place, keys: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise SpecError(Problem(f"is not JSON: {error}", place)) from None
    if not isinstance(row, dict):
        raise SpecError(Problem(f"expected an object, got {line[:40]!r}", place))
    for key in row:
        if key not in keys:
            raise UnknownNameError(Problem(f"unknown key {key!r}. {did_you_mean(key, keys)}", place))
    for key in required:
        if key not in row:
            raise SpecError(Problem(f"lacks the key {key!r}", place))
    return row


def quantity_of(row: dict[str, Any], place: Place) -> str:
    """Return what an object says is measured: a step's time, if nothing; refuse what is no key of `QUANTITIES`."""
    quantity = row.get("quantity", STEP_TIME)
    if quantity not in QUANTITIES:
        message = f"unknown quantity {quantity!r}. {did_you_mean(str(quantity), tuple(QUANTITIES))}"
        raise UnknownNameError(Problem(message, place, "quantity"))
    return str(quantity)


def _case(row: dict[str, Any], place: Place) -> Case:
    quantity = quantity_of(row, place)
    if not isinstance(row["scenario"], dict) or "model" not in row["scenario"]:
        raise SpecError(Problem("expected a mapping with a model, as `roofsim run` takes it", place, "scenario"))
    _check_bounds(row.get("bounds"), place)
    measured = _number(row["measured"], QUANTITIES[quantity], place)
    return Case(**{"name": f"line {place.line}", **row, "measured": measured})


def _check_bounds(bounds: Any, place: Place) -> None:
    """Refuse bounds that are no seconds of latencies."""
    if bounds is None:
        return
    if not isinstance(bounds, dict) or not bounds:
        raise SpecError(Problem(f"expected a mapping of latencies to seconds, got {bounds!r}", place, "bounds"))
    for name, value in bounds.items():
        if name not in LATENCIES:
            raise UnknownNameError(
                Problem(f"unknown latency {name!r}. {did_you_mean(name, LATENCIES)}", place, "bounds")
            )
        _number(value, "s", place)


def _number(value: Any, unit: str, place: Place) -> float:
    """Return what was measured; numbers are in SI units."""
    if isinstance(value, str) and unit:
        try:
            value = parse(value, unit)
        except UnitError as error:
            raise SpecError(Problem(str(error), place, "measured")) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0.0:
        expected = f"a number of {unit} above 0, or text with a unit" if unit else "a number above 0"
        raise SpecError(Problem(f"expected {expected}, got {value!r}", place, "measured"))
    return float(value)


def line_of(row: dict[str, Any]) -> str:
    """Return a measurement as a line of a file: keys sorted, empty ones left out.

    >>> line_of({"name": "a", "measured": 0.5, "note": "", "scenario": {"model": "resnet50"}})
    '{"measured": 0.5, "name": "a", "scenario": {"model": "resnet50"}}'
    """
    return json.dumps({key: value for key, value in row.items() if value not in ("", None)}, sort_keys=True)
