"""Score the kernel constants on the tables of aiconfigurator-core: docs/kernels-elsewhere.md."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.kernel_fit import class_of
from roofsim.calibrate.kernel_table import read_rows
from roofsim.units import humanize, parse
from roofsim_evidence.external_kernels.scores import FITTED_ROWS, HOST_BOUND, Examination, Key, Tally, shipped_rows
from roofsim_evidence.kernels.score import measured_file
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim.numeric import Array
    from roofsim_evidence.external_kernels.reader import Counts
    from roofsim_evidence.external_kernels.scores import Basis

COMMAND: Final = "roofsim calibrate fit --aiconfigurator --hold-out --page docs/kernels-elsewhere.md"
NUMBERS: Final = ("rows", "median", "p90", "bias", "within 25 %", "roofline")
#: Bounds of the table by length of a kernel.
LENGTHS: Final = ("20 us", "100 us", "1 ms")
NEW: Final = ("## Cards without fitted kernels", "")
LEFT_OUT: Final = (
    "## Each card with constants of the other cards only",
    "",
    "Constants for a card without measurements: they were refitted without any row of the scored card. L40S and RTX PRO 6000 are",
    "the only measured cards of their architectures for these kernels: their rows show the error on a new architecture. Two facts",
    "of the RTX PRO 6000's catalog file (clock, memory bandwidth) were compared with this source.",
)
LEGEND: Final = """\
**median**, **p90**: of |predicted / measured - 1|. **bias**: median of predicted / measured - 1; above zero, predictions are
too slow. **roofline**: median error of the datasheet alone, max(FLOPs / dense peak, bytes / bandwidth), on the same rows.
Every row counts once: the tables have a larger share of short kernels, whose time is mostly launch, than a step has."""


def page(found: Examination, version: str, *, groups: bool = False) -> str:
    """Return the page; with `groups` a line for every card, operation, format and engine."""
    parts = [_head(found, version)]
    if any(key.basis == "new card" for key in found.shipped.ratios):
        parts.append(_new_cards(found.shipped, NEW))
    if found.left_out is not None:
        parts.append(_new_cards(found.left_out, LEFT_OUT))
    parts.append(_measured_cards(found.shipped))
    if found.refit is not None:
        parts.append(_refit(found.refit))
    if groups:
        parts.append(_groups(found.shipped))
    parts.append(_read(found.counts, found.shipped))
    return "\n".join(parts)


def _head(found: Examination, version: str) -> str:
    read = sum(found.counts.read.values())
    skipped = sum(found.counts.skipped.values())
    shipped = sum(row["source"].startswith("aiconfigurator:") for row in read_rows(measured_file()))
    cards = len({group.gpu for group in shipped_rows()})
    return f"""\
# External validation of the kernels

<!-- Written by `{COMMAND}`. -->

