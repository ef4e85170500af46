"""Make room for an axis of contexts behind the numbers of a scenario: a decode is averaged over what it attends to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.records import replace
from roofsim.schema.base import BaseModel

if TYPE_CHECKING:
    from roofsim.spec.resolve import Resolved

SECTIONS = ("model", "workload", "parallel", "gpu", "system", "engine", "architecture")


def with_context_axis(resolved: Resolved) -> Resolved:
    """Return the scenario with one more axis, of length one, behind those of its arrays."""
    return replace(resolved, **{section: _lifted(getattr(resolved, section)) for section in SECTIONS})


def _lifted(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return part[..., np.newaxis]
    if isinstance(part, dict):
        lifted = {key: _lifted(value) for key, value in part.items()}
        return lifted if any(lifted[key] is not value for key, value in part.items()) else part
    if isinstance(part, BaseModel):
        update = {name: _lifted(value) for name, value in part.__dict__.items()}
        changed = {name: value for name, value in update.items() if value is not part.__dict__[name]}
        return part.model_copy(update=changed) if changed else part
    return part
