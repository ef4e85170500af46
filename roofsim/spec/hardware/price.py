"""Describe what hardware costs, and which prices can be compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from roofsim.records import dataclass
from roofsim.schema.base import Field, model_validator
from roofsim.spec.prices import OLD_AFTER
from roofsim.spec.reading.quantity import Dollars, DollarsPerHour
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What prices of an hour are called in sentences.
_KINDS: Final = {"list": "list price of {}", "offer": "offer of {}", "own": "your own price", None: "price of {}"}
UNKNOWN_SELLER: Final = "a seller that is not stated"
OLD: Final = f"more than {OLD_AFTER} months old"

Kind = Literal["list", "offer", "launch", "retail", "refurbished", "own"]


class Offer(Strict):
    """One price that somebody asks for a card or a node."""

    usd: float = Field(gt=0.0, description="Dollars of one: of an hour, or to buy it.")
    usd_high: float | None = Field(default=None, gt=0.0, description="Upper end, where the source gives a range.")
    per: Literal["hour", "purchase"]
    kind: Kind | None = Field(
        default=None,
        description="list: published; offer: asked on a market; launch: the maker's price when it came out; retail: of a shop; "
        "refurbished: refurbished or used; own: what you pay.",
    )
    seller: str | None = Field(default=None, description="Who asks it: AWS, Google Cloud, amazon.com ...")
    region: str | None = None
    date: str | None = Field(default=None, description="YYYY, YYYY-MM or YYYY-MM-DD")
    old: bool = Field(default=False, description=f"Whether it is {OLD}.")
    source: str | None = None

    @property
    def middle(self) -> float:
        """Dollars, the middle of a range."""
        return self.usd if self.usd_high is None else 0.5 * (self.usd + self.usd_high)

    @property
    def most(self) -> float:
        """Dollars, the upper end of a range."""
        return self.usd if self.usd_high is None else self.usd_high

    @property
    def market(self) -> tuple[str | None, ...] | None:
        """What prices share that can be compared; None: with no other."""
        if self.kind == "own":
            return ("own",)
        return None if self.kind is None or self.seller is None else (self.kind, self.seller, self.region)


class Price(Strict):
    """What the thing costs, each figure with its date, and what kind of price it is where the source says so."""

    purchase: Dollars | None = None
    purchase_date: str | None = Field(default=None, description="YYYY or YYYY-MM")
    purchase_kind: Literal["launch", "list", "retail", "refurbished", "own"] | None = Field(
        default=None,
        description="launch: the maker's price when it came out; list: the maker's later; retail: of a shop; refurbished: "
        "refurbished or used.",
    )
    purchase_seller: str | None = None
    purchase_old: bool = Field(default=False, description=f"Whether it is {OLD}.")
    hourly: DollarsPerHour | None = None
    hourly_date: str | None = Field(default=None, description="YYYY or YYYY-MM")
    hourly_kind: Literal["list", "offer", "own"] | None = Field(
        default=None,
        description="list: what a cloud publishes for on-demand use; offer: what was asked on a market at that date; own: what "
        "you pay. Prices of one kind and seller can be compared.",
    )
    hourly_seller: str | None = Field(default=None, description="Who asks this price: AWS, Google Cloud ...")
    hourly_region: str | None = Field(default=None, description="Where it holds: us-east ...")
    hourly_old: bool = Field(default=False, description=f"Whether it is {OLD}.")
    offers: tuple[Offer, ...] = Field(default=(), description="All prices that are known, the ones above among them.")

    @model_validator(mode="after")
    def _dated(self) -> Self:
        for name in ("purchase", "hourly"):
            own = getattr(self, f"{name}_kind") == "own"
            if getattr(self, name) is not None and getattr(self, f"{name}_date") is None and not own:
                raise ValueError(f"price.{name} needs price.{name}_date: a price without a date cannot be compared")
        return self

    def quote(self, source: str | None, share: float = 1.0) -> Quote | None:
        """Return the price of an hour with what there is to know of it; None where there is none.

        Parameters
        ----------
        source
            Where the figure comes from.
        share
            Cards that the figure is for: those of a node, where the price is the node's.
        """
        if self.hourly is None:
            return None
        ends = ends_of(offer for offer in self.offers if offer.per == "hour")
        known = None if self.hourly_kind == "own" or ends is None else ends
        return Quote(
            per_gpu=self.hourly / share,
            date=self.hourly_date,
            kind=self.hourly_kind,
            seller=self.hourly_seller,
            region=self.hourly_region,
            old=self.hourly_old,
            source=source,
            low=None if known is None else known[0] / share,
            high=None if known is None else known[1] / share,
            known=0 if known is None else known[2],
        )


def ends_of(offers: Iterable[Offer]) -> tuple[float, float, int] | None:
    """Return the lowest and the highest of prices and their number, without old ones unless all are; None of none."""
    every = list(offers)
    counted = [offer for offer in every if not offer.old] or every
    if not counted:
        return None
    return min(offer.usd for offer in counted), max(offer.most for offer in counted), len(counted)


@dataclass(frozen=True, kw_only=True)
class Quote:
    """The price of one card for an hour, in dollars.

    Attributes
    ----------
    low, high, known
        Ends and number of all prices that are known of it, old ones left out where there are others; None and 0 where the price
        is the user's own.
    """

    per_gpu: float
    date: str | None = None
    kind: str | None = None
    seller: str | None = None
    region: str | None = None
    old: bool = False
    source: str | None = None
    low: float | None = None
    high: float | None = None
    known: int = 0

    @property
    def market(self) -> tuple[str | None, ...] | None:
        """What prices share that can be compared; None: with no other."""
        if self.kind == "own":
            return ("own",)
        return None if self.kind is None or self.seller is None else (self.kind, self.seller, self.region)

    def words(self) -> str:
        """Return what kind of price it is, whose, where and of when.

        >>> Quote(per_gpu=3.43, date="2025-06", kind="list", seller="AWS", region="us-east").words()
        'list price of AWS in us-east, 2025-06'
        """
        text = _KINDS[self.kind].format(self.seller or UNKNOWN_SELLER)
        text += f" in {self.region}" if self.region and self.region != "any" else ""
        text = f"{text}, {self.date}" if self.date else text
        return f"{text}, {OLD}" if self.old else text


def lowest_words(price: Price, per_gpu: float, share: float = 1.0) -> str | None:
    """Return whose price of an hour it is that one card costs so much at; None of none.

    Parameters
    ----------
    share
        Cards that prices are for: those of a node, where they are the node's.
    """
    hourly = [offer for offer in price.offers if offer.per == "hour" and math.isclose(offer.usd / share, per_gpu)]
    chosen = min(hourly, key=lambda offer: offer.old, default=None)
    if chosen is None:
        return None
    kind = chosen.kind if chosen.kind in _KINDS else None
    facts: dict[str, Any] = {
        "kind": kind,
        "seller": chosen.seller,
        "region": chosen.region,
        "date": chosen.date,
        "old": chosen.old,
    }
    return Quote(per_gpu=per_gpu, **facts).words()
