"""Price collectives by function, bytes and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.collectives import LARGEST, MOST_RANKS, bus_factor
from roofsim.cost.links.collectives import KINDS, collective_time
from roofsim.errors import Place, Problem, SpecError
from roofsim.evaluate import messages_of
from roofsim.oracle.kernels import resolved_of
from roofsim.oracle.table import Column, PredictedTable, answered, groups, numbers, refuse_unknown, words

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS: Final = ("op", "bytes", "ranks", "stride")


def predict_collectives(columns: Mapping[str, Column], scenario: Any, overrides: Mapping[str, Any]) -> PredictedTable:
    """Return the seconds of collectives on the system of a scenario, alone on its links.

    Raises
    ------
    SpecError
        For unknown columns and functions, and sizes or ranks that cannot be.
    """
    refuse_unknown(columns, _COLUMNS, ("bytes", "ranks"), "collective")
    functions = words(columns, "op", "all_reduce", KINDS)
    sizes, ranks, strides = (
        numbers(columns, name, default) for name, default in (("bytes", None), ("ranks", None), ("stride", 1.0))
    )
    for name, values, most in (("bytes", sizes, LARGEST), ("ranks", ranks, float(MOST_RANKS))):
        if (values > most).any():
            raise SpecError(Problem(f"row {int(np.argmax(values))}: at most {most:g}", Place(f"table {name}")))
    fabric = messages_of(resolved_of(scenario, overrides)).fabric
    time, factor = np.empty(len(sizes)), np.empty(len(sizes))
    for (function, count, stride), rows in groups(functions, ranks, strides):
        took = collective_time(str(function), sizes[rows], float(count), float(stride), fabric)
        time[rows] = np.broadcast_to(took.seconds, len(rows))
        factor[rows] = bus_factor(str(function), int(count))
    bandwidth = np.divide(sizes * factor, time, out=np.zeros_like(time), where=time > 0.0)
    return answered("collective", {"time": time, "bus_bandwidth": bandwidth})
