"""What `evidence` does with the energy of long products."""

from __future__ import annotations

from roofsim_evidence.multi_gpu.cases import measured_cases
from roofsim_evidence.multi_gpu.energy import energy_line, product_energies, write_product_energies


def fit(*, write: bool = False) -> str:
    """Fit the energy of a FLOP of products that run for milliseconds, by architecture."""
    energies = product_energies(measured_cases())
    if write:
        write_product_energies(energies)
    return "\n".join(f"{name}: {energy_line(energy)}" for name, energy in energies.items())
