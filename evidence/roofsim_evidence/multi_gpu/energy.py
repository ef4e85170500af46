"""Fit the energy of long products, by architecture, to steps on several GPUs: their large GEMMs run at the limit of the card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import minimize_scalar

from roofsim.evaluate import evaluate
from roofsim.output import save_text
from roofsim.records import replace
from roofsim.units import humanize
from roofsim_evidence.kernels.power import architecture_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case
    from roofsim.spec.resolve import Resolved

#: How far a fit may go from the shipped energy, as a factor, and how closely it is searched for.
RANGE: Final = (0.7, 1.4)
CLOSE: Final = 0.005
#: Logarithmic error from which a step counts by its error and no longer by the square of it.
SOFT: Final = 0.02
#: Sources whose steps an architecture needs: those of one cannot tell an energy from what its own software does.
SOURCES: Final = 2
DIGITS: Final = 3

Rows = list[tuple["Case", "Resolved"]]


def product_energies(cases: Iterable[Case]) -> dict[str, float]:
    """Return the joules of a 16-bit FLOP of long products by architecture, fitted to the steps that may be fitted.

    Only architectures that state one and have steps of several sources are asked, with all other constants as they are shipped.
    """
    rows: dict[str, Rows] = {}
    for case in cases:
        resolved = case.resolve()
        if case.fits and resolved.architecture.product_energy is not None:
            rows.setdefault(resolved.architecture.name, []).append((case, resolved))
    return {
        name: _fitted(mine) for name, mine in sorted(rows.items()) if len({one.source for one, _ in mine}) >= SOURCES
    }


def _fitted(rows: Rows) -> float:
    start = rows[0][1].architecture.product_energy
    assert start is not None
    shipped = float(start)
    best = minimize_scalar(
        lambda factor: _misfit(rows, shipped * factor), bounds=RANGE, method="bounded", options={"xatol": CLOSE}
    )
    return float(f"{shipped * float(best.x):.{DIGITS}g}")


def _misfit(rows: Rows, energy: float) -> float:
    """Return the sum of errors, those of single odd steps not squared."""
    logs = []
    for case, resolved in rows:
        architecture = resolved.architecture.model_copy(update={"product_energy": energy})
        logs.append(np.log(float(evaluate(replace(resolved, architecture=architecture)).step.step) / case.measured))
    return float(np.sum(np.sqrt(1.0 + np.square(np.array(logs) / SOFT)) - 1.0))


def energy_line(energy: float) -> str:
    """Return the line of an architecture's file.

    >>> energy_line(1.07e-12)
    'product_energy: 1.07 pJ'
    """
    return f"product_energy: {humanize(energy, 'J', DIGITS)}"


def write_product_energies(energies: dict[str, float]) -> None:
    """Put energies into the files of their architectures."""
    for name, energy in energies.items():
        path = architecture_file(name)
        text = path.read_text(encoding="utf-8")
        save_text(path, re.sub(r"^product_energy: .*$", energy_line(energy), text, count=1, flags=re.MULTILINE))
