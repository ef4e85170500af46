"""What `evidence` does with single kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.kernels.fit import fit_kernels
from roofsim.calibrate.kernels.scores import held_out, load_kernels, report
from roofsim_evidence.kernels.files import write_constants
from roofsim_evidence.kernels.power import (
    best_product,
    energies_text,
    held_back,
    matrix_energies,
    narrow_product_energies,
    write_energies,
)
from roofsim_evidence.kernels.score import measured_file
from roofsim_evidence.kernels.score import transfer as transferred

if TYPE_CHECKING:
    from pathlib import Path


def score(*, groups: bool = False, transfer: bool = False, data: Path | None = None) -> str:
    """Return the errors on the half that a fit has not seen; `transfer`: also on cards with constants of the others."""
    table, _ = load_kernels(data or measured_file())
    half, scores = held_out(table)
    lines = ["Held-out half", *report(scores, groups=groups)]
    if transfer:
        lines += ["", "Cards left out", *report(transferred(table, half), groups=groups)]
    return "\n".join(lines)


def fit(*, write: bool = False) -> str:
    """Fit the constants of the kernel models to all rows, and the energies that hold long products back.

    Energies come first: shares of the peak are written as they are at full clock, which follows from them.
    """
    table, _ = load_kernels(measured_file())
    _, scores = held_out(table)
    if write:
        write_energies(table)
        write_constants(fit_kernels(table), scores, held_back(table))
    energies = [f"{name}: {energies_text(each)}" for name, each in matrix_energies(table).items()]
    held = [
        f"{name}: {energies_text(each, 'narrow_product_energy')}"
        for name, each in narrow_product_energies(table).items()
    ]
    best = f"Best long 16-bit products reach {best_product(table):.3f} of the peak"
    return "\n".join(["Held-out half", *report(scores), "", best, "Energy of a FLOP, at most:", *energies, *held])
