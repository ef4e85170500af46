"""Search the largest model of a family that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, near_matches
from roofsim.records import dataclass
from roofsim.search.fitting.bench import REFUSALS
from roofsim.spec import catalog
from roofsim.spec.model.registry import FAMILIES

if TYPE_CHECKING:
    from roofsim.search.fitting.bench import Attempt, Workbench

#: A model is ruled out unevaluated where its parameters with their optimizer state, at the bytes that each has in the
#: smallest model, exceed the capacity so many times.
_BEYOND: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model of the family: whether it fits; None where it was ruled out by its parameters or refused."""

    name: str
    parameters: int
    attempt: Attempt | None
    refusal: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "attempt": None if self.attempt is None else self.attempt.to_dict(),
            "refusal": self.refusal,
        }


@dataclass(frozen=True, kw_only=True)
class LargestModel:
    """The models of a family by parameters, from small to large, and the largest that fits."""

    family: str
    rows: tuple[ModelRow, ...]

    @property
    def chosen(self) -> ModelRow | None:
        """The model with the most parameters among those that fit."""
        return next((row for row in reversed(self.rows) if row.attempt is not None and row.attempt.fits), None)

    @property
    def next(self) -> ModelRow | None:
        """The next larger model, which does not fit."""
        rows = self.rows if self.chosen is None else self.rows[self.rows.index(self.chosen) + 1 :]
        return next(iter(rows), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        chosen, after = self.chosen, self.next
        return {
            "family": self.family,
            "value": None if chosen is None else chosen.name,
            "next": None if after is None else after.name,
            "models": [row.to_dict() for row in self.rows],
        }


def largest_model(bench: Workbench, family: str) -> LargestModel:
    """Try the models of a family (a folder of the catalog, or a prefix such as ``llama3``).

    Raises
    ------
    UnknownNameError
        For a family that has no model; with near matches.
    """
    rows: list[ModelRow] = []
    smallest: ModelRow | None = None
    for name, parameters in _members(family):
        if smallest is not None and _hopeless(smallest, parameters):
            attempt, refusal = None, "its parameters and their optimizer state alone are too large"
        else:
            attempt, refusal = _tried(bench, name)
        rows.append(ModelRow(name=name, parameters=parameters, attempt=attempt, refusal=refusal))
        if smallest is None and attempt is not None:
            smallest = rows[-1]
    return LargestModel(family=family, rows=tuple(rows))


def _hopeless(smallest: ModelRow, parameters: int) -> bool:
    attempt = smallest.attempt
    assert attempt is not None
    held = attempt.components["parameters"] + attempt.components["optimizer_state"]
    return held / smallest.parameters * parameters > _BEYOND * attempt.capacity


def _tried(bench: Workbench, name: str) -> tuple[Attempt | None, str]:
    try:
        return bench.attempt({"model": name}), ""
    except REFUSALS as error:
        return None, error.problems[0].message if isinstance(error, SpecError) else str(error)


def _members(family: str) -> list[tuple[str, int]]:
    """Return the models of a family with their parameters, from small to large."""
    wanted = catalog.normal(family)
    known = catalog.names("model")
    members = [name for name, path in known.items() if path.parent.name == wanted]
    if not members:
        members = [name for name in known if name == wanted or name.startswith((f"{wanted}-", f"{wanted}."))]
    if not members:  # a folder, or names, of plug-ins
        known = catalog.known("model")
        members = [name for name, path in known.items() if path.parent.name == wanted or name.startswith(f"{wanted}-")]
    if not members:
        prefixes = sorted({name.split("-")[0] for name in known})
        close = near_matches(wanted, [*FAMILIES, *prefixes])
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "`roofsim list models` shows all."
        raise UnknownNameError(Problem(f"no family of models {family[:60]!r}", Place("--family"), "", hint))
    rows = [(name, int(catalog.load("model", name).data["published_parameters"])) for name in members]
    return sorted(rows, key=lambda row: (row[1], row[0]))


def family_of(model: object) -> str:
    """Return the family that a model's name stands for: what comes before its size, if others share it."""
    if isinstance(model, str) and model.strip():
        prefix = catalog.normal(model).split("-")[0]
        names = catalog.names("model")
        if any(name.startswith(f"{prefix}-") for name in names):
            return prefix
        key = catalog.normal(model)
        if key in catalog.aliases("model"):
            return family_of(catalog.aliases("model")[key])
    raise SpecError(Problem("which family of models?", Place("--family"), "", "For example --family gpt3, or decoder."))
