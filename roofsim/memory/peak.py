"""Keep the fullest of the instants of a walk, in all and by phase, elementwise for arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.graph.base import Phase
from roofsim.graph.component import Purpose
from roofsim.numeric import Real, is_scalar, maximum, where
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp


@dataclass
class Peak:
    """The largest total so far, with what was alive then; elementwise for arrays."""

    total: Real = -1.0
    live: dict[str, Real] = field(default_factory=dict)
    op: str = ""
    phase: str = ""
    by_phase: dict[str, Real] = field(default_factory=dict)
    phase_live: dict[str, dict[str, Real]] = field(default_factory=dict)
    phase_ops: dict[str, str] = field(default_factory=dict)
    in_loss: Real = 0.0
    """The largest total while the loss's gradient is taken."""

    def offer(self, live: dict[str, Real], op: AbstractOp) -> None:
        """Take note of what is alive when an op runs."""
        total: Real = 0.0
        for amount in live.values():
            total = total + amount
        phase = str(op.phase)
        if op.phase is Phase.BACKWARD and op.within(Purpose.LOSS):
            self.in_loss = maximum(self.in_loss, total)
        self._offer_to_phase(phase, total, live, op)
        higher: Any = total > self.total
        first = bool(higher) if is_scalar(total, self.total) else bool(np.ravel(higher)[0])
        if first:
            self.op, self.phase = op.name, phase
        if is_scalar(total, self.total):
            if first:
                self.total, self.live = total, dict(live)
            return
        self.total = maximum(self.total, total)
        self.live = {name: where(higher, amount, self.live.get(name, 0.0)) for name, amount in live.items()}

    def _offer_to_phase(self, phase: str, total: Real, live: dict[str, Real], op: AbstractOp) -> None:
        before = self.by_phase.get(phase, -1.0)
        higher: Any = total > before
        self.by_phase[phase] = maximum(before, total)
        if is_scalar(total, before):
            if higher:
                self.phase_live[phase], self.phase_ops[phase] = dict(live), op.name
            return
        if bool(np.ravel(higher)[0]):
            self.phase_ops[phase] = op.name
        earlier = self.phase_live.get(phase, {})
        self.phase_live[phase] = {name: where(higher, amount, earlier.get(name, 0.0)) for name, amount in live.items()}
