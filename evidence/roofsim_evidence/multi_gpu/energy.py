"""Fit the energy of long products, by architecture, to steps on several GPUs: their large GEMMs run at the limit of the card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.interpolate import PchipInterpolator

from roofsim.evaluate import evaluate
from roofsim.output import save_text
from roofsim.records import dataclass, replace
from roofsim.spec.constants.kernels import shipped as shipped_constants
from roofsim.units import humanize
from roofsim_evidence.kernels.power import architecture_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.calibrate.cases import Case
    from roofsim.numeric import Array
    from roofsim.spec.hardware.architecture import Architecture
    from roofsim.spec.resolve import Resolved

#: How far a fit may go from the shipped energy, as a factor, at what factors steps are priced, and how many energies are tried.
RANGE: Final = (0.7, 1.4)
GRID: Final = (0.7, 0.85, 1.0, 1.18, 1.4)
TRIED: Final = 141
#: Energies whose misfit is by no more than this share larger than the least one fit as well as it does. Below the energy at which
#: a card can hold its full clock all do: there the energy of single kernels decides.
AS_WELL: Final = 0.01
#: Logarithmic error from which a step counts by its error and no longer by the square of it.
SOFT: Final = 0.02
#: Sources whose steps an architecture needs: those of one cannot tell an energy from what its own software does.
SOURCES: Final = 2
DIGITS: Final = 3


def product_energies(cases: Iterable[Case]) -> dict[str, float]:
    """Return the joules of a 16-bit FLOP of long products by architecture, fitted to the steps that may be fitted.

    Only architectures that state one and have steps of several sources are asked, with all other constants as they are shipped.
    """
    several = {name: mine for name, mine in priced(cases).items() if mine.sources >= SOURCES}
    return {name: energy for name, mine in several.items() if (energy := mine.fitted()) is not None}


@dataclass(frozen=True)
class PricedEnergies:
    """Steps of one architecture, priced at several energies of its long products.

    Attributes
    ----------
    shipped
        The energy that the architecture's file states, joules.
    single
        The energy of a 16-bit FLOP of long single kernels at full clock, joules.
    logs
        Predicted over measured, as logarithms: a row for each step, a column for each of `GRID`.
    """

    shipped: float
    single: float
    cases: tuple[Case, ...]
    logs: Array

    @property
    def sources(self) -> int:
        """Number of sources of the steps."""
        return len({case.source for case in self.cases})

    def fitted(self, left_out: Callable[[Case], bool] = lambda _: False) -> float | None:
        """Return the energy that fits the steps best, of those that are not left out; None where none is left.

        Of energies that fit as well as the best it is the one nearest to that of single kernels.
        """
        kept = np.array([not left_out(case) for case in self.cases], dtype=bool)
        if not kept.any():
            return None
        curves = PchipInterpolator(np.log(GRID), self.logs[kept], axis=1)
        factors = np.geomspace(*RANGE, TRIED)
        misfits = np.array([_misfit(curves(np.log(factor))) for factor in factors])
        good = factors[misfits <= misfits.min() * (1.0 + AS_WELL)]
        nearest = good[np.argmin(np.abs(np.log(good * self.shipped / self.single)))]
        return float(f"{self.shipped * float(nearest):.{DIGITS}g}")


def priced(cases: Iterable[Case]) -> dict[str, PricedEnergies]:
    """Price the steps that may be fitted, by architecture, at all energies of the grid."""
    rows: dict[str, list[tuple[Case, Resolved]]] = {}
    for case in cases:
        resolved = case.resolve()
        if case.fits and resolved.architecture.product_energy is not None:
            rows.setdefault(resolved.architecture.name, []).append((case, resolved))
    priced = {}
    for name, mine in sorted(rows.items()):
        if len({case.source for case, _ in mine}) < SOURCES:
            continue
        shipped = float(mine[0][1].architecture.product_energy or 0.0)
        logs = [
            [np.log(_seconds(resolved, shipped * factor) / case.measured) for factor in GRID] for case, resolved in mine
        ]
        single = single_energy(mine[0][1].architecture)
        priced[name] = PricedEnergies(shipped, single, tuple(case for case, _ in mine), np.array(logs))
    return priced


def single_energy(architecture: Architecture) -> float:
    """Return the joules of a 16-bit FLOP of long single kernels at full clock, as `evidence fit kernels` found them."""
    own = architecture.matrix_energy.get("16-bit")
    return shipped_constants().energy.tensor16 * architecture.process_energy if own is None else own


def with_energy(resolved: Resolved, energy: float) -> Resolved:
    """Return a scenario whose architecture takes another energy for long products."""
    return replace(resolved, architecture=resolved.architecture.model_copy(update={"product_energy": energy}))


def _seconds(resolved: Resolved, energy: float) -> float:
    return float(evaluate(with_energy(resolved, energy)).step.step)


def _misfit(logs: Array) -> float:
    """Return the sum of errors, those of single odd steps not squared."""
    return float(np.sum(np.sqrt(1.0 + np.square(logs / SOFT)) - 1.0))


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
