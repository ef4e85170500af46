"""What the kernel models ask of a card, and the corner between two limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofsim.numeric import Array, Real
from roofsim.units import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Silicon:
    """Datasheet facts of one card, or of many as arrays.

    Attributes
    ----------
    compute_units
        Streaming multiprocessors or compute units.
    peak
        Dense FLOP/s in the arithmetic of the kernel.
    bandwidth
        Bytes per second of device memory.
    cache
        Bytes of the last-level cache; 0 when unknown.
    """

    compute_units: Real
    peak: Real
    bandwidth: Real
    cache: Real


def corner(a: Real, b: Real, p: Real) -> Array:
    """Combine two limits: ``p`` = 1 adds their times, infinity takes the larger.

    >>> float(corner(3.0, 4.0, 2.0))
    5.0
    """
    large = np.maximum(np.maximum(a, b), np.finfo(np.float64).tiny)
    ratio = np.minimum(a, b) / large
    return np.asarray(large * np.exp(np.log1p(ratio**p) / p))


#: Energy of one multiply or add in a large matrix product at the 7 nm class, the whole board's power divided by the rate.
#: fp32 on ordinary units lies between the 8 pJ of an L4 (72 W, 5 nm class) and the 17-20 pJ of a T4 (70 W, 12 nm) at their
#: measured rates (NeuSight); 16 bits follow from A100, H100 and B200 alike (aiconfigurator: 0.82, 0.76 and 0.66 of peak
#: at 400, 700 and 1000 W); matrix units at half the width take about half.
ENERGY: Final = {
    "fp32": parse("13 pJ", "J"),
    "fp32 matrix": parse("6.5 pJ", "J"),
    "tf32": parse("3 pJ", "J"),
    "16-bit": parse("1.5 pJ", "J"),
    "8-bit": parse("0.75 pJ", "J"),
    "4-bit": parse("0.375 pJ", "J"),
}
#: Energy per operation against the 7 nm class, by architecture (16, 12, 8, 7, 5 and 4 nm class processes).
PROCESS: Final = {
    "pascal": 1.6, "gcn5": 1.6, "volta": 1.35, "turing": 1.35, "ampere-ga10x": 1.1, "ampere-ga100": 1.0, "cdna1": 1.0,
    "cdna2": 1.0, "rdna2": 1.0, "ada": 0.62, "hopper": 0.62, "cdna3": 0.62, "rdna3": 0.62, "xe2": 0.62,
    "blackwell": 0.55, "blackwell-rtx": 0.55, "cdna4": 0.55, "rdna4": 0.55,
}  # fmt: skip


def power_share(peak: float, watts: float, architecture: str, arithmetic: str = "fp32") -> float:
    """Return the share of a peak that a board's power sustains in long products.

    A smooth minimum with 1: cards just below the limit lose a little already.

    >>> round(power_share(30.3e12, 72.0, "ada"), 2), round(power_share(989e12, 700.0, "hopper", "16-bit"), 2)
    (0.29, 0.71)
    """
    sustained = watts / (ENERGY[arithmetic] * PROCESS.get(architecture, 1.0))
    return float(1.0 / corner(1.0, peak / sustained, 4.0))
