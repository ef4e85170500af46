"""Store predictions out of fold, each row beside its shipped prediction, which says later whether they still hold."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.distance import RunTraits
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim_evidence.folds.kinds import KINDS
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

#: Relative change of a shipped prediction beyond which what was stored beside it is void.
MOVED: Final = 0.005


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Predictions of a row: with the shipped constants, and by kind with those of a fold. In the unit of what was measured.

    Attributes
    ----------
    traits
        What the row's interval depends on, with the shipped constants.
    """

    shipped: float
    left_out: Mapping[str, float]
    traits: RunTraits


def _flag(text: str) -> bool:
    return text == "True"


#: How each of the traits is read.
_READ: Final[dict[str, Callable[[str], Any]]] = {
    "regime": str,
    "card": str,
    "architecture": str,
    "kernels": _flag,
    "engine": str,
    "family": str,
    "number_format": str,
    "versioned": _flag,
    "experts": _flag,
    "convolutions": float,
    "streams": float,
    "host": float,
    "communication": float,
    "nodes": float,
    "in_sight": _flag,
}


def _without(kind: str) -> str:
    return f"without_{kind}"


def _text(value: float) -> str:
    return f"{value:.6g}"


def path_of(name: str) -> Path:
    """Return the file of a set."""
    return measurements() / "out_of_fold" / f"{name}.csv"


def write(name: str, rows: Mapping[str, Stored]) -> Path:
    """Write the predictions of a set; return the file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("name", "shipped", *map(_without, KINDS), *_READ))
    for row, stored in rows.items():
        values = (stored.shipped, *map(stored.left_out.__getitem__, KINDS))
        own = (getattr(stored.traits, name) for name in _READ)
        writer.writerow(
            (row, *map(_text, values), *(_text(value) if isinstance(value, float) else value for value in own))
        )
    path = path_of(name)
    path.parent.mkdir(exist_ok=True)
    save_text(path, file.getvalue())
    return path


def read(name: str) -> dict[str, Stored]:
    """Return the stored predictions of a set by the names of its rows; empty where none are stored."""
    path = path_of(name)
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            line["name"]: Stored(
                shipped=float(line["shipped"]),
                left_out={kind: float(line[_without(kind)]) for kind in KINDS},
                traits=RunTraits(**{name: read(line[name]) for name, read in _READ.items()}),
            )
            for line in csv.DictReader(file)
        }


def moved(stored: Mapping[str, Stored], predictions: Iterable[tuple[str, float]]) -> list[str]:
    """Return the rows whose shipped predictions are no longer those that were stored, or that were not stored."""
    return [
        name for name, value in predictions if name not in stored or abs(value / stored[name].shipped - 1.0) > MOVED
    ]
