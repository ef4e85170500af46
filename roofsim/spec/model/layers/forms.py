"""Say what layers hand on, without lengths: ids, tokens of a width, maps of channels, rows of a width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from roofsim.records import dataclass, replace
from roofsim.spec.model.layers.amounts import checked_size
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.numeric import Real

#: What layers hand on, in words.
LAYOUTS: Final = {
    "ids": "token ids [batch, length]",
    "tokens": "tokens [batch, length, width]",
    "maps": "maps [batch, channels, ...]",
    "rows": "rows [batch, width]",
    "loss": "a loss",
}
#: How one layout becomes another, for messages: (what there is, what is wanted).
_WAYS: Final = {
    ("tokens", "maps"): "`transpose` turns tokens into maps.",
    ("maps", "tokens"): "`transpose` (or `patches`) turns maps into tokens.",
    ("ids", "tokens"): "`embedding` turns ids into tokens.",
    ("maps", "rows"): "`global_average` or `flatten` turns maps into rows.",
    ("tokens", "rows"): "`mean` or `last` turns tokens into rows.",
}


@dataclass(frozen=True)
class Form:
    """What a layer hands on: a layout, the width of its tokens, rows or channels, and of maps their dimensions."""

    layout: str
    width: int = 0
    dimensions: int = 0

    def __str__(self) -> str:
        width = f" of width {self.width:,}" if self.width else ""
        maps = f" of {self.width:,} channels in {self.dimensions} dimensions"
        return LAYOUTS[self.layout] + (maps if self.layout == "maps" else width)


class WrongBlockError(ValueError):
    """Something that is wrong with a block: the key below it, what, and the way out."""

    def __init__(self, message: str, key: str = "", hint: str = "") -> None:
        self.message, self.key, self.hint = message, key, hint
        super().__init__(message)


@dataclass(frozen=True)
class Sizes:
    """The named sizes of a model, for its blocks to work theirs out."""

    named: Mapping[str, Real]

    def of(self, amount: Any, key: str, least: int = 1) -> int:
        """Return a whole number.

        Raises
        ------
        WrongBlockError
            When it is none, or names a size that there is not.
        """
        try:
            return checked_size(amount, self.named, least)
        except ValueError as error:
            raise WrongBlockError(str(error), key) from None


class LayerBlock(Strict):
    """One layer of a list: its fields, what it takes and hands on, and what can be done with a model that has it."""

    #: Whether a later token depends on earlier ones alone, so that one can be generated after the other.
    generates: ClassVar[bool] = True
    #: Whether its lowering splits it over a tensor group, or every rank does all of it.
    splits_tensor: ClassVar[bool] = False
    #: Whether it works on each token alone, or exchanges what it needs in a group that splits the sequence.
    splits_sequence: ClassVar[bool] = False
    #: Whether a state passes through a sequence from its first token on.
    recurrent: ClassVar[bool] = False
    #: The key that a number stands for: ``linear: 512``.
    main: ClassVar[str] = ""

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return what the block hands on.

        Raises
        ------
        WrongBlockError
            When it cannot take this, or one of its sizes is wrong.
        """
        del sizes
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the kept results that it reads beside what enters: (field, name)."""
        return ()

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Check the kept results that it reads, by the fields that name them.

        Raises
        ------
        WrongBlockError
            When it cannot take one of them.
        """
        del others, taken, sizes

    def keeps(self, taken: Form, sizes: Sizes) -> dict[str, Form]:
        """Return what it keeps for later steps beside what it hands on, by the names that its fields give."""
        del taken, sizes
        return {}

    def generates_here(self) -> bool:
        """Tell whether tokens can be generated with these fields."""
        return self.generates

    def splits_tensor_here(self) -> bool:
        """Tell whether a tensor group splits it with these fields."""
        return self.splits_tensor


def wants(taken: Form, *layouts: str, what: str = "it") -> None:
    """Refuse what a block cannot take.

    Raises
    ------
    WrongBlockError
        With how to get there.
    """
    if taken.layout in layouts:
        return
    ways = [_WAYS[taken.layout, layout] for layout in layouts if (taken.layout, layout) in _WAYS]
    wanted = " or ".join(LAYOUTS[layout] for layout in layouts)
    raise WrongBlockError(f"{what} takes {wanted}; here are {taken}", hint=" ".join(ways))


def divides(whole: int, part: int, what: str, key: str) -> None:
    """Refuse a number that is no multiple of another.

    Raises
    ------
    WrongBlockError
        With both.
    """
    if whole % part:
        raise WrongBlockError(f"{what} {whole:,} is not a multiple of {part:,}", key)


def widened(taken: Form, width: int) -> Form:
    """Return the same layout of another width."""
    return replace(taken, width=width)
