"""Read measured kernels, fit the kernel models to them, and say how well they do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.calibrate.kernels.fit import (
    KernelFit,
    fit_kernels,
    fitted_constants,
    halves,
    predict,
    usable,
)
from roofsim.calibrate.kernels.shapes import CLASSES
from roofsim.calibrate.kernels.table import Group, KernelTable, kernel_table, read_rows
from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roofsim.calibrate.kernels.classes import KernelClass
    from roofsim.numeric import Array

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class GroupErrors:
    """Errors of one group of rows: |predicted / measured - 1|."""

    group: Group
    kind: str
    errors: Array

    @property
    def median(self) -> float:
        """Median error."""
        return float(np.median(self.errors))


def ideal_seconds(table: KernelTable) -> Array:
    """Return each row's time at datasheet rates: what rows are ordered by."""
    work = np.zeros(len(table))
    for kernel in CLASSES:
        rows = _rows_of_ops(table, kernel.ops)
        if rows.any():
            work[rows] = kernel.work(table.select(rows))
    return work


def rows_of(table: KernelTable, wanted: Callable[[Group], bool]) -> Mask:
    """Return which rows are of the wanted groups."""
    return np.asarray(np.array([wanted(group) for group in table.groups], dtype=bool)[table.group])


def _rows_of_ops(table: KernelTable, ops: tuple[str, ...]) -> Mask:
    return rows_of(table, lambda group: group.op in ops)


def errors_by_group(table: KernelTable, seconds_of: Callable[..., Array]) -> list[GroupErrors]:
    """Return the errors by group of what `seconds_of` (table of one class, class) predicts; groups without are left out."""
    scores = []
    for kernel in CLASSES:
        part = table.of(kernel.ops)
        if not len(part):
            continue
        errors = np.abs(seconds_of(part, kernel) / part.seconds - 1.0)
        for i in np.unique(part.group):
            mine = errors[part.group == i]
            if np.all(np.isfinite(mine)):
                scores.append(GroupErrors(part.groups[i], kernel.name, mine))
    return scores


def load_kernels(path: Path) -> tuple[KernelTable, int]:
    """Read the rows of a file that the models cover, and count those that they do not.

    Raises
    ------
    SpecError
        When the file cannot be read, a card is unknown, or no row is covered.
    """
    table = kernel_table(read_rows(path), str(path))
    covered = usable(table)
    if not len(covered):
        ops = ", ".join(op for kernel in CLASSES for op in kernel.ops)
        raise SpecError(Problem("has no row that a kernel model covers", Place(str(path)), "", f"Operations: {ops}."))
    return covered, len(table) - len(covered)


def fit_scores(table: KernelTable, fit: KernelFit) -> list[GroupErrors]:
    """Return the errors on the rows of a table with constants of its own groups."""
    return errors_by_group(table, partial(_predict_fitted, fit=fit))


def _predict_fitted(table: KernelTable, kernel: KernelClass, fit: KernelFit) -> Array:
    return predict(table, kernel, fitted_constants(table, kernel, fit))


def held_out(table: KernelTable) -> tuple[KernelFit, list[GroupErrors]]:
    """Fit one half of the rows and return the errors on the other."""
    fitted = halves(table, ideal_seconds(table))
    fit = fit_kernels(table.select(fitted))
    rest = table.select(~fitted)
    known = rows_of(rest, lambda group: group in fit.own)
    return fit, fit_scores(rest.select(known), fit)


def report(scores: Sequence[GroupErrors], *, groups: bool = False) -> list[str]:
    """Return lines: errors by class and format, and by group when asked."""
    lines = [f"{'class':12} {'format':18} {'groups':>6} {'rows':>6} {'median':>7} {'p90':>7} {'median of groups':>17}"]
    kinds = sorted({score.kind for score in scores}, key=[kernel.name for kernel in CLASSES].index)
    for kind in kinds:
        mine = [score for score in scores if score.kind == kind]
        lines.append(_line(kind, "all", mine))
        formats = sorted({score.group.dtype for score in mine})
        if len(formats) > 1:
            lines += [_line("", name, [score for score in mine if score.group.dtype == name]) for name in formats]
    if groups:
        lines += ["", *(_group_line(score) for score in sorted(scores, key=lambda score: score.group))]
    return lines


def _line(kind: str, name: str, scores: Sequence[GroupErrors]) -> str:
    errors = np.concatenate([score.errors for score in scores])
    middle = float(np.median([score.median for score in scores]))
    return (
        f"{kind:12} {name:18} {len(scores):6} {len(errors):6} {np.median(errors):7.1%} {np.percentile(errors, 90):7.1%} "
        f"{middle:17.1%}"
    )


def _group_line(score: GroupErrors) -> str:
    gpu, op, dtype, engine = score.group
    return (
        f"{gpu:16} {op:18} {dtype:18} {engine:11} {len(score.errors):5} {score.median:7.1%} "
        f"{np.percentile(score.errors, 90):7.1%}"
    )
