"""Read a file of prices: the user's, or that of the catalog, which has the same form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, near_matches, one_of
from roofsim.records import replace
from roofsim.schema.base import Field, field_validator
from roofsim.spec import catalog
from roofsim.spec.hardware.price import Kind
from roofsim.spec.prices import by_name
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.spec.reading.source import Document


#: What has prices: cards before nodes.
_PRICED: Final[tuple[Literal["gpu", "system"], ...]] = ("gpu", "system")
#: Dollars that nothing in a catalog costs.
_MOST: Final = 10.0**9


class PricePage(Strict):
    """The prices of one page, or of one contract."""

    usd: dict[str, Any] = Field(
        description="Name of a card or node -> dollars of one, or [low, high] where a range is stated."
    )
    per: Literal["hour", "purchase"] = "hour"
    kind: Kind = Field(default="own", description="list, offer, launch, retail, refurbished; own: what you pay.")
    seller: str | None = None
    region: str | None = None
    date: str | int | None = Field(default=None, description="YYYY, YYYY-MM or YYYY-MM-DD")
    old: bool = False
    source: str | None = None

    @field_validator("usd")
    @classmethod
    def _amounts(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, amount in value.items():
            ends = list(amount) if isinstance(amount, list | tuple) else [amount]
            numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
            if (
                len(numbers) != len(ends)
                or len(ends) > 2
                or not 0.0 < min(numbers, default=0.0) <= max(numbers) < _MOST
            ):
                raise ValueError(f"expected dollars above zero, or [low, high], for {name}; got {str(amount)[:60]!r}")
            if len(ends) > 1 and ends[0] > ends[1]:
                raise ValueError(f"expected the lower price of {name} first; got {str(amount)[:60]!r}")
        return value


class PriceFile(Strict):
    """A file of prices."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    pages: tuple[PricePage, ...]


def read_price_file(path: Path) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return catalog name -> its prices. A file is ``h100: 2.50`` line by line, in dollars per hour, or `pages` as the catalog's.

    Raises
    ------
    SpecError
        For a file that cannot be read, an unknown card or node, and an amount that is none.
    """
    document = read_yaml(path)
    if not isinstance(document.data, dict):
        raise SpecError(Problem("expected a mapping: h100: 2.50", Place(str(path))))
    if "pages" not in document.data:
        wrapped = {"schema": 1, "pages": [{"usd": dict(document.data)}]}
        places = {("pages", 0, "usd", *key): place for key, place in document.places.items()}
        document = type(document)(wrapped, document.source, places)
    read = validate(PriceFile, document)
    pages = [page.model_dump() for page in read.pages]
    return {_full_name(name, document): offers for name, offers in by_name(pages).items()}


def _full_name(name: str, document: Document) -> str:
    place = next((place for key, place in document.places.items() if key and key[-1] == name), Place(document.source))
    unknown: list[Problem] = []
    for kind in _PRICED:
        try:
            return catalog.resolve_name(kind, name, place)
        except UnknownNameError as error:
            unknown += error.problems
    known = [each for kind in _PRICED for each in (*catalog.names(kind), *catalog.aliases(kind))]
    close = near_matches(catalog.normal(name), known)
    hint = f"Did you mean {one_of(map(repr, close))}?" if close else unknown[0].hint
    raise UnknownNameError(replace(unknown[0], hint=hint))
