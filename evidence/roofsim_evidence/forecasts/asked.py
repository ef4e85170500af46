"""Read what is forecast: scenarios of announced cards and of benchmark rounds to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.calibrate.cases import Case, quantity_of, read_objects
from roofsim.calibrate.predict import predict_case
from roofsim.errors import NoDataError, Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim_evidence.places import HOME

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = "forecasts"
FILE: Final = "asked.jsonl"
KEYS: Final = ("name", "about", "quantity", "scenario")
REQUIRED: Final = ("name", "about", "scenario")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One thing that is forecast.

    Attributes
    ----------
    about
        Which card, or which round of which benchmark.
    quantity
        A key of `roofsim.calibrate.cases.QUANTITIES`.
    """

    name: str
    about: str
    quantity: str
    scenario: dict[str, Any]


def folder() -> Path:
    """Return where forecasts are kept."""
    return HOME / FOLDER


def read_asked(path: Path) -> list[Asked]:
    """Return what a file asks for, in its order.

    Raises
    ------
    SpecError
        When it cannot be read, or a line is wrong: with the line and the key.
    """
    asked = [_asked(row, place) for row, place in read_objects(path, KEYS, REQUIRED)]
    names = [one.name for one in asked]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(Problem(f"has {', '.join(twice)} twice", Place(str(path))))
    return asked


def _asked(row: dict[str, Any], place: Place) -> Asked:
    return Asked(name=row["name"], about=row["about"], quantity=quantity_of(row, place), scenario=row["scenario"])


def forecast(asked: Asked) -> dict[str, Any]:
    """Predict one thing, as plain data: ``predicted`` and ``interval`` in the unit of its quantity.

    Raises
    ------
    SpecError
        When the scenario is wrong or has no interval: with its name.
    """
    case = Case(name=asked.name, measured=1.0, quantity=asked.quantity, scenario=asked.scenario)
    try:
        row = predict_case(case)
    except (SpecError, NoDataError) as error:
        raise SpecError(Problem(error.reason, Place(f"{FOLDER}/{FILE}"), asked.name)) from None
    if row.interval is None:
        raise SpecError(Problem(f"{asked.quantity} has no interval", Place(f"{FOLDER}/{FILE}"), asked.name))
    return {
        "name": asked.name,
        "about": asked.about,
        "quantity": asked.quantity,
        "scenario": asked.scenario,
        "predicted": row.predicted,
        "interval": [float(end) for end in row.interval],
    }
