"""Answer what-ifs: the scenario before and after, by how much it differs, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import quote_of
from roofsim.analyze.ops import GROUPS
from roofsim.analyze.printed import Printed, flattened
from roofsim.analyze.ratio import speedup_interval
from roofsim.analyze.used_prices import UsedPrice, of_one_market, quote_in, used_prices
from roofsim.analyze.verdicts import pace_verdict
from roofsim.api import answer, resolve_document
from roofsim.compare.rows import rate_of, unit_of
from roofsim.decide.causes import kinds_of_time, limits, of_changes, of_parts, ops
from roofsim.decide.changes import read_changes, with_changes
from roofsim.errors import NoDataError, Place, Problem, SpecError, did_you_mean
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, field
from roofsim.search.axes import cards_asked
from roofsim.spec.markets import common_market
from roofsim.spec.own_prices import stated_of_one
from roofsim.spec.prices import of_market
from roofsim.spec.scenario.document import load_scenario
from roofsim.spec.settle.cards import without_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.causes import Cause
    from roofsim.decide.changes import Changes, KeyChange
    from roofsim.evaluate import Evaluation
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.prices import Market
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/whatif/1"
#: What the steps of two scenarios are split into, and how each part is called in plain data.
TIME, LIMITS, OPS = "time", "limits", "ops"


@dataclass(frozen=True, kw_only=True)
class ChangedScenario:
    """One what-if: the scenario with some changes.

    Attributes
    ----------
    label
        The changes as they are written.
    result
        None where the scenario with them is refused; `reason` says why.
    difference
        Seconds by which its step is longer than before.
    by
        The difference by kind of time (``time``), by what limits it (``limits``) and by op and wait (``ops``); each sums to it.
    changes
        The difference by change, where there are several, and by which `rule`; empty where no order of them is possible.
    ratio, interval, verdict
        Units of work per second over those before, its 80 % interval, and ``faster``, ``about_equal`` or ``slower``.
    cost_ratio
        Dollars per unit of work over those before; None where a price is missing.
    price_of_card_unchanged
        Whether its price is that of a card which is changed here, so that nobody sells it at that.
    price_comparable
        Whether its price is of the kind, seller and region of the one before.
    """

    label: str
    made: tuple[KeyChange, ...]
    result: Result | None = None
    reason: str | None = None
    difference: float | None = None
    by: dict[str, tuple[Cause, ...]] = field(default_factory=dict)
    changes: tuple[Cause, ...] = ()
    rule: str | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str | None = None
    cost_ratio: float | None = None
    price_of_card_unchanged: bool = False
    price_comparable: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.label,
            "reason": self.reason,
            "after": None if self.result is None else self.result.to_dict(),
            "difference": self.difference,
            "changes": [cause.to_dict() for cause in self.by.get(OPS, ())],
            "by_time": [cause.to_dict() for cause in self.by.get(TIME, ())],
            "by_limit": [cause.to_dict() for cause in self.by.get(LIMITS, ())],
            "by_change": [cause.to_dict() for cause in self.changes],
            "rule": self.rule,
            "ratio": self.ratio,
            "ratio_interval": None if self.interval is None else list(self.interval),
            "verdict": self.verdict,
            "cost_ratio": self.cost_ratio,
            "price_of_card_unchanged": self.price_of_card_unchanged,
            "price_comparable": self.price_comparable,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class WhatIf(Printed):
    """The answer of `roofsim.whatif`: the scenario as it is, and each what-if beside it; the first has all changes together."""

    before: Result
    outcomes: tuple[ChangedScenario, ...]
    by: str = "class"

    @property
    def after(self) -> Result | None:
        """The scenario with all changes; None where it is refused."""
        return self.outcomes[0].result

    @property
    def prices(self) -> tuple[UsedPrice, ...]:
        """The prices of an hour that costs rest on, that of the scenario as it is first."""
        results = (self.before, *(outcome.result for outcome in self.outcomes if outcome.result is not None))
        return used_prices((str(one.scenario["hardware"]["gpu"]), _quote(one)) for one in results)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/whatif/1: the first what-if at the top, and each with its own under `outcomes`."""
        first, *others = (outcome.to_dict() for outcome in self.outcomes)
        return (
            {"schema": SCHEMA, "unit": unit_of(self.before), "before": self.before.to_dict()}
            | first
            | {"others": others, "prices": [one.to_dict() for one in self.prices]}
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for the scenario before, and one for each what-if."""
        rows = [flattened({"name": "before", **_figures(self.before)})]
        for outcome in self.outcomes:
            own = outcome.to_dict()
            causes = {key: {row["cause"]: row["seconds"] for row in own.pop(key)} for key in _LISTS}
            after = own.pop("after")
            figures = {} if outcome.result is None else _figures(outcome.result)
            rows.append(flattened(own | causes | ({} if after is None else figures)))
        return rows


_LISTS: Final = ("changes", "by_time", "by_limit", "by_change")
#: Parts of a result that a row of figures leaves out.
_LEFT_OUT: Final = ("schema", "scenario", "work", "warnings", "provenance", "networks")


def _quote(result: Result) -> Quote | None:
    """Return the price of an hour of one card that a result rests on."""
    return quote_in(result.cost, result.scenario["hardware"]["gpus"])


def _figures(result: Result) -> dict[str, Any]:
    return {key: value for key, value in result.to_dict().items() if key not in _LEFT_OUT}


def whatif(
    scenario: str | Path | dict[str, Any] | Scenario,
    changes: Changes | None = None,
    *,
    also: Changes | Iterable[Changes] = (),
    each: bool = False,
    by: str = "class",
    **overrides: Any,
) -> WhatIf:
    """Predict a scenario before and after changes, and say where the difference comes from.

    Parameters
    ----------
    changes
        Changes that are made together: ``{"memory.bandwidth": "2x", "gpu": "h200"}``, or texts as on the command line. Any key of a
        scenario, and any number of its hardware; a factor (``2x``, ``+10%``) is one on what the scenario has.
    also
        Other what-ifs beside it, each of the same form.
    each
        Whether each of several changes is shown alone as well.
    by
        What the step is split into: ``class``, ``op``, ``layer`` or ``phase``.
    overrides
        Values of the scenario before the changes, as for `roofsim.run`.

    Returns
    -------
    WhatIf
        Results before and after; seconds of the difference by kind of time, by limit, by op and by change, each of which sum to it.

    Raises
    ------
    SpecError
        When the request is wrong, and where no what-if is possible. One that is refused beside others says why.
    """
    return whatif_document(load_scenario(scenario, overrides), changes, also=also, each=each, by=by)


def whatif_document(
    document: Document,
    changes: Changes | None,
    *,
    also: Changes | Iterable[Changes] = (),
    each: bool = False,
    by: str = "class",
    origins: tuple[str, str] = ("changes", "also"),
    progress: Callable[[Sequence[tuple[KeyChange, ...]]], Iterable[tuple[KeyChange, ...]]] = iter,
) -> WhatIf:
    """Answer what-ifs of a request that was read already; see `whatif`.

    Raises
    ------
    SpecError
        For what is wrong with the request or with the scenario as it is, and where no what-if is possible.
    """
    if by not in GROUPS:
        raise SpecError(Problem(f"unknown value {by!r}", path="--by", hint=did_you_mean(by, GROUPS)))
    groups = _groups(changes, also, each=each, origins=origins)
    with of_market(_market(document, groups)):
        asking = Asking(document, by)
        outcomes = tuple(asking.outcome(group) for group in progress(groups))
    if all(outcome.result is None for outcome in outcomes):
        raise asking.refusals[0]
    return WhatIf(before=asking.before, outcomes=outcomes, by=by)


def _market(document: Document, groups: Sequence[tuple[KeyChange, ...]]) -> Market | None:
    """Return the market that has a price of the scenario's card and of those that take its place; None where none does."""
    cards = cards_asked([(change.key, [change.value]) for group in groups for change in group])
    return common_market([resolve_document(document).gpu.name, *cards]) if cards else None


def _groups(
    changes: Changes | None, also: Changes | Iterable[Changes], *, each: bool, origins: tuple[str, str]
) -> list[tuple[KeyChange, ...]]:
    """Return the changes of each what-if: all of them together, each of them alone, and those beside them."""
    together = read_changes(changes or (), origins[0])
    beside = [also] if isinstance(also, str | Mapping) else list(also)
    groups = [together] if together else []
    if each and len(together) > 1:
        groups += [(change,) for change in together]
    groups += [read_changes(one, origins[1]) for one in beside]
    groups = [group for group in groups if group]
    if not groups:
        hint = "For example --set memory.bandwidth=2x, --set gpu=h200 or --set precision=fp8."
        raise SpecError(Problem("expected at least one change", Place(origins[0]), hint=hint))
    unique = {tuple(sorted(change.text for change in group)): group for group in reversed(groups)}
    return [group for group in groups if unique[tuple(sorted(change.text for change in group))] is group]


class Asking:
    """One request: the scenario as it is, and what its changes make of it.

    Attributes
    ----------
    document, evaluation, before
        The scenario as it is: what was asked, priced, and the answer.
    stated
        It as it was resolved: what factors are factors on.
    """

    def __init__(self, document: Document, by: str = "class") -> None:
        self.document, self.by = document, by
        self.evaluation = evaluation = evaluate(resolve_document(document))
        self.before = answer(evaluation)
        self.stated = self.before.scenario
        self.parts = self._parts(evaluation)
        self.steps: dict[frozenset[str], float | None] = {frozenset(): float(self.before.step_time)}
        self.refusals: list[SpecError | NoDataError] = []

    def outcome(self, made: tuple[KeyChange, ...]) -> ChangedScenario:
        """Answer one what-if."""
        label = ", ".join(change.text for change in made)
        try:
            evaluation = self._changed(made)
            result = answer(evaluation)
        except (SpecError, NoDataError) as error:
            self.refusals.append(error)
            return ChangedScenario(label=label, made=made, reason=error.reason)
        self.steps[_key(made)] = float(result.step_time)
        return self.compared(evaluation, result, made, label)

    def compared(
        self, evaluation: Evaluation, result: Result, made: tuple[KeyChange, ...], label: str
    ) -> ChangedScenario:
        """Hold another scenario, priced and answered, against this one; `made` is what changed, where that is known."""
        resolved = evaluation.resolved
        difference = float(result.step_time) - float(self.before.step_time)
        parts = self._parts(evaluation)
        changes, rule = ((), None) if len(made) < 2 else of_changes([one.text for one in made], self._step_with(made))
        ratio = _over(rate_of(result), rate_of(self.before))
        interval = None if ratio is None else speedup_interval(self.before, result, ratio)
        key = f"usd_per_million_{unit_of(result)}"
        quote = quote_of(resolved.gpu, resolved.system, resolved.gpus)
        return ChangedScenario(
            label=label,
            made=made,
            result=result,
            difference=difference,
            by={part: of_parts(self.parts[part], parts[part], difference) for part in parts},
            changes=changes,
            rule=rule,
            ratio=ratio,
            interval=interval,
            verdict=None if ratio is None else pace_verdict(interval, ratio),
            cost_ratio=_over(result.cost.get(key), self.before.cost.get(key)),
            price_of_card_unchanged=quote is not None and quote.kind != "own" and resolved.hardware_changed,
            price_comparable=of_one_market(_quote(self.before), _quote(result)),
        )

    def _parts(self, evaluation: Evaluation) -> dict[str, dict[str, float]]:
        return {TIME: kinds_of_time(evaluation), LIMITS: limits(evaluation), OPS: ops(evaluation, self.by)}

    def evaluated(self, made: tuple[KeyChange, ...]) -> Evaluation | None:
        """Return the scenario with some changes, priced; None where it is refused."""
        try:
            return self._changed(made)
        except (SpecError, NoDataError):
            return None

    def _changed(self, made: tuple[KeyChange, ...]) -> Evaluation:
        """Return the scenario with some changes, priced; a price that it states of its card is not that of another card."""
        changed = with_changes(self.document, made, self.stated)
        resolved = resolve_document(changed)
        own = [
            path
            for path in stated_of_one(self.document)
            if ("hardware", "override", path) not in {one.path for one in made}
        ]
        if own and resolved.gpu.name != self.evaluation.resolved.gpu.name:
            resolved = resolve_document(without_numbers(changed, own))
        return evaluate(resolved)

    def _step_with(self, made: tuple[KeyChange, ...]) -> Callable[[frozenset[int]], float | None]:
        """Return what gives the step with some of the changes; each scenario is priced once."""

        def step(places: frozenset[int]) -> float | None:
            some = tuple(made[place] for place in sorted(places))
            key = _key(some)
            if key not in self.steps:
                evaluation = self.evaluated(some)
                self.steps[key] = None if evaluation is None else float(evaluation.step.step)
            return self.steps[key]

        return step


def _key(made: Iterable[KeyChange]) -> frozenset[str]:
    return frozenset(change.text for change in made)


def _over(after: Any, before: Any) -> float | None:
    return None if not after or not before else float(after) / float(before)
