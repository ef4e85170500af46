"""Predict time, memory and limits of neural networks on given hardware, without a GPU."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.api import compare, fit, resolve, run, serve
    from roofsim.errors import NoDataError, RoofsimError, SpecError, UnitError, UnknownNameError
    from roofsim.evaluate import evaluate
    from roofsim.spec.workload import Scenario
    from roofsim.views import collectives, explain, memory, ops, timeline

__version__ = "0.1.0"

__all__ = [
    "NoDataError",
    "Result",
    "RoofsimError",
    "Scenario",
    "SpecError",
    "UnitError",
    "UnknownNameError",
    "__version__",
    "collectives",
    "compare",
    "evaluate",
    "explain",
    "fit",
    "memory",
    "ops",
    "resolve",
    "run",
    "serve",
    "timeline",
]

#: Public name -> module; each is imported when first used, so that importing roofsim costs nothing.
_HOMES = {
    "NoDataError": "roofsim.errors",
    "Result": "roofsim.analyze.result",
    "RoofsimError": "roofsim.errors",
    "Scenario": "roofsim.spec.workload",
    "SpecError": "roofsim.errors",
    "UnitError": "roofsim.errors",
    "UnknownNameError": "roofsim.errors",
    "collectives": "roofsim.views",
    "compare": "roofsim.api",
    "evaluate": "roofsim.evaluate",
    "explain": "roofsim.views",
    "fit": "roofsim.api",
    "memory": "roofsim.views",
    "ops": "roofsim.views",
    "resolve": "roofsim.api",
    "run": "roofsim.api",
    "serve": "roofsim.api",
    "timeline": "roofsim.views",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'roofsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
