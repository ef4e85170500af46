"""Predict time, memory and limits of neural networks on given hardware, without a GPU."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.api import compare, fit, resolve, run, serve, sweep
    from roofsim.calibrate.script import measurement_script
    from roofsim.decide.advise import advise
    from roofsim.decide.budget import budget
    from roofsim.decide.check import check
    from roofsim.decide.diff import diff
    from roofsim.decide.need import need
    from roofsim.decide.owning import rent_or_buy
    from roofsim.decide.power import power
    from roofsim.decide.transplant import transplant
    from roofsim.decide.whatif import whatif
    from roofsim.errors import NoDataError, RoofsimError, SpecError, UnitError, UnknownNameError
    from roofsim.evaluate import evaluate
    from roofsim.oracle.predict import predict_batch
    from roofsim.plans import plan
    from roofsim.spec.scenario.workload import Scenario
    from roofsim.views import collectives, explain, graph, memory, ops, timeline

__version__ = "0.2.0"

__all__ = [
    "NoDataError",
    "Result",
    "RoofsimError",
    "Scenario",
    "SpecError",
    "UnitError",
    "UnknownNameError",
    "__version__",
    "advise",
    "budget",
    "check",
    "collectives",
    "compare",
    "diff",
    "evaluate",
    "explain",
    "fit",
    "graph",
    "measurement_script",
    "memory",
    "need",
    "ops",
    "plan",
    "power",
    "predict_batch",
    "rent_or_buy",
    "resolve",
    "run",
    "serve",
    "sweep",
    "timeline",
    "transplant",
    "whatif",
]

#: Public name -> module; each is imported when first used, so that importing roofsim costs nothing.
_HOMES = {
    "NoDataError": "roofsim.errors",
    "Result": "roofsim.analyze.result",
    "RoofsimError": "roofsim.errors",
    "Scenario": "roofsim.spec.scenario.workload",
    "SpecError": "roofsim.errors",
    "UnitError": "roofsim.errors",
    "UnknownNameError": "roofsim.errors",
    "advise": "roofsim.decide.advise",
    "budget": "roofsim.decide.budget",
    "power": "roofsim.decide.power",
    "rent_or_buy": "roofsim.decide.owning",
    "check": "roofsim.decide.check",
    "collectives": "roofsim.views",
    "compare": "roofsim.api",
    "diff": "roofsim.decide.diff",
    "evaluate": "roofsim.evaluate",
    "explain": "roofsim.views",
    "fit": "roofsim.api",
    "graph": "roofsim.views",
    "measurement_script": "roofsim.calibrate.script",
    "memory": "roofsim.views",
    "need": "roofsim.decide.need",
    "ops": "roofsim.views",
    "plan": "roofsim.plans",
    "predict_batch": "roofsim.oracle.predict",
    "resolve": "roofsim.api",
    "run": "roofsim.api",
    "serve": "roofsim.api",
    "sweep": "roofsim.api",
    "timeline": "roofsim.views",
    "transplant": "roofsim.decide.transplant",
    "whatif": "roofsim.decide.whatif",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'roofsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """The package, in which a public name stays what it is when a module of the same name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds each module that it has loaded as an attribute of its package: evaluate.py as `evaluate`.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
