"""Price a scenario on the cards and numbers of GPUs that a budget rents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.api import answer, import_model, resolve_document
from roofsim.decide.lowest import lowest_price
from roofsim.errors import NoDataError, Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.analyze.result import Result
    from roofsim.spec.reading.source import Document

#: Hours of a day, the least that GPUs are rented for.
HOURS: Final = 24.0
_FIGURES: Final = (
    "step_time",
    "step_time_interval",
    "throughput.tokens_per_second",
    "throughput.samples_per_second",
    "memory.fits",
    "parameters.total",
    "time.optimizer",
    "time.exposed_communication",
    "time.bubble",
)
#: Cards that a sentence names.
_NAMED: Final = 6
#: Times as much from which on another number of GPUs is looked at.
_WORTH: Final = 1.01
#: Share of a step that its kernels take at least, for a bound on the others.
_LEAST: Final = 1e-3


def affordable(name: str, usd: float, most: int) -> list[int]:
    """Return the powers of two that the money rents of a card for a day at least; one GPU in any case."""
    paid = max(1.0, usd / (HOURS * lowest_price(name)))
    return [2**power for power in range(int(math.log2(max(most, 1))) + 1) if 2**power <= paid]


def within_reach(document: Document, counts: Mapping[str, Sequence[int]]) -> tuple[dict[str, list[int]], list[str]]:
    """Return the numbers of each card that can train together; and the cards of which larger numbers are left out.

    GPUs that train together need a network between their nodes. Where nobody states one, a node's are the most.
    """
    if phase_of(document) != "train":
        return {name: list(each) for name, each in counts.items()}, []
    reached, cut = {}, []
    for name, each in counts.items():
        most = _reach(document, name, max(each))
        reached[name] = [count for count in each if count <= most]
        cut += [name] if len(reached[name]) < len(each) else []
    return reached, cut


def _reach(document: Document, name: str, most: int) -> float:
    """Return the GPUs of the usual node of a card, where no network between such nodes is known; else no bound."""
    from roofsim.search.fitting.bench import reach

    try:
        return reach(resolve_document(_on(document, name, most))) or math.inf
    except (SpecError, NoDataError):  # the sweep says of each number why it is not possible
        return math.inf


@dataclass(frozen=True, kw_only=True)
class Purse:
    """Dollars and days, and what they rent."""

    usd: float
    days: float

    def days_of(self, name: str, count: int) -> float:
        """Return the days for which the money rents so many of a card, at most those that there are."""
        return min(self.days, self.usd / (HOURS * lowest_price(name) * count))


def priced_rows(
    document: Document, names: Sequence[str], counts: Mapping[str, Sequence[int]], purse: Purse
) -> list[dict[str, Any]]:
    """Return rows of cards and numbers of GPUs; those that are left out have no room, or do no more than one that is there.

    Of cards on which some do not fit, everything sharded is tried as well, where the scenario says nothing of sharding.
    The numbers at which the money begins to end before the days come first: fewer use less of it, and more pay more for
    messages. Where these have no room, a single GPU, which needs no buffers for messages, and the most, which spread state
    thinnest, say whether any has. Others follow where a bound on what they do is not below what was found.
    """
    rows: list[dict[str, Any]] = []
    seen: dict[str, set[int]] = {name: set() for name in names}
    for choose in (_turning, _ends, _open):
        chosen = {}
        for name in names:
            own = [row for row in rows if row["hardware.gpu"] == name]
            chosen[name] = [one for one in choose(own, name, counts[name], purse) if one not in seen[name]]
            seen[name].update(chosen[name])
        rows += _as_is_and_sharded(document, [name for name in names if chosen[name]], chosen)
    return rows


def as_rented(document: Document, name: str, count: int, sharding: str | None = None) -> Result:
    """Return the run of a scenario on so many of a card.

    Raises
    ------
    SpecError, NoDataError
        Where it is not possible there.
    """
    asked = _on(document, name, count)
    if sharding is not None:
        asked = with_override(asked, "parallel.sharding", sharding, "budget")
    return answer(evaluate(resolve_document(asked)), limits=False)


def none_runs(document: Document, priced: Sequence[str], unpriced: Sequence[str]) -> SpecError | NoDataError:
    """Return what is wrong where no card is left to choose among: the scenario, prices that are not known, or the cards."""
    mine, usual = _error(_on(document, (*priced, *unpriced)[0])), _error(document)
    if mine is not None and usual is not None and _said(mine) == _said(usual):
        return usual  # whatever the card
    reasons, hint = [], "Name cards: --gpu h100,a100."
    if unpriced:
        reasons.append(f"no price of an hour of {some(unpriced)} is known")
        hint = f"State what you pay: --price {unpriced[0]}=2.50."
    if priced:
        others = f"; nor does it run on {some(priced[1:])}" if priced[1:] else ""
        why = "it does not run in any number that the money rents" if mine is None else _said(mine)
        reasons.append(f"{why if why.startswith(priced[0]) else f'{priced[0]}: {why}'}{others}")
    return SpecError(Problem(f"no card runs this within the budget: {'; '.join(reasons)}", hint=hint))


def _on(document: Document, name: str, count: int = 1) -> Document:
    return with_override(with_override(document, "hardware.gpu", name, "budget"), "hardware.gpus", count, "budget")


def _error(document: Document) -> SpecError | NoDataError | None:
    """Return why a scenario cannot be priced; None where it can."""
    try:
        evaluate(resolve_document(document))
    except (SpecError, NoDataError) as error:
        return error
    return None


def _said(error: SpecError | NoDataError) -> str:
    return error.problems[0].message if isinstance(error, SpecError) else str(error)


def some(names: Sequence[str]) -> str:
    """Return names in a sentence, of many the first.

    >>> some(["a", "b"]), some(["a", "b", "c", "d", "e", "f", "g", "h"])
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _turning(_: Sequence[Mapping[str, Any]], name: str, counts: Sequence[int], purse: Purse) -> list[int]:
    """Return the most that the money rents for all of the days, and the fewest that it does not."""
    last = max((count for count in counts if purse.days_of(name, count) >= purse.days), default=None)
    first = min((count for count in counts if last is None or count > last), default=None)
    return [count for count in (last, first) if count is not None]


