"""What the kernel models ask of a card, and the corner between two limits."""

from __future__ import annotations

from typing import Final

import numpy as np

from roofsim.numeric import Array, Real
from roofsim.records import dataclass
from roofsim.units import parse

#: FLOP of a compute unit's matrix units per clock in 16 bits, where nobody states them: Volta, GeForce and workstation cards.
USUAL_RATE: Final = 1024.0


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
    per_clock
        FLOP of one compute unit per clock in the arithmetic of the kernel: against it counts what other units do meanwhile.
    """

    compute_units: Real
    peak: Real
    bandwidth: Real
    cache: Real
    per_clock: Real = USUAL_RATE


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

#: The same in 16 and 8 bits, of matrix units that are fed from registers and not from shared memory, where it was measured: an
#: L40S sustains 200 of 362 TFLOP/s at 350 W, an RTX PRO 6000 390 of 468 at 600 W (large products of aiconfigurator).
REGISTER_FED: Final = {"ada": 1.15, "blackwell-rtx": 1.0}


def power_share(peak: float, watts: float, architecture: str, arithmetic: str = "fp32") -> float:
    """Return the share of a peak that a board's power sustains in long products.

    A smooth minimum with 1: cards just below the limit lose a little already.

    >>> round(power_share(30.3e12, 72.0, "ada"), 2), round(power_share(989e12, 700.0, "hopper", "16-bit"), 2)
    (0.29, 0.71)
    """
    sustained = watts / (ENERGY[arithmetic] * PROCESS.get(architecture, 1.0))
    return float(1.0 / corner(1.0, peak / sustained, 4.0))


def sustained_share(peak: Real, watts: Real | None, architecture: str, arithmetic: str) -> Real:
    """Return the share of a matrix peak that power sustains on cards of a generation in `REGISTER_FED`; 1 on all others.

    Shares of the peak were measured on one board of such a generation, and others have other powers.

    >>> round(float(sustained_share(362e12, 350.0, "ada", "16-bit")), 2), sustained_share(1e15, 700.0, "hopper", "16-bit")
    (0.55, 1.0)
    """
    if architecture not in REGISTER_FED or watts is None:
        return 1.0
    sustained = watts / (ENERGY[arithmetic] * REGISTER_FED[architecture])
    share: Real = 1.0 / corner(1.0, peak / sustained, 4.0)
    return share
