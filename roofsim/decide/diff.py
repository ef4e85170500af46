"""Hold two versions of a scenario against each other: step, memory, cost and traffic, op by op, with a verdict for a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ops import GROUPS, op_table
from roofsim.analyze.printed import Printed, flattened
from roofsim.analyze.used_prices import quote_in, used_prices
from roofsim.api import answer, resolve_document
from roofsim.compare.rows import unit_of
from roofsim.decide.gate import BETTER, EXIT_CODES, NO_VERDICT, read_allowed, verdict_of
from roofsim.decide.revisions import Revisions
from roofsim.decide.whatif import OPS, Asking
from roofsim.errors import NoDataError, Problem, SpecError, did_you_mean
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, field
from roofsim.spec.markets import common_market
from roofsim.spec.own_prices import price_of_one, stated_of_one
from roofsim.spec.prices import of_market
from roofsim.spec.scenario.document import load_scenario
from roofsim.spec.settle.cards import read_cards

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.analyze.used_prices import UsedPrice
    from roofsim.decide.whatif import ChangedScenario
    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario
    from roofsim.spec.settle.cards import Card

    Given = str | Path | dict[str, Any] | Scenario
    Reader = Callable[[Any], Document]

SCHEMA: Final = "roofsim/diff/1"
#: Where a scenario states numbers, and prices, of its own card.
_OVERRIDE: Final = ("hardware", "override")
#: What an op has besides seconds.
_AMOUNTS: Final = ("flops", "bytes", "launches")


@dataclass(frozen=True, kw_only=True)
class FigureChange:
    """A figure before and after."""

    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after / self.before if self.before else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"before": self.before, "after": self.after, "difference": self.after - self.before, "ratio": self.ratio}


@dataclass(frozen=True, kw_only=True)
class VersionDiff:
    """Two versions of one scenario on one card, or each on its own.

    Attributes
    ----------
    old, new, gpu
        What is compared, as it was asked for, and the card: that of the newer scenario, where none was named.
    verdict
        ``better`` (or no worse than is allowed), ``worse``, ``undecided``, or ``none``, for which `reason` says why.
    before, outcome
        The older version, and the newer one against it, as a what-if has it.
    step_time, memory, bytes
        Seconds, bytes of the device's memory, bytes that kernels read and write in a step.
    cost
        Dollars per million units of work; None where no price is known.
    ops
        What the difference of the steps is made of, the largest first: seconds (they sum to it), FLOPs, bytes and launches.
    """

    old: str
    new: str
    gpu: str
    verdict: str
    reason: str | None = None
    before: Result | None = None
    outcome: ChangedScenario | None = None
    unit: str = ""
    work: FigureChange | None = None
    step_time: FigureChange | None = None
    memory: FigureChange | None = None
    fits: tuple[bool, bool] | None = None
    cost: FigureChange | None = None
    bytes: FigureChange | None = None
    ops: tuple[dict[str, Any], ...] = ()

    @property
    def gpu_before(self) -> str:
        """The card of the older version."""
        return self.gpu if self.before is None else str(self.before.scenario["hardware"]["gpu"])

    @property
    def cards(self) -> str:
        """The card, or both where they differ."""
        return self.gpu if self.gpu_before == self.gpu else f"{self.gpu_before} -> {self.gpu}"

    @property
    def prices(self) -> tuple[UsedPrice, ...]:
        """The prices of an hour that costs rest on, of both cards; those of different markets are marked."""
        after = None if self.outcome is None else self.outcome.result
        results = [one for one in (self.before, after) if one is not None]
        hardware = [one.scenario["hardware"] for one in results]
        return used_prices(
            (str(own["gpu"]), quote_in(one.cost, own["gpus"])) for own, one in zip(hardware, results, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        outcome = self.outcome
        figures = {name: getattr(self, name) for name in ("step_time", "memory", "cost", "bytes")}
        plain = {name: None if change is None else change.to_dict() for name, change in figures.items()}
        if outcome is not None and plain["step_time"] is not None:
            ends = None if outcome.interval is None else list(outcome.interval)
            plain["step_time"] |= {"speed": outcome.ratio, "speed_interval": ends}
        if self.fits is not None and plain["memory"] is not None:
            plain["memory"] |= {"fits_before": self.fits[0], "fits_after": self.fits[1]}
        head: dict[str, Any] = {"old": self.old, "new": self.new, "gpu": self.gpu, "gpu_before": self.gpu_before}
        head |= {"verdict": self.verdict, "reason": self.reason, "unit": self.unit}
        return head | plain | {"prices": [one.to_dict() for one in self.prices], "ops": list(self.ops)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Diff(Printed):
    """The answer of `roofsim.diff`: versions of one scenario or several, on one card or several.

    Attributes
    ----------
    allowed
        Figure -> by what share it may grow.
    gated
        Whether somebody said what is allowed.
    skipped
        Scenarios that the older revision does not have.
    """

    versions: tuple[VersionDiff, ...]
    allowed: dict[str, float]
    gated: bool
    by: str = "op"
    skipped: tuple[str, ...] = field(default=())

    @property
    def worst(self) -> VersionDiff | None:
        """The comparison that decides: the first of the worst verdict."""
        order = list(EXIT_CODES)
        return min(self.versions, key=lambda one: order.index(one.verdict), default=None)

    @property
    def verdict(self) -> str:
        """That of the worst comparison."""
        return BETTER if self.worst is None else self.worst.verdict

    @property
    def exit_code(self) -> int:
        """0 better, or no worse than is allowed; 3 worse, 4 undecided, 5 no verdict. Always 0 without `gated`."""
        return EXIT_CODES[self.verdict] if self.gated else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/diff/1: the comparison that decides at the top, every one under `comparisons`."""
        top = {} if self.worst is None else self.worst.to_dict()
        figures = {name: top.get(name) for name in ("step_time", "memory", "cost", "bytes", "ops")}
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "fail_over": self.allowed if self.gated else None,
            **figures,
            "comparisons": [one.to_dict() for one in self.versions],
            "skipped": list(self.skipped),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each comparison, without its ops."""
        return [
            flattened({key: value for key, value in one.to_dict().items() if key not in ("ops", "prices")})
            for one in self.versions
        ]

    def to_markdown(self) -> str:
        """Return it as the comment of a pull request."""
        from importlib import import_module

        text: str = import_module("roofsim.report.diff_markdown").markdown_of(self)
        return text


def diff(
    old: Given,
    new: Given,
    *,
    gpu: str | Sequence[str] | None = None,
    fail_over: str | float | Mapping[str, float] | None = None,
    by: str = "op",
    **overrides: Any,
) -> Diff:
    """Hold two versions of a scenario against each other: step, memory, cost and traffic, with what the difference is made of.

    Parameters
    ----------
    old, new
        A file, a name of the catalog, a mapping, or a file at a git revision: ``HEAD~1:gpt.yaml`` (what is staged: ``:gpt.yaml``).
    gpu
        Cards to compare on, a list or a text in commas; that of the scenarios, if left out.
    fail_over
        By what share time and cost for the same work, and memory, may grow: ``"3%"``, ``"time=3%,memory=10%"``.
    by
        What the step is split into: ``op``, ``class``, ``layer`` or ``phase``.
    overrides
        Values of both scenarios, as for `roofsim.run`.

    Returns
    -------
    Diff
        ``verdict`` is ``better`` (or no worse than is allowed), ``worse``, ``undecided`` (inside the interval) or ``none`` (one of
        them cannot be predicted); ``exit_code`` 0, 3, 4, 5. Times are in seconds, memory and traffic in bytes.

    Raises
    ------
    SpecError
        When the request is wrong; where no `fail_over` is given, also when no comparison has an answer.
    """
    listed = gpu if isinstance(gpu, str | None) else ",".join(gpu)
    return diff_pairs([(old, new)], lambda one: load_scenario(one, overrides), gpu=listed, fail_over=fail_over, by=by)


def diff_pairs(
    pairs: Sequence[tuple[Given, Given]],
    read: Reader,
    *,
    gpu: str | None = None,
    fail_over: str | float | Mapping[str, float] | None = None,
    by: str = "op",
    skipped: Sequence[str] = (),
) -> Diff:
    """Answer a request for several pairs; see `diff`. `read` reads a scenario, with what options change in both."""
    if by not in GROUPS:
        raise SpecError(Problem(f"unknown value {by!r}", path="--by", hint=did_you_mean(by, GROUPS)))
    allowed = read_allowed(fail_over)
    cards: list[Card | None] = [None] if gpu is None else list(read_cards(gpu, "--gpu"))
    errors: list[SpecError | NoDataError] = []
    names = [card.gpu for card in cards if card is not None and card.gpu is not None]

    def checked(given: Given) -> Document:
        document = read(given)
        price_of_one(document, names)
        return document

    with Revisions() as revisions:
        versions = [_version(pair, card, checked, revisions, (allowed, by), errors) for pair in pairs for card in cards]
    if errors and fail_over is None and all(one.verdict == NO_VERDICT for one in versions):
        raise errors[0]
    return Diff(versions=tuple(versions), allowed=allowed, gated=fail_over is not None, by=by, skipped=tuple(skipped))


def _version(
    pair: tuple[Given, Given],
    card: Card | None,
    read: Reader,
    revisions: Revisions,
    asked: tuple[dict[str, float], str],
    errors: list[SpecError | NoDataError],
) -> VersionDiff:
    """Compare two versions on a card; where one of them has no answer, say why."""
    names = [_name(one) for one in pair]
    side = 0
    try:
        before = _document(pair[0], card, read, revisions)
        cards = [resolve_document(before).gpu.name]
        side = 1
        after = _document(pair[1], card, read, revisions)
        cards.append(resolve_document(after).gpu.name)
        if not any(isinstance(given, dict) for given in pair) and not any(map(_states_price, (before, after))):
            price_of_one(after, cards)  # of an option
        with of_market(common_market(cards)):
            side = 0
            asking = Asking(before, asked[1])
            side = 1
            evaluation = evaluate(resolve_document(after))
            result = answer(evaluation)
    except (SpecError, NoDataError) as error:
        said = revisions.said(error) if isinstance(error, SpecError) else error
        errors.append(said)
        label = "" if card is None else card.label()
        reason = f"{names[side]}: {said.reason}"
        return VersionDiff(old=names[0], new=names[1], gpu=label, verdict=NO_VERDICT, reason=reason)
    units = {unit_of(asking.before), unit_of(result)}
    outcome = asking.compared(evaluation, result, (), names[1])
    gpu = str(result.scenario["hardware"]["gpu"])
    if len(units) > 1:
        reason = f"they count other work: {' and '.join(sorted(units))}"
        return VersionDiff(old=names[0], new=names[1], gpu=gpu, verdict=NO_VERDICT, reason=reason)
    return _compared(names, gpu, asking, evaluation, outcome, asked)


def _states_price(document: Document) -> bool:
    """Tell whether a scenario states a price of its card itself, in its file."""
    places = [document.places.get((*_OVERRIDE, path)) for path in stated_of_one(document)]
    return any(place is not None and place.line is not None for place in places)


def _compared(
    names: Sequence[str],
    gpu: str,
    asking: Asking,
    evaluation: Evaluation,
    outcome: ChangedScenario,
    asked: tuple[dict[str, float], str],
) -> VersionDiff:
    before, after = asking.before, outcome.result
    assert after is not None
    allowed, by = asked
    tables = [op_table(one, by=by) for one in (asking.evaluation, evaluation)]
    (unit,) = {unit_of(after)}
    memory = FigureChange(before=float(before.memory.device_total), after=float(after.memory.device_total))
    fits = bool(before.memory.fits), bool(after.memory.fits)
    costs = [one.cost.get(f"usd_per_million_{unit}") for one in (before, after)]
    moved = [float(table.total["bytes"]) for table in tables]
    return VersionDiff(
        old=names[0],
        new=names[1],
        gpu=gpu,
        verdict=verdict_of(outcome, (memory.before, memory.after), fits, allowed),
        before=before,
        outcome=outcome,
        unit=unit,
        step_time=FigureChange(before=float(before.step_time), after=float(after.step_time)),
        memory=memory,
        fits=fits,
        cost=None if None in costs else FigureChange(before=float(costs[0] or 0.0), after=float(costs[1] or 0.0)),
        bytes=FigureChange(before=moved[0], after=moved[1]),
        ops=_ops(outcome, [{row["name"]: row for row in table.rows} for table in tables]),
    )


def _ops(outcome: ChangedScenario, tables: Sequence[Mapping[str, Mapping[str, Any]]]) -> tuple[dict[str, Any], ...]:
    """Return the causes of a difference with what else their ops have, before and after; those that are the same left out."""
    rows = []
    for cause in outcome.by[OPS]:
        row: dict[str, Any] = {
            "name": cause.cause,
            "seconds": cause.seconds,
            "before": cause.before,
            "after": cause.after,
        }
        for name in _AMOUNTS:
            row[name] = [float(table.get(cause.cause, {}).get(name) or 0.0) for table in tables]
        if cause.seconds or any(row[name][0] != row[name][1] for name in _AMOUNTS):
            rows.append(row)
    return tuple(rows)


def _document(given: Given, card: Card | None, read: Reader, revisions: Revisions) -> Document:
    document = revisions.read(given, read) if isinstance(given, str) else read(given)
    return document if card is None else card.on(document)


def _name(given: Given) -> str:
    return given if isinstance(given, str) else "<mapping>" if isinstance(given, dict) else str(given)