The shipped kernel constants (`hardware/constants/kernels.yaml`, sha256 {_fingerprint()}) against all kernels in
aiconfigurator-core {version} (PyPI, Apache-2.0; github.com/ai-dynamo/aiconfigurator): {read:,} rows read,
{skipped:,} left out ([rows read](#rows-read)). {shipped:,} rows of that project, on {cards} cards, ship in
`evidence/measurements/kernels.csv.gz` and were fitted; they are not scored here. The [accuracy page](accuracy.md) scores whole steps.

{LEGEND}
"""


def _fingerprint() -> str:
    """Return the beginning of a hash of the constants: tells a page that is older than they are."""
    text = (constants() / "kernels.yaml").read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


def _new_cards(tally: Tally, about: Sequence[str]) -> str:
    """Return a section on cards with constants of others: the out-of-sample test."""
    return "\n".join(
        [
            *about,
            "Constants come from other cards: the geometric mean over the groups of the same operation, engine and format on",
            "cards of the same architecture, or else on those nearest in year and in FLOP per clock of their matrix units.",
            "`from` names them.",
            "",
            _table(tally, ("card", "class"), lambda key: (key.group.gpu, _class(key)), "new card", donors=True),
            "The same by number format:",
            "",
            _table(tally, ("class", "format"), lambda key: (_class(key), key.group.dtype), "new card"),
            "By measured kernel time (steps of large models consist of the longer ones):",
            "",
            _by_length(tally, "new card"),
            "By measured engine:",
            "",
            _table(tally, ("class", "engine"), lambda key: (_class(key), key.group.engine), "new card"),
        ]
    )


def _measured_cards(tally: Tally) -> str:
    return "\n".join(
        [
            "## Held-out rows of cards with fitted kernels",
            "",
            "Groups (card, operation, format, engine) with their own constants:",
            "",
            _table(tally, ("card", "class"), lambda key: (key.group.gpu, _class(key)), "own"),
            "Groups of these cards without any shipped row, with constants from other cards:",
            "",
            _table(
                tally, ("card", "class", "format", "engine"),
                lambda key: (key.group.gpu, _class(key), key.group.dtype, key.group.engine), "lent", donors=True,
            ),
            "*Host-bound* marks groups of GEMMs none of which takes less than",
            f"{humanize(HOST_BOUND, 's')}: the measured time is that of the host that issues them.",
            "`evidence/measurements/kernels.csv.gz` excludes such tables.",
            "",
        ]
    )  # fmt: skip


def _refit(tally: Tally) -> str:
    fitted = sum(tally.fitted.values())
    held = sum(len(piece) for key, pieces in tally.ratios.items() if key.basis == "own" for piece in pieces)
    return "\n".join(
        [
            "## Refitted constants",
            "",
            f"Constants fitted to at most {FITTED_ROWS} rows of each group in each file, evenly spread over the logarithm of size",
            f"({fitted:,} rows; not host-bound), scored on the {held:,} others: the best that the form of the models can do, and",
            "what measurements of the card itself would gain. These constants do not ship.",
            "",
            _table(tally, ("card", "class"), lambda key: (key.group.gpu, _class(key)), "own"),
        ]
    )


def _groups(tally: Tally) -> str:
    labels = ("card", "operation", "format", "engine", "constants")
    return "\n".join(["## Every group", "", _table(tally, labels, lambda key: (*key.group, key.basis), None)])


def _class(key: Key) -> str:
    return class_of(key.group.op).name + (", host-bound" if key.host_bound else "")


def _table(
    tally: Tally,
    names: Sequence[str],
    label: Callable[[Key], Sequence[str]],
    basis: Basis | None,
    *,
    donors: bool = False,
) -> str:
    """Return a table of errors of the rows of one basis, gathered by a label."""
    pieces: dict[tuple[str, ...], list[Array]] = defaultdict(list)
    ideal: dict[tuple[str, ...], list[Array]] = defaultdict(list)
    lenders: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key in tally.ratios:
        if basis is None or key.basis == basis:
            place = tuple(label(key))
            pieces[place] += tally.ratios[key]
            ideal[place] += tally.ideal[key]
            lenders[place] |= set(tally.donors.get(key, ()))
    if not pieces:
        return "No rows.\n"
    head = (*names, *NUMBERS, *(("from",) if donors else ()))
    lines = [_line(head), _line([":---"] * len(names) + ["---:"] * len(NUMBERS) + [":---"] * donors)]
    for place in sorted(pieces):
        numbers = _numbers(np.concatenate(pieces[place]), np.concatenate(ideal[place]))
        lines.append(_line((*place, *numbers, *((", ".join(sorted(lenders[place])),) if donors else ()))))
    return "\n".join([*lines, ""])


def _by_length(tally: Tally, basis: Basis) -> str:
    """Return a table of errors by class and measured time."""
    edges = np.array([0.0, *(parse(length, "s") for length in LENGTHS), np.inf])
    names = [f"below {LENGTHS[0]}", *(f"{a} to {b}" for a, b in pairwise(LENGTHS)), f"above {LENGTHS[-1]}"]
    gathered: dict[str, list[Key]] = defaultdict(list)
    for key in tally.ratios:
        if key.basis == basis and not key.host_bound:
            gathered[_class(key)].append(key)
    lines = [_line(("class", "time", *NUMBERS)), _line((":---", ":---", *["---:"] * len(NUMBERS)))]
    for kind in sorted(gathered):
        ratios, ideal, seconds = (
            np.concatenate([piece for key in gathered[kind] for piece in kept[key]])
            for kept in (tally.ratios, tally.ideal, tally.seconds)
        )
        place = np.searchsorted(edges, seconds, side="right") - 1
        for i, name in enumerate(names):
            if (place == i).any():
                lines.append(_line((kind, name, *_numbers(ratios[place == i], ideal[place == i]))))
    return "\n".join([*lines, ""])


def _numbers(ratios: Array, ideal: Array) -> tuple[str, ...]:
    errors = np.abs(ratios - 1.0)
    return (
        f"{len(ratios):,}",
        f"{np.median(errors):.1%}",
        f"{np.percentile(errors, 90):.1%}",
        f"{np.median(ratios) - 1.0:+.1%}",
        f"{np.mean(errors <= 0.25):.0%}",
        f"{np.median(np.abs(ideal - 1.0)):.0%}",
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _read(counts: Counts, tally: Tally) -> str:
    """Return the section on what was read, and what was left out and why."""
    tables: dict[str, int] = defaultdict(int)
    cards: dict[str, set[str]] = defaultdict(set)
    for (gpu, name), rows in counts.read.items():
        tables[name] += rows
        cards[name].add(gpu)
    lines = ["## Rows read", "", _line(("table", "rows", "cards")), _line((":---", "---:", "---:"))]
    lines += [_line((f"`{name}`", f"{rows:,}", str(len(cards[name])))) for name, rows in sorted(tables.items())]
    lines += ["", "Rows left out:", "", _line(("reason", "rows", "tables")), _line((":---", "---:", ":---"))]
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for (name, reason), rows in counts.skipped.items():
        if rows:
            reasons[reason][name] += rows
    for reason, names in sorted(reasons.items(), key=lambda item: -sum(item[1].values())):
        lines.append(_line((reason, f"{sum(names.values()):,}", ", ".join(f"`{name}`" for name in sorted(names)))))
    lines += ["", *_unscored(tally)]
    return "\n".join(lines)


def _unscored(tally: Tally) -> list[str]:
    if not tally.unscored:
        return []
    kinds: Counter[str] = Counter()
    for group, rows in tally.unscored.items():
        kinds[f"{group.op} {group.dtype}"] += rows
    listed = ", ".join(f"{name} {rows:,}" for name, rows in sorted(kinds.items()))
    return [
        "Read but not scored with the shipped constants, because no measured kernel has the operation and format:",
        f"{listed}.",
        "",
    ]
