"""Find the highest rate at which a server keeps bounds on its latencies, as benchmarks measure servers."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from roofsim.api import resolve_document
from roofsim.errors import NoDataError
from roofsim.serve.answer import serve_document
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from roofsim.serve.load import Steady
    from roofsim.serve.served import Served

#: Halvings of the rates between none and the highest: a thousandth of it.
_HALVINGS: Final = 10


def output_rate_within(served: Served, scenario: dict[str, Any], bounds: dict[str, float]) -> float:
    """Return the output tokens per second of the highest request rate whose mean latencies keep bounds in seconds.

    `served` is the answer for the scenario without a rate.

    Raises
    ------
    SpecError
        When the scenario is wrong.
    NoDataError
        When not even a request alone keeps the bounds, or not one fits.
    """
    if served.steady is None:
        raise NoDataError("no steady state")
    low, high = 0.0, served.highest_rate
    for _ in range(_HALVINGS):
        rate = 0.5 * (low + high)
        steady = serve_document(load_scenario(_at(scenario, rate), {}), resolve_document).steady
        low, high = (rate, high) if steady is not None and _kept(steady, bounds) else (low, rate)
    if low <= 0.0:
        raise NoDataError("no rate keeps the bounds on latencies")
    return low * float(served.plan.output)


def _at(scenario: dict[str, Any], rate: float) -> dict[str, Any]:
    """Return a scenario with requests that come at a rate."""
    changed = deepcopy(scenario)
    changed["workload"]["request_rate"] = rate
    return changed


def _kept(steady: Steady, bounds: dict[str, float]) -> bool:
    taken = {name: getattr(steady, name) for name in bounds}
    return all(seconds is None or seconds <= bounds[name] for name, seconds in taken.items())
