"""Write fitted constants of the kernel models as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.kernels.classes import arithmetic, generation
from roofsim.calibrate.kernels.fit import KernelFit, class_of
from roofsim.calibrate.kernels.table import Group, card
from roofsim.output import save_text
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from roofsim.calibrate.kernels.least_squares import Constants
    from roofsim.calibrate.kernels.scores import GroupErrors

#: Constants in seconds; the others are plain numbers.
SECONDS: Final = ("floor", "block", "row", "walk", "expert", "window")
ABOUT: Final = """\
# measured: constants of one card, operation, format and measuring engine (floors hold that engine's launch cost).
# families: what the kernels of a generation share. architectures, shared: medians for cards without measurements.
schema: 1
"""
#: Head of a file of one's own.
OWN: Final = f"""\
# Constants of the kernel models (roofsim/cost/kernels/models), written by `roofsim calibrate fit`. `error` and `p90` are those
# of the rows of each group.
{ABOUT}"""


def write_fit(path: Path, fit: KernelFit, scores: Sequence[GroupErrors]) -> None:
    """Write the constants of a fit to a file of one's own."""
    save_text(path, kernels_text(fit, scores))


def kernels_text(fit: KernelFit, scores: Sequence[GroupErrors], *, head: str = OWN) -> str:
    """Return a fit as YAML."""
    errors = {score.group: score for score in scores}
    lines = ["measured:"]
    for group in sorted(fit.own):
        numbers = numbers_of(fit.own[group])
        numbers["rows"] = str(fit.rows[group])
        if group in errors:
            numbers["error"] = f"{errors[group].median:.3f}"
            numbers["p90"] = f"{np.percentile(errors[group].errors, 90):.3f}"
        names = {"gpu": card(group.gpu).name, "op": group.op, "dtype": group.dtype, "engine": group.engine}
        lines.append(_entry({**names, **numbers}))
    lines.append("families:")
    for family in sorted(fit.shared):
        architecture, op, *rest = family
        extra = {("engine" if _is_engine(name, fit) else "arithmetic"): name for name in rest}
        lines.append(_entry({"architecture": architecture, "op": op, **extra, **numbers_of(fit.shared[family])}))
    for title, key in (
        ("architectures", lambda group: {"architecture": generation(group), **_kind(group)}),
        ("shared", _kind),
    ):
        lines.append(f"{title}:")
        lines += [_entry({**dict(names), **numbers_of(value)}) for names, value in _medians(fit, key)]
    return head + "\n".join(lines) + "\n"


def _kind(group: Group) -> dict[str, str]:
    return {"op": group.op, "arithmetic": arithmetic(group)}


def _medians(
    fit: KernelFit, key: Callable[[Group], dict[str, str]]
) -> Iterable[tuple[tuple[tuple[str, str], ...], Constants]]:
    """Return medians of all constants over the groups with the same key."""
    gathered: dict[tuple[tuple[str, str], ...], list[Constants]] = {}
    for group in sorted(fit.own):
        constants = fit.constants(class_of(group.op), group)
        gathered.setdefault(tuple(key(group).items()), []).append(constants)
    return [(names, median_of(sets, tuple(sets[0]))) for names, sets in sorted(gathered.items())]


def _is_engine(name: str, fit: KernelFit) -> bool:
    return any(group.engine == name for group in fit.own)


def numbers_of(constants: Constants) -> dict[str, str]:
    """Return constants as they are written: seconds with a unit."""
    return {
        name: humanize(value, "s", 4) if name in SECONDS else plain_number(value) for name, value in constants.items()
    }


def plain_number(value: float) -> str:
    """Return a number with four digits."""
    return np.format_float_positional(value, precision=4, fractional=False, trim="-")


def _entry(fields: dict[str, str]) -> str:
    return "  - {" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}"


def median_of(sets: Sequence[Constants], names: Sequence[str]) -> Constants:
    """Return the medians of the logarithms of some constants."""
    return {name: float(np.exp(np.median([np.log(constants[name]) for constants in sets]))) for name in names}
