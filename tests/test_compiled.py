"""A loop of machine code does with every number what numpy does, to the last bit."""

import numpy as np
import pytest

from roofsim.numeric import divide, maximum, minimum, raised, smooth_shares, where
from roofsim.points import points
from roofsim.traced import compiled
from roofsim.traced.compiled import LANES
from roofsim.traced.grid import GridReplay
from roofsim.traced.grid_rows import GridRows, GridSet
from roofsim.traced.notes import Ref
from roofsim.traced.replay import Replay
from roofsim.traced.trace import SampleTrace

#: Rows, and values of the inner column: of all sizes, and such as no operation likes.
ROWS = np.array([1.0, 3.0, 0.1, 7e300, 1e-310])
VALUES = np.array(
    [0.0, -0.0, 1.0, 2.0, 1e-320, 1e308, np.inf, -np.inf, np.nan, -3.7, *np.random.default_rng(0).normal(size=29)]
)


def program(a, b):
    """Use every operation that a loop has."""
    total, share = smooth_shares(abs_of(b), abs_of(a), 8.0)
    ends = maximum(a, b) - minimum(b, a) * maximum(b, 1.0)
    both = where((b > a) & (b <= 2.0) | (b == 0.0) | (a != b), divide(b, a), a / b)
    return total, share + ends, both * b**2, where(b >= 0.0, b, raised(abs_of(b), 0.25)), where(b < a, 1.0, 0.0) * both


def abs_of(value):
    return where(value > 0.0, value, 0.0 - value)


@pytest.mark.parametrize("there", [False, True])
def test_a_grid_gives_what_arrays_give(there, monkeypatch):
    if there:
        pytest.importorskip("llvmlite")
    monkeypatch.setattr(compiled, "is_there", lambda: there)
    trace = SampleTrace(61)
    outer, inner = trace.column(), trace.column()
    a, b = (trace.leaf(points(np.linspace(1.0, 2.0, 61)), bit) for bit in (outer, inner))
    with np.errstate(all="ignore"):
        made = program(a, b)
        wanted = program(np.repeat(ROWS, len(VALUES)), np.tile(VALUES, len(ROWS)))
    replay = Replay(trace, {str(place): trace_ref(each) for place, each in enumerate(made)}, ())
    grid = GridReplay(replay, inner)
    rows = GridRows({outer: np.arange(len(ROWS))}, {0: ROWS, 1: VALUES}, len(ROWS), len(VALUES))
    mask = np.zeros((len(ROWS), len(VALUES) + LANES), dtype=bool)
    mask[:, : len(VALUES)] = np.random.default_rng(1).random((len(ROWS), len(VALUES))) < 0.8
    asked = mask[:, : len(VALUES)]
    cut = grid.stretches({}, asked, GridSet(np.arange(len(ROWS)), np.arange(len(ROWS))), np.ones(len(ROWS), dtype=bool))
    results = {ref.node: np.full(asked.size, 17.0) for ref in replay.results.values()}
    grid.at_points(results, np.arange(len(ROWS)) * len(VALUES), rows, cut, mask)
    assert (grid.operations > 0.0) == there
    for place, values in enumerate(wanted):
        own = results[replay.results[str(place)].node].reshape(asked.shape)
        assert (own[~asked] == 17.0).all()
        assert np.array_equal(own[asked], values.reshape(asked.shape)[asked], equal_nan=True)


def trace_ref(value):
    return Ref(value.node)
