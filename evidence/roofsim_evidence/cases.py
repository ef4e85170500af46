"""Load the shipped cases: published measurements of whole steps, each with its scenario and its source."""

from __future__ import annotations

import csv
import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from roofsim.api import resolve
from roofsim.errors import Place
from roofsim.evaluate import Evaluation, evaluate
from roofsim.records import dataclass, replace
from roofsim.spec.engine.choice import read_choice
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.spec.resolve import Resolved

#: One case in this many may be used to fit constants, the others only score: every third when they are sorted by
#: source, card, family, precision, software and a hash of the name, so that each of these has its share.
FIT_SHARE = 3


def engine_name(scenario: dict[str, Any]) -> str:
    """Return the name of a scenario's engine, without its version."""
    return read_choice(scenario["workload"]["engine"], Place("measurements")).name


@dataclass(frozen=True, kw_only=True)
class Case:
    """One measured step.

    Attributes
    ----------
    source
        Short name of the publication (measurements/README.md).
    gpu
        Catalog name of the card.
    regime
        train or forward.
    family
        Kind of network, for grouping.
    measured
        Seconds per step.
    scenario
        What was run.
    fits
        Whether constants may be fitted to it.
    """

    name: str
    source: str
    year: int
    gpu: str
    software: str
    regime: str
    family: str
    measured: float
    scenario: dict[str, Any]
    note: str = ""
    fits: bool = False

    @property
    def precision(self) -> str:
        """The precision as named, or what a mapping computes in."""
        given = self.scenario["workload"]["precision"]
        return given if isinstance(given, str) else f"{given['compute']} (mixed)"

    def resolve(self) -> Resolved:
        """Resolve the scenario."""
        return resolve(self.scenario)

    def evaluate(self) -> Evaluation:
        """Price the scenario with the shipped constants."""
        return evaluate(self.resolve())


def folder() -> Path:
    """Return the folder of the shipped measurements."""
    return measurements()


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all shipped cases, in the order of the file."""
    with (folder() / "cases.csv").open(encoding="utf-8", newline="") as file:
        cases = [_case(row) for row in csv.DictReader(file)]
    drawn = {case.name for case in sorted(cases, key=case_order)[::FIT_SHARE]}
    return tuple(replace(case, fits=case.name in drawn) for case in cases)


def case_order(case: Case) -> tuple[str, ...]:
    """Return the key of the fixed order in which every third case may be fitted."""
    digest = hashlib.sha256(case.name.encode()).hexdigest()
    return (case.source, case.gpu, case.family, case.precision, case.software, digest)


def _case(row: dict[str, str]) -> Case:
    return Case(
        name=row["id"],
        source=row["source"],
        year=int(row["year"]),
        gpu=row["gpu"],
        software=row["engine"],
        regime=row["regime"],
        family=row["family"],
        measured=float(row["value"]),
        scenario=json.loads(row["scenario"]),
        note=row["note"],
    )
