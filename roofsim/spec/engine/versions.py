"""Choose an engine by name, version or date: what was otherwise before a version, and what is otherwise in a variant.

An engine's file states what its users get today. Facts that changed stand under ``versions``, newest change first, each with
the version before which they were otherwise; the facts of a version are today's with all later changes taken back.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim.schema.base import Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.engine.choice import EngineChoice, Version, decimal_year, older, read_choice
from roofsim.spec.engine.ranks import Strict
from roofsim.spec.reading.source import Document
from roofsim.spec.reading.validate import validate


class Before(Strict):
    """Facts that were otherwise before a version came out."""

    before: Version | None = Field(default=None, description="The first version with the facts stated above.")
    released: Version = Field(description="When it came out: YYYY, YYYY-MM or YYYY-MM-DD.")
    facts: dict[str, Any] = Field(description="What was otherwise before.")
    sources: dict[str, str] = Field(default_factory=dict)


class Variant(Strict):
    """Facts that are otherwise where one of several products or builds of an engine is used."""

    description: str
    facts: dict[str, Any]
    sources: dict[str, str] = Field(default_factory=dict)


class Releases(Strict):
    """What an engine's file says of its versions; a part of `Engine`."""

    versions: tuple[Before, ...] = Field(
        default=(), description="Facts that changed, the newest change first: {before, released, facts, sources}."
    )
    variants: dict[str, Variant] = Field(
        default_factory=dict, description="Products or builds that users choose between: name -> {description, facts}."
    )
    releases: dict[str, Version] = Field(
        default_factory=dict, description="Version -> when it came out, from the oldest to the newest."
    )
    library_date: Literal["own", "release"] = Field(
        default="own",
        description="release: its kernels are those of libraries of its own date (frameworks), so that a version or date states "
        "library_released; own: they are its own, and fits of them hold their age.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        dates = [decimal_year(entry.released) for entry in self.versions]
        if dates != sorted(dates, reverse=True):
            raise ValueError("versions must be listed from the newest change to the oldest")
        known = [decimal_year(when) for when in self.releases.values()]
        if known != sorted(known):
            raise ValueError("releases must be listed from the oldest to the newest")
        return self

    def changed_facts(self) -> set[str]:
        """Return the names of all facts that a version or a variant changes."""
        facts = [entry.facts for entry in self.versions] + [variant.facts for variant in self.variants.values()]
        return {name for one in facts for name in one}


#: Fields of an engine that are no facts: neither a scenario nor a version changes them.
NO_FACTS: Final = (
    "schema_version", "name", "description", "aliases", "sources", "notes", "versions", "variants", "releases", "library_date",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """An engine's document with the facts of a version, its name in one word, and what is to be said of it."""

    document: Document
    label: str
    notes: tuple[str, ...]


def choose(given: str | EngineChoice, place: Place) -> Chosen:
    """Return the engine that a scenario names, with the facts of its version.

    Raises
    ------
    SpecError
        For an unknown engine, version or variant.
    """
    choice = read_choice(given, place)
    name = catalog.resolve_name("engine", choice.name, place, "workload.engine")
    document = catalog.load("engine", name)
    stated = {key: document.data[key] for key in Releases.model_fields if key in document.data}
    parts = validate(Releases, Document(stated, document.source, document.places)) if choice.narrows else Releases()
    notes = [] if catalog.normal(choice.name) == name else [f"engine {choice.name}: {name}"]
    changed: list[str] = []
    for entry in parts.versions:
        if _is_before(choice, entry, parts, name, place):
            document = _with(document, entry.facts, place)
            changed += entry.facts
    when = _moment(choice, parts)
    if when is not None and parts.library_date == "release":
        document = _with(document, {"library_released": when}, place)
    elif (choice.version or choice.released) and not changed:
        notes.append(f"engine {choice.label(name)}: no fact is known to have been different then")
    for variant in choice.variants:
        document = _with(document, _variant(parts, variant, name, place).facts, place)
    return Chosen(document=document, label=choice.label(name), notes=tuple(notes))


def _with(document: Document, facts: dict[str, Any], place: Place) -> Document:
    for key, value in facts.items():
        document = document.with_value((key,), value, place)
    return document


def _variant(parts: Releases, wanted: str, name: str, place: Place) -> Variant:
    found = parts.variants.get(wanted.strip().lower())
    if found is None:
        hint = did_you_mean(wanted, parts.variants) or f"{name} has no variants: leave +{wanted} out."
        raise SpecError(Problem(f"unknown variant {wanted[:40]!r} of {name}", place, "workload.engine", hint))
    return found


def _is_before(choice: EngineChoice, entry: Before, parts: Releases, name: str, place: Place) -> bool:
    """Tell whether a choice is older than a change."""
    if choice.version is not None and entry.before is not None:
        return older(choice.version, entry.before)
    when = _moment(choice, parts)
    if when is not None:
        return when < decimal_year(entry.released)
    if choice.version is None:
        return False
    message = f"changes of {name} are known by date, not by version; got {choice.version!r}"
    raise SpecError(Problem(message, place, "workload.engine", f"State when it came out: {name}@YYYY-MM."))


def _moment(choice: EngineChoice, parts: Releases) -> float | None:
    """Return when the chosen version came out, as a decimal year; None where nobody says."""
    if choice.released is not None:
        return decimal_year(choice.released)
    if choice.version is None:
        return None
    known = [when for version, when in parts.releases.items() if not older(choice.version, version)]
    return decimal_year(known[-1]) if known else None
