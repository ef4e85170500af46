"""Score the kernel models on held-out rows, and on cards whose constants come from other cards."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.kernels.classes import generation
from roofsim.calibrate.kernels.fit import KernelFit, fit_kernels, halves, predict_lent
from roofsim.calibrate.kernels.scores import GroupErrors, Mask, errors_by_group, ideal_seconds, rows_of
from roofsim.calibrate.kernels.table import Group, KernelTable
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from pathlib import Path

MEASURED: Final = "kernels.csv.gz"


def measured_file() -> Path:
    """Return the file of published kernels."""
    return measurements() / MEASURED


def without_card(table: KernelTable, fit: KernelFit, gpu: str) -> KernelFit:
    """Return a fit that has not seen a card: what its architecture's other cards say is fitted again."""
    architecture = generation(Group(gpu, "", "", ""))
    sisters = rows_of(table, lambda group: generation(group) == architecture and group.gpu != gpu)
    result = KernelFit(
        {group: constants for group, constants in fit.own.items() if generation(group) != architecture},
        {family: constants for family, constants in fit.shared.items() if family[0] != architecture},
        {},
    )
    if sisters.any():
        again = fit_kernels(table.select(sisters))
        result.own.update(again.own)
        result.shared.update(again.shared)
    return result


def transfer(table: KernelTable, fit: KernelFit) -> list[GroupErrors]:
    """Return the errors on every card with constants lent by the others; `fit` was fitted to the first half."""
    scores: list[GroupErrors] = []
    fitted = table.select(halves(table, ideal_seconds(table)))
    for gpu in sorted({group.gpu for group in table.groups}):
        others = without_card(fitted, fit, gpu)
        own = table.select(_of_card(table, gpu))
        scores += errors_by_group(own, partial(predict_lent, fit=others))
    return scores


def _of_card(table: KernelTable, gpu: str) -> Mask:
    return rows_of(table, lambda group: group.gpu == gpu)
