"""Fit again what was fitted, to the rows that a fold leaves: constants of steps, energies of long products, facts of engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, field
from roofsim.spec.constants.kernels import shipped
from roofsim_evidence.folds.parallel import mapped
from roofsim_evidence.inference import fit as engines
from roofsim_evidence.multi_gpu import energy
from roofsim_evidence.multi_gpu.cases import measured_cases
from roofsim_evidence.steps.cases import load_cases
from roofsim_evidence.steps.fit import fit_steps, usable
from roofsim_evidence.steps.table import step_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.numeric import Array
    from roofsim.spec.constants.kernels import Constants
    from roofsim_evidence.folds.kinds import Fold
    from roofsim_evidence.steps.table import StepTable

#: Engine -> facts that were set to its own publisher's memory, and what is known without: nothing beyond the context.
MEMORY_FACTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "megatron-deepspeed": ("bigscience", {"memory.runtime_memory": "0 B"}),
    "fastertransformer": ("fastertransformer", {"memory.runtime_memory": "0 B", "memory.workspace_per_token": 0.0}),
}


@dataclass(frozen=True, kw_only=True)
class Refit:
    """Constants that never saw a fold; empty where the fold holds no row that was fitted.

    Attributes
    ----------
    constants
        Of steps; None: the shipped ones.
    energies
        Architecture -> joules of a FLOP of long products.
    facts
        Engine -> its facts.
    """

    constants: Constants | None = None
    energies: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fittable:
    """All rows that constants are fitted to, priced once so that each fold is quick."""

    cases: tuple[Case, ...]
    table: StepTable
    use: Array
    start: Constants
    energies: Mapping[str, energy.PricedEnergies]
    facts: Sequence[engines.PricedFacts]

    def without(self, fold: Fold) -> Refit:
        """Return the constants of all rows but a fold's."""
        own = np.array([fold.holds(case) for case in self.cases], dtype=bool)
        left = self.use & ~own
        constants = fit_steps(self.table.only(left), self.start).constants if (own & self.use).any() else None
        energies = {
            name: value
            for name, priced in self.energies.items()
            if priced.sources >= energy.SOURCES
            and any(map(fold.holds, priced.cases))
            and (value := priced.fitted(fold.holds)) is not None
        }
        facts: dict[str, dict[str, Any]] = {
            priced.fit.engine: dict(priced.fitted(fold.holds) or {})
            for priced in self.facts
            if any(map(fold.holds, priced.cases))
        }
        for engine, (publisher, known) in MEMORY_FACTS.items():
            if (fold.kind, fold.name) == ("source", publisher):
                facts[engine] = facts.get(engine, {}) | known
        return Refit(constants=constants, energies=energies, facts=facts)


def fittable() -> Fittable:
    """Price all rows that constants are fitted to: two minutes."""
    start, cases = shipped(), load_cases()
    table = step_table(cases, list(start.classes))
    return Fittable(
        cases=cases,
        table=table,
        use=usable(cases, table),
        start=start,
        energies=energy.priced(measured_cases()),
        facts=mapped(engines.priced, engines.FITS),
    )
