"""Predict published steps without one mechanism at a time: ``python -m roofsim_evidence.multi_gpu.ablation --write``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from roofsim.errors import did_you_mean
from roofsim.output import save_text
from roofsim_evidence.multi_gpu.cases import load_multi_cases
from roofsim_evidence.multi_gpu.mechanisms import MECHANISMS
from roofsim_evidence.multi_gpu.notes import COMPOSED, LABELS
from roofsim_evidence.places import checkout
from roofsim_evidence.score import grouped, predict_cases, score

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roofsim_evidence.cases import Case
    from roofsim_evidence.multi_gpu.mechanisms import Mechanism
    from roofsim_evidence.score import Prediction

COMMAND: Final = "python -m roofsim_evidence.multi_gpu.ablation --write"
PAGE: Final = "docs/mechanisms/evidence.md"
#: Change of the mean prediction below which a set is not listed.
VISIBLE: Final = 0.002
HEAD: Final = """\
# What each mechanism is worth

`{command}` writes this page; without `--write` it prints the page, or only the
mechanisms that you name. It predicts the {total} published steps of [several GPUs](../multi-gpu-accuracy.md) with one mechanism
switched off and everything else unchanged; no constant is refitted. *n* is the number of steps of a source that the mechanism
can affect. *with* and *without* are their mean errors, with the bias (median of signed errors; negative: predicted too fast) in
brackets. *moves* is how much faster (-) or slower (+) the predictions become on average. Sources that move by less than
{visible:.1%} are left out. Where an error shrinks without a mechanism, something else in those rows is off by as much in the
other direction:
[known errors](../multi-gpu-accuracy.md#known-errors).

| mechanism | when switched off | source | n | with | without | moves |
| --- | --- | --- | ---: | ---: | ---: | ---: |
"""


def predicted_without(mechanism: Mechanism, cases: Sequence[Case]) -> dict[str, Prediction]:
    """Return predictions by name of the case, for the cases that the mechanism can move."""
    touched = [case for case in cases if mechanism.touches(case)]
    with mechanism.off():
        return {row.case.name: row for row in predict_cases(touched)}


def lines_of(mechanism: Mechanism, rows: Sequence[Prediction]) -> Iterator[str]:
    """Yield the table's lines of one mechanism: a line for each source that it moves."""
    found = predicted_without(mechanism, [row.case for row in rows])
    title = f"[{mechanism.name}]({mechanism.page}.md) | {mechanism.without}"
    for source, mine in grouped((row for row in rows if row.case.name in found), lambda row: row.case.source).items():
        others = [found[row.case.name] for row in mine]
        moved = sum(new.predicted / old.predicted for new, old in zip(others, mine, strict=True)) / len(mine) - 1.0
        if abs(moved) >= VISIBLE:
            before, after = score(mine), score(others)
            yield (
                f"| {title} | {LABELS[source]} | {len(mine)} | {before.mean:.1%} ({before.bias:+.1%}) "
                f"| {after.mean:.1%} ({after.bias:+.1%}) | {moved:+.1%} |"
            )
            title = " | "


def page(rows: Sequence[Prediction], mechanisms: Sequence[Mechanism] = MECHANISMS) -> str:
    """Return the page."""
    lines = [line for mechanism in mechanisms for line in lines_of(mechanism, rows)]
    return HEAD.format(command=COMMAND, total=len(rows), visible=VISIBLE) + "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MECHANISM", help=", ".join(one.name for one in MECHANISMS))
    parser.add_argument("--write", action="store_true", help=f"Write {PAGE}.")
    arguments = parser.parse_args()
    known = {one.name: one for one in MECHANISMS}
    for name in arguments.names:
        if name not in known:
            parser.error(f"unknown mechanism {name!r}. {did_you_mean(name, tuple(known))}".strip())
    if arguments.names and arguments.write:
        parser.error("--write writes the whole page; leave the names out")
    rows = predict_cases(case for case in load_multi_cases() if case.source != COMPOSED)
    text = page(rows, [known[name] for name in arguments.names] or MECHANISMS)
    if arguments.write:
        save_text(checkout() / PAGE, text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
