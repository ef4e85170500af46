"""Describe an engine's versions and variants: what was otherwise before a version, and what is otherwise in a product.

An engine's file states what its users get today. Facts that changed stand under ``versions``, newest change first, each with
the version before which they were otherwise; the facts of a version are today's with all later changes taken back.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.engine.choice import Version, decimal_year
from roofsim.spec.strict import Strict


class EarlierFacts(Strict):
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


class Leaner(Strict):
    """What an engine's users ask for to keep less in training: `roofsim fit` tries it where a step does not fit."""

    variants: tuple[str, ...] = Field(default=(), description="Names of the engine's variants.")
    roles: dict[Literal["attention", "parameters"], Literal["fp8"]] = Field(
        default_factory=dict, description="Roles of workload.precision beside narrow products -> type."
    )


class Releases(Strict):
    """What an engine's file says of its versions; a part of `Engine`."""

    versions: tuple[EarlierFacts, ...] = Field(
        default=(), description="Facts that changed, the newest change first: {before, released, facts, sources}."
    )
    variants: dict[str, Variant] = Field(
        default_factory=dict, description="Products or builds that users choose between: name -> {description, facts}."
    )
    releases: dict[str, Version] = Field(
        default_factory=dict, description="Version -> when it came out, from the oldest to the newest."
    )
    precision_variants: dict[str, str] = Field(
        default_factory=dict,
        description="Precision -> the variant that runs it where a scenario names none: the engine has its own code for that type.",
    )
    leaner: Leaner = Field(default=Leaner(), description="What its users ask for to keep less in training.")
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
        for name, named in (
            ("precision_variants", self.precision_variants.values()),
            ("leaner.variants", self.leaner.variants),
        ):
            lacking = sorted(set(named) - set(self.variants))
            if lacking:
                raise ValueError(f"{name} names variants that there are not: {', '.join(lacking)}")
        return self

    def changed_facts(self) -> list[dict[str, Any]]:
        """Return the facts that each version and variant changes, as they are written: flat or in groups."""
        return [entry.facts for entry in self.versions] + [variant.facts for variant in self.variants.values()]


#: Fields of an engine that are no facts: neither a scenario nor a version changes them.
NO_FACTS: Final = (
    "schema_version", "name", "description", "aliases", "sources", "notes", "versions", "variants", "releases", "library_date",
    "precision_variants", "hands_over", "layouts", "families", "usual_formats", "leaner",
)  # fmt: skip
