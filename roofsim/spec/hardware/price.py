"""Describe what hardware costs, and which prices can be compared."""

from __future__ import annotations

from typing import Final, Literal, Self

from roofsim.records import dataclass
from roofsim.schema.base import Field, model_validator
from roofsim.spec.reading.quantity import Dollars, DollarsPerHour
from roofsim.spec.strict import Strict

#: What prices of an hour are called in sentences.
_KINDS: Final = {"list": "list price of {}", "offer": "offer of {}", "own": "your own price", None: "price of {}"}
UNKNOWN_SELLER: Final = "a seller that is not stated"


class Price(Strict):
    """What the thing costs, each figure with its date, and what kind of price it is where the source says so."""

    purchase: Dollars | None = None
    purchase_date: str | None = Field(default=None, description="YYYY or YYYY-MM")
    purchase_kind: Literal["launch", "list", "retail"] | None = Field(
        default=None,
        description="launch: the maker's price when it came out; list: the maker's later; retail: of a shop.",
    )
    hourly: DollarsPerHour | None = None
    hourly_date: str | None = Field(default=None, description="YYYY or YYYY-MM")
    hourly_kind: Literal["list", "offer", "own"] | None = Field(
        default=None,
        description="list: what a cloud publishes for on-demand use; offer: what was asked on a market at that date; own: what "
        "you pay. Prices of one kind and seller can be compared.",
    )
    hourly_seller: str | None = Field(default=None, description="Who asks this price: AWS, Google Cloud ...")
    hourly_region: str | None = Field(default=None, description="Where it holds: us-east ...")

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
        return Quote(
            per_gpu=self.hourly / share,
            date=self.hourly_date,
            kind=self.hourly_kind,
            seller=self.hourly_seller,
            region=self.hourly_region,
            source=source,
        )


@dataclass(frozen=True, kw_only=True)
class Quote:
    """The price of one card for an hour, in dollars."""

    per_gpu: float
    date: str | None = None
    kind: str | None = None
    seller: str | None = None
    region: str | None = None
    source: str | None = None

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
        text += f" in {self.region}" if self.region else ""
        return f"{text}, {self.date}" if self.date else text
