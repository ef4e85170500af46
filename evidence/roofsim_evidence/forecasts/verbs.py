"""What `evidence` does with forecasts: seal them, verify the seals, and score those that somebody measured since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.calibrate.cases import QUANTITIES
from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim.units import humanize
from roofsim_evidence.forecasts.asked import folder
from roofsim_evidence.forecasts.sealed import verified
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.forecasts.sealed import Sealed

PATH: Final = "docs/forecasts.md"
RESULTS: Final = "results.jsonl"
_KEYS: Final = ("date", "name", "measured", "published", "citation", "note")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A sealed forecast, with what was measured where somebody did.

    Attributes
    ----------
    published
        When the measurement was; before the seal: it was known then, and the forecast is none.
    """

    sealed: str
    name: str
    about: str
    quantity: str
    predicted: float
    interval: tuple[float, float]
    measured: float | None = None
    published: str = ""
    citation: str = ""

    @property
    def error(self) -> float | None:
        """The relative error; None where nothing was measured."""
        return None if self.measured is None else self.predicted / self.measured - 1.0

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies inside the interval; None where nothing was measured."""
        return None if self.measured is None else self.interval[0] <= self.measured <= self.interval[1]

    @property
    def known(self) -> bool:
        """Whether the measurement was public when the forecast was sealed."""
        return bool(self.published) and self.published <= self.sealed


def outcomes() -> list[Outcome]:
    """Return every sealed forecast, with its result if there is one.

    Raises
    ------
    SpecError
        When a seal is broken, or a result is of no forecast.
    """
    sealed = verified()
    results = _results(sealed)
    return [
        Outcome(
            sealed=one.seal.date,
            name=row["name"],
            about=row["about"],
            quantity=row["quantity"],
            predicted=row["predicted"],
            interval=(row["interval"][0], row["interval"][1]),
            **results.get((one.seal.date, row["name"]), {}),
        )
        for one in sealed
        for row in one.document["forecasts"]
    ]


def _results(sealed: Sequence[Sealed]) -> dict[tuple[str, str], dict[str, Any]]:
    path = folder() / RESULTS
    if not path.is_file():
        return {}
    known = {(one.seal.date, row["name"]) for one in sealed for row in one.document["forecasts"]}
    results = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = _result(line, Place(str(path), number))
            key = row.pop("date"), row.pop("name")
            if key not in known:
                near = did_you_mean(key[1], tuple(name for day, name in known if day == key[0]))
                raise SpecError(
                    Problem(f"nothing of the name {key[1]!r} was sealed on {key[0]}. {near}", Place(str(path), number))
                )
            results[key] = row
    return results


def _result(line: str, place: Place) -> dict[str, Any]:
    """Return a result: date of the seal, name of the forecast, what was measured, when and where it was published."""
    try:
        row: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise SpecError(Problem(f"is not JSON: {error}", place)) from None
    missing = [key for key in _KEYS[:-1] if key not in row]
    unknown = [key for key in row if key not in _KEYS]
    if missing or unknown:
        raise SpecError(Problem(f"expected the keys {', '.join(_KEYS)}; lacks {missing}, has {unknown}", place))
    if isinstance(row["measured"], bool) or not isinstance(row["measured"], int | float) or not row["measured"] > 0.0:
        raise SpecError(Problem(f"expected a number above 0, got {row['measured']!r}", place, "measured"))
    row.pop("note", None)
    return row


def score() -> str:
    """Verify the seals, and score the forecasts that somebody measured since."""
    rows = outcomes()
    return f"{_seals_text()}\n\n{_outcomes_table(rows)}\n\n{_summary(rows)}\n"


def _seals_text() -> str:
    lines = [
        f"{one.seal.file}: {len(one.document['forecasts'])} forecasts, version {one.seal.version}, "
        f"sha256 {one.seal.sha256}: as sealed"
        for one in verified()
    ]
    return "\n".join(lines or ["nothing was sealed yet (`evidence seal`)"])


def _summary(rows: Sequence[Outcome]) -> str:
    """Say how many forecasts came true; what was known when they were sealed is counted apart."""
    blind = [row for row in rows if row.measured is not None and not row.known]
    known = [row for row in rows if row.known]
    open_ = len(rows) - len(blind) - len(known)
    said = [f"{len(rows)} forecasts, {open_} of them open, {len(blind)} measured since."]
    if known:
        said.append(f"Published before the seal, and not counted: {len(known)}.")
    if blind:
        errors = sorted(abs(row.error or 0.0) for row in blind)
        inside = sum(bool(row.inside) for row in blind)
        said.append(
            f"Median error {errors[len(errors) // 2]:.1%}; {inside} of {len(blind)} inside their 80 % interval."
        )
    return " ".join(said)


def _outcomes_table(rows: Sequence[Outcome]) -> str:
    heads = ("sealed", "forecast", "about", "quantity", "predicted", "80 % interval", "measured", "error", "inside")
    return table(heads, [_cells(row) for row in rows], left=4)


def _cells(row: Outcome) -> tuple[str, ...]:
    unit = QUANTITIES[row.quantity] or "tokens/s"
    low, high = (humanize(end, unit, 3) for end in row.interval)
    known = " (known before)" if row.known else ""
    return (
        row.sealed,
        row.name,
        row.about,
        row.quantity.replace("_", " "),
        humanize(row.predicted, unit, 3),
        f"{low} .. {high}",
        "open" if row.measured is None else f"{humanize(row.measured, unit, 3)}{known}",
        "" if row.error is None else f"{row.error:+.1%}",
        "" if row.inside is None else ("yes" if row.inside else "no"),
    )


def page() -> DocsPage:
    """Return docs/forecasts.md."""
    rows = outcomes()
    seals = [
        (one.seal.date, one.seal.file, one.seal.version, str(len(one.document["forecasts"])), f"`{one.seal.sha256}`")
        for one in verified()
    ]
    heads = ("sealed", "file", "version", "forecasts", "SHA-256")
    text = filled(
        "forecasts.md",
        seals=table(heads, seals, left=3, last="left"),
        outcomes=_outcomes_table(rows),
        summary=_summary(rows),
    )
    return DocsPage(path=PATH, text=text)
