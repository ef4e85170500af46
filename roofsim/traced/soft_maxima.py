"""Recognise soft maxima, ``(a^p + b^p)^(1/p)``, among operations that were written so that no power overflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.traced.scalars import Scalar, Sym

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The least number that `roofsim.cost.kernels.models.silicon.corner` divides by.
_TINY: Final = float(np.finfo(np.float64).tiny)
#: How far a product of an exponent and its inverse may be from 1.
_ROUNDED: Final = 1e-12


class SoftMaxima:
    """The soft maxima of some operations.

    Parameters
    ----------
    nodes
        The operations.
    beside
        Sum of 1 and a number, or difference, and the sign -> the number.
    """

    def __init__(self, nodes: Sequence[Scalar], beside: Mapping[tuple[Any, float], Sym]) -> None:
        self.nodes, self._beside = nodes, beside

    def read(self, larger: Sym, other: Sym) -> tuple[Any, Any, float] | None:
        """Return the two numbers and the exponent of the soft maximum that a product is; None where it is none."""
        return self.by_powers(larger, other) or self.by_logarithms(larger, other)

    def by_powers(self, larger: Sym, other: Sym) -> tuple[Any, Any, float] | None:
        """Read ``max (1 + (min / max)^p)^(1/p)``, as `roofsim.numeric.smooth_shares` writes it."""
        power = self._args(other, np.power)
        lesser = self._args(self._beside.get((power[0], 1.0)), np.power) if power else None
        if not power or not lesser or not all(isinstance(one, float) for one in (power[1], lesser[1])):
            return None
        ends = self._ends(lesser[0], larger, larger) if abs(power[1] * lesser[1] - 1.0) < _ROUNDED else None
        return None if ends is None else (*ends, float(lesser[1]))

    def by_logarithms(self, larger: Sym, other: Sym) -> tuple[Any, Any, float] | None:
        """Read ``max exp(log(1 + (min / max)^p) / p)``, as `roofsim.cost.kernels.models.silicon.corner` writes it."""
        outer = self._args(other, np.exp)
        inner = self._args(outer[0], np.true_divide) if outer else None
        more = self._args(inner[0], np.log1p) if inner else None
        lesser = self._args(more[0], np.power) if more else None
        if not inner or not lesser or inner[1] != lesser[1] or not isinstance(inner[1], float):
            return None
        above = self._args(larger, np.maximum)
        own = above[0] if above and above[1] == _TINY else larger
        ends = self._ends(lesser[0], own, larger)
        return None if ends is None else (*ends, float(inner[1]))

    def _ends(self, ratio: Any, larger: Any, below: Any) -> tuple[Any, Any] | None:
        """Return the two numbers of which a ratio is the smaller over the larger (`below`)."""
        parts = self._quotient(ratio)
        if parts is None or parts[1] != below:
            return None
        ends = self._args(larger, np.maximum)
        return None if not ends or ends != self._args(parts[0], np.minimum) else (ends[0], ends[1])

    def _args(self, number: Any, function: Any) -> tuple[Any, ...] | None:
        if type(number) is not Sym or self.nodes[number].function is not function:
            return None
        return self.nodes[number].arguments

    def _quotient(self, number: Any) -> tuple[Any, ...] | None:
        if type(number) is not Sym or self.nodes[number].function not in QUOTIENTS:
            return None
        return self.nodes[number].arguments
