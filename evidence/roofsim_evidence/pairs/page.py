"""Fill docs/pairs.md: how far predicted ratios of measured pairs are off."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.report.scores import share
from roofsim_evidence.markdown import met, table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.pairs import batches
from roofsim_evidence.pairs.measured import DIFFERS, SETS, SHIPPED, WITHOUT_CARD, CardPair, all_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim_evidence.pairs.batches import BatchPair

PATH: Final = "docs/pairs.md"
#: What is asked of all pairs together: the winner of those that differ, and the ratio.
LEAST_AGREEING: Final = 0.97
MOST_OFF: Final = 0.08
#: Every n-th run of a set is priced with its batches.
EVERY: Final = {"steps": 1, "multi-gpu": 3, "inference": 8}


def page() -> DocsPage:
    """Return the page."""
    cards = {kind: all_pairs(kind) for kind in (SHIPPED, WITHOUT_CARD)}
    sizes = {name: batches.pairs_of(name, every) for name, every in EVERY.items()}
    text = filled(
        "pairs.md",
        total=f"{len(cards[SHIPPED]) + sum(map(len, sizes.values())):,}",
        differs=f"{100 * (DIFFERS - 1):.0f}",
        goals=_goals(cards[SHIPPED]),
        shipped=cards_table(cards[SHIPPED]),
        without_card=cards_table(cards[WITHOUT_CARD]),
        wrong=_wrong(cards[SHIPPED]),
        every=", ".join(f"every {_ORDINALS[every]}run of {name}" for name, every in EVERY.items()),
        batches=batches_table(sizes),
    )
    return DocsPage(path=PATH, text=text)


_ORDINALS: Final = {1: "", 3: "third ", 8: "eighth "}


def agreement(pairs: Sequence[CardPair]) -> float:
    """Return the share of the pairs that differ whose winner is the predicted one."""
    differing = [pair for pair in pairs if pair.differs]
    return float(np.mean([pair.agrees for pair in differing]))


def off(pairs: Sequence[CardPair]) -> float:
    """Return the median error of the predicted ratio, as a share."""
    return float(np.median([pair.error for pair in pairs]))


def _goals(pairs: Sequence[CardPair]) -> str:
    agrees, error = agreement(pairs), off(pairs)
    decided = [pair for pair in pairs if not pair.undecided and pair.differs]
    open_ones = [pair for pair in pairs if pair.undecided]
    held = float(np.mean([pair.inside for pair in open_ones]))
    rows = [
        ("the predicted winner agrees", share(agrees), f">= {share(LEAST_AGREEING)}", met(agrees >= LEAST_AGREEING)),
        ("median error of the predicted ratio", share(error), f"<= {share(MOST_OFF)}", met(error <= MOST_OFF)),
        ("winners that are decided agree", share(float(np.mean([pair.agrees for pair in decided]))), "-", "-"),
        ("undecided pairs inside their interval", share(held), ">= 75.0 %", met(held >= 0.75)),
    ]
    return table(("all sets, shipped constants", "reached", "asked", "met"), rows)


def cards_table(pairs: Sequence[CardPair]) -> str:
    """Return a line for each set, and one for all."""
    groups = {"all": list(pairs)} | {name: [pair for pair in pairs if pair.set == name] for name in SETS}
    heads = (
        "set", "pairs", "differ", "winner agrees", "ratio: median", "p90", "inside 80 % interval", "undecided",
        "inside", "decided agree",
    )  # fmt: skip
    return table(heads, [_line(name, members) for name, members in groups.items() if members])


def _line(name: str, pairs: Sequence[CardPair]) -> tuple[str, ...]:
    undecided = [pair for pair in pairs if pair.undecided]
    decided = [pair for pair in pairs if pair.differs and not pair.undecided]
    differing = sum(pair.differs for pair in pairs)
    return (
        name,
        f"{len(pairs):,}",
        f"{differing:,}",
        share(agreement(pairs)) if differing else "-",
        share(off(pairs)),
        share(float(np.quantile([pair.error for pair in pairs], 0.9))),
        share(float(np.mean([pair.inside for pair in pairs]))),
        f"{len(undecided):,}",
        share(float(np.mean([pair.inside for pair in undecided]))) if undecided else "-",
        share(float(np.mean([pair.agrees for pair in decided]))) if decided else "-",
    )


def _wrong(pairs: Sequence[CardPair]) -> str:
    differing = Counter((pair.set, pair.source) for pair in pairs if pair.differs)
    wrong = [pair for pair in pairs if pair.differs and not pair.agrees]
    counted = Counter((pair.set, pair.source) for pair in wrong)
    rows = []
    for (name, source), number in counted.most_common():
        worst = max((pair for pair in wrong if (pair.set, pair.source) == (name, source)), key=lambda pair: pair.error)
        what = f"{worst.model}: {worst.first} over {worst.second}"
        ratios = f"{worst.measured:.2f} measured, {worst.predicted:.2f} predicted"
        rows.append((f"{name}, {source}", f"{number} of {differing[name, source]}", what, ratios))
    return table(("source", "wrong", "the worst", "ratio"), rows) if rows else "None."


def batches_table(sizes: Mapping[str, Sequence[BatchPair]]) -> str:
    """Return a line for each set of pairs of batches."""
    rows = []
    for name, pairs in sizes.items():
        if pairs:
            errors = [abs(np.log(pair.predicted / pair.measured)) for pair in pairs]
            widths = [np.log(pair.interval[1] / pair.interval[0]) / 2.0 for pair in pairs]
            held = float(np.mean([pair.inside for pair in pairs]))
            cells = share(float(np.expm1(np.median(errors)))), share(float(np.expm1(np.median(widths)))), share(held)
            rows.append((name, f"{len(pairs):,}", *cells))
    return table(("set", "pairs", "ratio: median error", "half of the interval, median", "inside"), rows)
