"""Fill docs/external-kernels.md: the kernel constants on the tables of aiconfigurator-core."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.kernels.fit import class_of
from roofsim.calibrate.kernels.table import read_rows
from roofsim.units import humanize, parse
from roofsim_evidence.external_kernels.scores import FITTED_ROWS, HOST_BOUND, Examination, Key, Tally, shipped_rows
from roofsim_evidence.kernels.score import measured_file
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.numeric import Array
    from roofsim_evidence.external_kernels.reader import Counts
    from roofsim_evidence.external_kernels.scores import Basis

PATH: Final = "docs/external-kernels.md"
NUMBERS: Final = ("rows", "median", "p90", "bias", "within 25 %", "roofline")
#: Bounds of the table by length of a kernel.
LENGTHS: Final = ("20 us", "100 us", "1 ms")


def page(examination: Examination, version: str, *, groups: bool = False) -> DocsPage:
    """Return the page; with `groups` a line for every card, operation, format and engine."""
    tally = examination.shipped
    labels = ("card", "operation", "format", "engine", "constants")
    rows = read_rows(measured_file())
    text = filled(
        "external-kernels.md",
        fingerprint=_fingerprint(),
        version=version,
        read=f"{sum(examination.counts.read.values()):,}",
        skipped=f"{sum(examination.counts.skipped.values()):,}",
        shipped=f"{sum(row['source'].startswith('aiconfigurator:') for row in rows):,}",
        cards=len({group.gpu for group in shipped_rows()}),
        new_cards=_lent(tally) if any(key.basis == "new card" for key in tally.ratios) else None,
        left_out=None if examination.left_out is None else _lent(examination.left_out),
        own=_table(tally, ("card", "class"), lambda key: (key.group.gpu, _class(key)), "own"),
        borrowed=_table(
            tally,
            ("card", "class", "format", "engine"),
            lambda key: (key.group.gpu, _class(key), key.group.dtype, key.group.engine),
            "lent",
            donors=True,
        ),
        host_bound=humanize(HOST_BOUND, "s"),
        refit=None if examination.refit is None else _refit(examination.refit),
        most=FITTED_ROWS,
        groups=_table(tally, labels, lambda key: (*key.group, key.basis), None) if groups else None,
        tables_read=_read(examination.counts),
        reasons=_reasons(examination.counts),
        unscored=_unscored(tally),
    )
    return DocsPage(path=PATH, text=text)


def _fingerprint() -> str:
    """Return the beginning of a hash of the constants: tells a page that is older than they are."""
    text = (constants() / "kernels.yaml").read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


def _lent(tally: Tally) -> dict[str, str]:
    """Return the tables on cards with constants of others: the out-of-sample test."""
    return {
        "cards": _table(tally, ("card", "class"), lambda key: (key.group.gpu, _class(key)), "new card", donors=True),
        "formats": _table(tally, ("class", "format"), lambda key: (_class(key), key.group.dtype), "new card"),
        "lengths": _by_length(tally, "new card"),
        "engines": _table(tally, ("class", "engine"), lambda key: (_class(key), key.group.engine), "new card"),
    }


def _refit(tally: Tally) -> dict[str, str]:
    held = sum(len(piece) for key, pieces in tally.ratios.items() if key.basis == "own" for piece in pieces)
    return {
        "fitted": f"{sum(tally.fitted.values()):,}",
        "held": f"{held:,}",
        "table": _table(tally, ("card", "class"), lambda key: (key.group.gpu, _class(key)), "own"),
    }


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
        return "No rows."
    cells = [
        (
            *place,
            *_numbers(np.concatenate(pieces[place]), np.concatenate(ideal[place])),
            *((", ".join(sorted(lenders[place])),) if donors else ()),
        )
        for place in sorted(pieces)
    ]
    heads = (*names, *NUMBERS, *(("from",) if donors else ()))
    return table(heads, cells, left=len(names), last="left" if donors else "right")


def _by_length(tally: Tally, basis: Basis) -> str:
    """Return a table of errors by class and measured time."""
    edges = np.array([0.0, *(parse(length, "s") for length in LENGTHS), np.inf])
    names = [f"below {LENGTHS[0]}", *(f"{a} to {b}" for a, b in pairwise(LENGTHS)), f"above {LENGTHS[-1]}"]
    gathered: dict[str, list[Key]] = defaultdict(list)
    for key in tally.ratios:
        if key.basis == basis and not key.host_bound:
            gathered[_class(key)].append(key)
    cells = []
    for kind in sorted(gathered):
        ratios, ideal, seconds = (
            np.concatenate([piece for key in gathered[kind] for piece in kept[key]])
            for kept in (tally.ratios, tally.ideal, tally.seconds)
        )
        place = np.searchsorted(edges, seconds, side="right") - 1
        for i, name in enumerate(names):
            if (place == i).any():
                cells.append((kind, name, *_numbers(ratios[place == i], ideal[place == i])))
    return table(("class", "time", *NUMBERS), cells, left=2)


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


def _read(counts: Counts) -> str:
    """Return the table of what was read."""
    tables: dict[str, int] = defaultdict(int)
    cards: dict[str, set[str]] = defaultdict(set)
    for (gpu, name), rows in counts.read.items():
        tables[name] += rows
        cards[name].add(gpu)
    cells = [(f"`{name}`", f"{rows:,}", str(len(cards[name]))) for name, rows in sorted(tables.items())]
    return table(("table", "rows", "cards"), cells)


def _reasons(counts: Counts) -> str:
    """Return the table of what was left out, and why."""
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for (name, reason), rows in counts.skipped.items():
        if rows:
            reasons[reason][name] += rows
    cells = [
        (reason, f"{sum(names.values()):,}", ", ".join(f"`{name}`" for name in sorted(names)))
        for reason, names in sorted(reasons.items(), key=lambda item: -sum(item[1].values()))
    ]
    return table(("reason", "rows", "tables"), cells, last="left")


def _unscored(tally: Tally) -> str:
    """Return what was read but not scored, with its rows; empty where there is nothing."""
    kinds: Counter[str] = Counter()
    for group, rows in tally.unscored.items():
        kinds[f"{group.op} {group.dtype}"] += rows
    return ", ".join(f"{name} {rows:,}" for name, rows in sorted(kinds.items()))