def _ends(rows: Sequence[Mapping[str, Any]], _: str, counts: Sequence[int], __: Purse) -> list[int]:
    """Return what says whether any number has room, where none that was priced has; all, where none was possible."""
    if any(row["memory.fits"] for row in rows):
        return []
    return [counts[0], counts[-1]] if rows else list(counts)


def _open(rows: Sequence[Mapping[str, Any]], _: str, counts: Sequence[int], purse: Purse) -> list[int]:
    """Return the numbers that may do more than what was priced and has room; none, where none has."""
    fitting = [row for row in rows if row["memory.fits"]]
    most = max((_work(row, purse) for row in fitting), default=0.0)
    return [count for count in counts if fitting and _bound(fitting, count, purse) > most * _WORTH]


def _work(row: Mapping[str, Any], purse: Purse) -> float:
    """Return what a row does in the days that the money rents it for, at its rate of a second."""
    return purse.days_of(row["hardware.gpu"], int(row["hardware.gpus"])) * _rate(row)


def _rate(row: Mapping[str, Any]) -> float:
    """Return the tokens per second of all GPUs together; samples, where there are no tokens."""
    return float(row["throughput.tokens_per_second"] or row["throughput.samples_per_second"])


def _bound(rows: Sequence[Mapping[str, Any]], count: int, purse: Purse) -> float:
    """Return the most that a number of GPUs can do, by the rows of other numbers of the card.

    With fewer GPUs, messages, pipelines and the optimizer take no time at best. With more, messages take as long as with the most
    that were priced, and an optimizer whose state is spread out over all takes none.
    """
    largest = max(rows, key=lambda row: int(row["hardware.gpus"]))
    step, more = float(largest["step_time"]), count > int(largest["hardware.gpus"])
    shrinking = ("time.optimizer",) if more else ("time.optimizer", "time.exposed_communication", "time.bubble")
    left = 1.0 - sum(float(largest[name] or 0.0) for name in shrinking) / step
    each = _rate(largest) / int(largest["hardware.gpus"]) / max(left, _LEAST)
    return purse.days_of(largest["hardware.gpu"], count) * count * each


def _as_is_and_sharded(
    document: Document, names: Sequence[str], counts: Mapping[str, Sequence[int]]
) -> list[dict[str, Any]]:
    rows = _swept(document, names, counts)
    if document.states("parallel", "sharding") or phase_of(document) != "train":
        return rows
    again = [name for name in names if not all(row["memory.fits"] for row in rows if row["hardware.gpu"] == name)]
    sharded = with_override(document, "parallel.sharding", "full", "budget")
    return rows + [row | {"sharding": "full"} for row in _swept(sharded, again, counts)]


def _swept(document: Document, names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    from roofsim.search.sweep import sweep_document

    rows: list[dict[str, Any]] = []
    for some in sorted({tuple(counts[name]) for name in names}):
        alike = [name for name in names if tuple(counts[name]) == some]
        axes: dict[str, list[Any]] = {"hardware.gpu": alike, "hardware.gpus": list(some)}
        try:
            table = sweep_document(document, axes, answer, import_model, figures=_FIGURES)
        except (SpecError, NoDataError):
            if len(names) == 1:
                raise
            continue
        rows += [row for row in table.to_rows() if row["feasible"]]
    return rows


def phase_of(document: Document) -> str:
    """Return the phase that a scenario states, or what stands for it."""
    workload = document.data.get("workload") or {}
    return str(workload.get("phase") or "train")
