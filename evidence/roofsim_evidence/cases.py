"""Load the published measurements, and draw the third of them that fits may use."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.cases import Case, read_cases
from roofsim.records import replace
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: One case in this many may be used to fit constants, the others only score: every third when they are sorted by
#: source, card, family, precision, software and a hash of the name, so that each of these has its share.
FIT_SHARE: Final = 3


def case_order(case: Case) -> tuple[str, ...]:
    """Return the key of the fixed order in which every third case may be fitted."""
    return (case.source, case.gpu, case.family, case.precision, case.software, digest(case))


def digest(case: Case) -> str:
    """Return the hash of a case's name: an order that nobody chose."""
    return hashlib.sha256(case.name.encode()).hexdigest()


@cache
def load(name: str) -> tuple[Case, ...]:
    """Return the cases of ``evidence/measurements/NAME.jsonl``, in the order of the file; none of them may be fitted yet."""
    return read_cases(measurements() / f"{name}.jsonl")


def with_thirds(
    cases: Iterable[Case],
    *,
    order: Callable[[Case], tuple[str, ...]] = case_order,
    drawn_from: Callable[[Case], bool] = lambda _: True,
) -> tuple[Case, ...]:
    """Return the cases with every third of some, in a fixed order, marked as one that may be fitted."""
    cases = tuple(cases)
    drawn = {case.name for case in sorted(filter(drawn_from, cases), key=order)[::FIT_SHARE]}
    return tuple(replace(case, fits=case.name in drawn) for case in cases)
