"""Replace sizes and hardware numbers of a resolved scenario by arrays: each swept quantity its own axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.numeric import Real, real
from roofsim.records import replace
from roofsim.schema.base import BaseModel
from roofsim.spec.model.base import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.spec.resolve import Resolved

SECTIONS = ("model", "workload", "parallel", "gpu")
#: Words for the same size -> the one that is priced; a value at the other would be ignored.
SAME = {"workload.batch_size": "workload.micro_batch_size"}


def axes(values: Sequence[Sequence[float]]) -> list[Real]:
    """Return each list of values as an array along an axis of its own, all broadcasting against each other.

    >>> [axis.shape for axis in axes([[1, 2, 3], [4, 5]])]
    [(3, 1), (1, 2)]
    """
    rank = len(values)
    shaped = []
    for place, numbers in enumerate(values):
        shape = [1] * rank
        shape[place] = -1
        shaped.append(np.asarray(numbers, dtype=np.float64).reshape(shape))
    return list(shaped)


def with_values(resolved: Resolved, values: Mapping[str, Any]) -> Resolved:
    """Return the scenario with numbers, or arrays of them, at given paths.

    Paths are such as ``workload.micro_batch_size``, ``model.hidden_size``, ``parallel.tensor``, ``gpu.memory.bandwidth``,
    ``gpu.peak.bf16``; values are in base units and are not validated. GPUs follow the degrees.

    A micro batch size (or ``workload.batch_size``, the same) swept alone takes the global batch with it (the number of micro
    batches stays).

    Raises
    ------
    SpecError
        For a path that does not exist, or that decides the structure of the graph.
    """
    for given, value in values.items():
        path = SAME.get(given, given)
        section, *rest = path.split(".")
        if section not in SECTIONS or not rest:
            raise SpecError(Problem(f"cannot sweep {path!r}", hint=f"Paths begin with {', '.join(SECTIONS)}."))
        part = getattr(resolved, section)
        resolved = replace(resolved, **{section: _replaced(part, rest, real(value), path)})
        if path == "workload.micro_batch_size":
            resolved = _with_batches(resolved, part, real(value), given=values)
        elif section == "parallel":
            resolved = replace(resolved, gpus=resolved.parallel.gpus)
    return resolved


def _replaced(part: Any, path: list[str], value: Real, whole: str) -> Any:
    head, *rest = path
    if isinstance(part, dict):
        if head not in part:
            raise SpecError(Problem(f"no number at {whole!r}", hint=did_you_mean(head, part)))
        return part | {head: value}
    schema: BaseModel = part
    if head not in type(schema).model_fields:
        raise SpecError(Problem(f"no number at {whole!r}", hint=did_you_mean(head, type(schema).model_fields)))
    if isinstance(schema, ModelSpec) and head in schema.structural:
        raise SpecError(Problem(f"{whole} decides the structure of the graph; run one scenario for each value"))
    inner = _replaced(getattr(schema, head), rest, value, whole) if rest else value
    return schema.model_copy(update={head: inner})


def _with_batches(resolved: Resolved, before: Any, value: Real, *, given: Mapping[str, Any]) -> Resolved:
    update: dict[str, Any] = {"batch_size": value}
    if "workload.global_batch_size" not in given and before.global_batch_size is not None:
        update["global_batch_size"] = value * (before.global_batch_size / before.micro_batch_size)
    return replace(resolved, workload=resolved.workload.model_copy(update=update))


def with_trailing_axis(resolved: Resolved) -> Resolved:
    """Return the scenario with one more axis, of length one, behind those of its arrays: room for an axis of contexts."""
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
