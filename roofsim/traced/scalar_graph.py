"""Write what is worked out of every point as operations on single numbers, with as much of it as can be done before all axes meet.

A trace notes operations on arrays: one for all kernels of a step. Where rows of such an array depend on different columns, the
whole depends on all of them. `ScalarGraph` has an operation for each number of a point, each on the columns that it depends on
itself, and writes three things anew. They are equal in exact arithmetic, and differ by a few units of the last place in float64:

- A soft maximum ``(a^p + b^p)^(1/p)`` of what a few columns decide and what others do is a sum of two powers, each worked out for
  its own columns, and a root. Of two with the same `p` the smaller is the one with the smaller sum.
- What is done with one of several numbers, which a condition picks, is done with each of them where that takes fewer points.
- Sums are sums of multiples: what is taken apart into shares (``t s`` and ``t (1 - s)``) and added again is never taken apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.traced.scalars import Choice, Scalar, Sym, divided, picked, weighted
from roofsim.traced.soft_maxima import SoftMaxima

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Exponents up to which powers of seconds and FLOPs neither overflow nor vanish.
_MOST_POWER: Final = 24.0
_ORDERED: Final = frozenset(
    {np.less, np.greater, np.less_equal, np.greater_equal, np.minimum, np.maximum, np.equal, np.not_equal}
)


#: Number and a factor of it (None: 1; the number of a constant is None) -> their coefficient.
_Sum: TypeAlias = dict[tuple[Any, Any], float]


class ScalarGraph:
    """Operations on single numbers, each known once.

    Parameters
    ----------
    is_large
        Columns -> whether what depends on them is worked out for so many points that less of it is worth other operations.
    """

    def __init__(self, is_large: Callable[[int], bool]) -> None:
        self.nodes: list[Scalar] = []
        self.is_large = is_large
        self._known: dict[Any, Sym] = {}
        self._choices: dict[Sym, Choice] = {}
        self._sums: dict[Sym, _Sum] = {}  # what sums of multiples are made of
        self._shares: dict[tuple[Sym, Sym], Sym] = {}
        """A number and a share of it -> their product."""
        #: Product of a number and what a share leaves of it -> the number, and its product with the share.
        self._rests: dict[Sym, tuple[Sym, Sym]] = {}
        self._left: dict[tuple[Sym, Sym], Sym] = {}  # the other way round
        self._products: dict[Sym, list[Sym]] = {}  # of a number with shares of which there is such a rest
        #: Sum of 1 and a number, or difference, and the sign -> the number.
        self._beside: dict[tuple[Any, float], Sym] = {}
        self._rest_of: dict[Sym, Sym] = {}  # 1 without a number
        self._factors: dict[Sym, tuple[tuple[Any, int], ...]] = {}
        """Product and quotient -> its factors, 1 or -1 each."""
        #: Comparison -> the function, and what it was asked to compare.
        self._asked: dict[Sym, tuple[Any, Any, Any]] = {}
        self._maxima = SoftMaxima(self.nodes, self._beside)
        self._roots: dict[Sym, tuple[Any, float]] = {}  # root -> the sum of powers, and the exponent of these

    # -- making ----------------------------------------------------------------------------------------------------

    def leaf(self, key: Any, columns: int) -> Sym:
        """Return a number that is given."""
        return self._node(None, (key,), columns)

    def make(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Return what an elementwise function gives of numbers."""
        if not any(type(one) is Sym for one in arguments):
            with np.errstate(all="ignore"):
                made = function(*arguments)
            return made.item() if isinstance(made, np.ndarray | np.generic) else made
        mapped = self._mapped(function, arguments)
        return self._made(function, arguments) if mapped is None else mapped

    def _made(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Return what a function gives of numbers of which none is picked."""
        if function is np.multiply:
            return self._product(*arguments)
        if function in QUOTIENTS and type(arguments[1]) is Sym and self._large(*arguments):
            return self._factored([(arguments[0], 1), (arguments[1], -1)])
        if function is np.add or function is np.subtract:
            return self._added(function, *arguments)
        if function is np.where:
            return self._where(*arguments)
        if function in _ORDERED:
            return self._ordered(function, *arguments)
        return self._node(function, tuple(arguments), self.columns(*arguments))

    def columns(self, *arguments: Any) -> int:
        """Return the columns that some numbers depend on."""
        columns = 0
        for one in arguments:
            if type(one) is Sym:
                columns |= self.nodes[one].columns
        return columns

    def _large(self, *arguments: Any) -> bool:
        return self.is_large(self.columns(*arguments))

    def _node(self, function: Any, arguments: tuple[Any, ...], columns: int) -> Sym:
        key = function, tuple((type(one), one) for one in arguments)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Sym(len(self.nodes))
            self.nodes.append(Scalar(function, arguments, columns))
        return known

    # -- choices ---------------------------------------------------------------------------------------------------

    def _mapped(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Return a function of each of the numbers that may be picked, where that takes fewer points; None elsewhere."""
        choices = [self._choice_of(one) for one in arguments]
        first = next((choice for choice in choices if choice is not None), None)
        if first is None or any(choice is not None and choice.conditions != first.conditions for choice in choices):
            return None
        cases = [
            [one if choice is None else choice.leaves[place] for one, choice in zip(arguments, choices, strict=True)]
            for place in range(len(first.leaves))
        ]
        if any(self._large(*case) for case in cases):
            return None
        return self._choice(first.conditions, [self.make(function, case) for case in cases])

    def _choice_of(self, number: Any) -> Choice | None:
        return self._choices.get(number) if type(number) is Sym else None

    def _choice(self, conditions: tuple[Sym, ...], leaves: Sequence[Any]) -> Any:
        if all(type(leaf) is type(leaves[0]) and leaf == leaves[0] for leaf in leaves):
            return leaves[0]
        given = [leaves[0]]
        for condition, leaf in zip(conditions, leaves[1:], strict=True):
            given += [condition, leaf]
        made = self._node(picked, tuple(given), self.columns(*given))
        self._choices[made] = Choice(conditions, tuple(leaves))
        return made

    def _where(self, condition: Any, first: Any, second: Any) -> Any:
        if type(condition) is not Sym:
            return first if condition else second
        asked = self._asked.get(condition)
        if asked == (np.less, first, second):
            return self._ordered(np.minimum, first, second)
        common = self._common(first, second)
        if common and self._large(condition):
            own = [
                self._factored([*self._split(one), *((each, -sign) for each, sign in common)])
                for one in (first, second)
            ]
            return self._factored([(self._where(condition, *own), 1), *common])
        if self._large(condition) and not self._large(first):
            before = self._choice_of(second)
            if before is not None:
                return self._choice((*before.conditions, condition), (*before.leaves, first))
            if not self._large(second):
                return self._choice((condition,), (second, first))
        return self._node(np.where, (condition, first, second), self.columns(condition, first, second))

    def _split(self, number: Any) -> tuple[tuple[Any, int], ...]:
        return self._factors.get(number, ((number, 1),)) if type(number) is Sym else ((number, 1),)

    def _common(self, first: Any, second: Any) -> list[tuple[Any, int]]:
        """Return the factors that two numbers have in common, where they have others besides."""
        both = [each for each in self._split(first) if each in self._split(second)]
        return [] if first == second else both

    # -- soft maxima -----------------------------------------------------------------------------------------------

    def _ordered(self, function: Any, first: Any, second: Any) -> Any:
        """Return which of two is the larger, or the larger of them: of roots what their powers say."""
        if function is np.minimum and np.inf in (first, second):
            return second if first == np.inf else first
        one, other = (self._roots.get(each) if type(each) is Sym else None for each in (first, second))
        if one is None or other is None or one[1] != other[1]:
            made = self._node(function, (first, second), self.columns(first, second))
        else:
            made = self._node(function, (one[0], other[0]), self.columns(one[0], other[0]))
            if function in (np.minimum, np.maximum):
                return self._root(made, one[1])
        self._asked[made] = function, first, second
        return made

    def _root(self, powers: Any, exponent: float) -> Sym:
        made = self._node(np.power, (powers, 1.0 / exponent), self.columns(powers))
        self._roots[made] = powers, exponent
        return made

    def _soft_maximum(self, larger: Sym, other: Sym) -> Any:
        """Return a product as the soft maximum that it is; None where it is none, or there is nothing to gain."""
        parts = self._maxima.read(larger, other)
        if parts is None or not 1.0 <= parts[2] <= _MOST_POWER:
            return None
        *ends, exponent = parts
        powers = [self._power(one, exponent) for one in ends]
        if any(power is None for power in powers):
            return None
        return self._root(self._node(np.add, tuple(powers), self.columns(*powers)), exponent)

    def _power(self, number: Any, exponent: float) -> Any:
        """Return the power of a number that is not negative, made of powers of what fewer points decide; None where it is not."""
        if type(number) is not Sym or not self._large(number) or self._choice_of(number) is not None:
            return self.make(np.power, (number, exponent))
        node = self.nodes[number]
        if node.function in (np.minimum, np.maximum):
            ends = [self._power(one, exponent) for one in node.arguments]
            return None if any(one is None for one in ends) else self._node(node.function, tuple(ends), node.columns)
        if number not in self._factors:
            return None
        powers = [(self._power(one, exponent), sign) for one, sign in self._factors[number]]
        return None if any(one is None for one, _ in powers) else self._factored(powers)

    # -- products and sums -----------------------------------------------------------------------------------------

    def _factored(self, factors: Sequence[tuple[Any, int]]) -> Any:
        """Return a product and quotient: what few columns decide is multiplied before all columns meet.

        Parameters
        ----------
        factors
            Numbers, each with 1 where it is multiplied with, and -1 where it is divided by.
        """
        flat: dict[Any, int] = {}
        for one, sign in factors:
            for factor, own in self._split(one):
                flat[factor] = flat.get(factor, 0) + own * sign
        whole = [(one, 1 if power > 0 else -1) for one, power in flat.items() for _ in range(abs(power))]
        kept: list[Any] = []
        few: list[Any] = []  # numerator and denominator, as far as they depend on few columns
        for one, sign in whole:
            if self._large(one) and self._choice_of(one) is None:
                kept.append((one, sign))
                continue
            at = next((place for place, other in enumerate(few) if not self._meets(one, other)), None)
            if at is None:
                few.append((one, sign))
            else:
                few[at] = self._joined(few[at], (one, sign))
        kept += few
        above, below = ([one for one, sign in kept if sign == want] for want in (1, -1))
        made: Any = above[0] if above else 1.0
        for one in above[1:]:
            made = self._node(np.multiply, (made, one), self.columns(made, one))
        under = below[0] if below else None
        for one in below[1:]:
            under = self._node(np.multiply, (under, one), self.columns(under, one))
        if under is not None:
            made = self._node(divided, (made, under), self.columns(made, under))
        if few and len(kept) > 1:
            self._factors[made] = tuple(kept)
        return made

    def _meets(self, one: Any, other: tuple[Any, int]) -> bool:
        """Tell whether a product with another number depends on so many columns that each is to stay apart."""
        leaves = [self._choice_of(each) for each in (one, other[0])]
        if all(leaves):
            return leaves[0].conditions != leaves[1].conditions  # type: ignore[union-attr]
        own = [
            self.columns(*choice.leaves) if choice is not None else self.columns(each)
            for each, choice in zip((one, other[0]), leaves, strict=True)
        ]
        return self.is_large(own[0] | own[1])

    def _joined(self, one: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        """Return the product or quotient of two numbers, each with its sign."""
        if one[1] == other[1]:
            return self.make(np.multiply, (one[0], other[0])), one[1]
        above, below = (one[0], other[0]) if one[1] > 0 else (other[0], one[0])
        return self.make(divided, (above, below)), 1

    def _product(self, first: Any, second: Any) -> Any:
        orders = ((first, second), (second, first))
        for one, other in orders:
            if type(other) is not Sym:
                return self.sum([(one, float(other))])
        if not self._large(first, second):
            return self._node(np.multiply, (first, second), self.columns(first, second))
        for one, other in orders:
            made = self._soft_maximum(one, other)
            if made is None and one in self._sums and self._large(one) and not self._large(other):
                made = self._scaled(one, other)
            if made is not None:
                return made
        return self._shared(first, second)

    def _shared(self, first: Sym, second: Sym) -> Any:
        """Return a product; one of the two may be a share, or what a share leaves."""
        made = self._factored([(first, 1), (second, 1)])
        for one, other in ((first, second), (second, first)):
            self._shares.setdefault((one, other), made)
            share, rest = self._beside.get((other, -1.0)), self._rest_of.get(other)
            if share is not None:
                self._note_rest(one, self._shares.get((one, share)), made)
            if rest is not None:
                self._note_rest(one, made, self._shares.get((one, rest)))
        return made

    def _note_rest(self, number: Sym, product: Sym | None, left: Sym | None) -> None:
        """Take note that a number is the sum of two products, if both are known: with a share, and with what that leaves."""
        if product is not None and left is not None:
            self._rests[left] = number, product
            self._left[number, product] = left
            self._products.setdefault(number, []).append(product)

    def _added(self, function: Any, first: Any, second: Any) -> Any:
        """Return a sum or difference."""
        sign = 1.0 if function is np.add else -1.0
        made = self.sum([(first, 1.0), (second, sign)])
        for one, other in ((first, second), (second, first)) if sign > 0.0 else ((first, second),):
            if type(one) is not Sym and one == 1.0 and type(other) is Sym and type(made) is Sym:
                self._beside[made, sign] = other
                if sign < 0.0:
                    self._rest_of[other] = made
        return made

    def sum(self, terms: Sequence[tuple[Any, float]]) -> Any:
        """Return a sum of multiples of numbers."""
        whole: _Sum = {}
        for value, coefficient in terms:
            for (part, factor), of_part in self._parts(value).items():
                for atom, own in self._apart(part).items():
                    key = atom, factor
                    whole[key] = whole.get(key, 0.0) + own * of_part * coefficient
        return self._summed(whole)

    def _scaled(self, number: Sym, factor: Sym) -> Any:
        """Return a multiple of a sum, by what few columns decide."""
        whole: _Sum = {}
        for (atom, before), own in self._sums[number].items():
            key = atom, factor if before is None else self.make(np.multiply, (before, factor))
            whole[key] = whole.get(key, 0.0) + own
        return self._summed(whole)

    def _parts(self, value: Any) -> _Sum:
        """Return what a number is a sum of."""
        if type(value) is not Sym:
            return {(None, None): float(value)}
        return self._sums.get(value, {(value, None): 1.0}) if self._large(value) else {(value, None): 1.0}

    def _apart(self, atom: Any) -> dict[Any, float]:
        """Return what a share leaves of a number as the number without their product."""
        if atom not in self._rests:
            return {atom: 1.0}
        one, product = self._rests[atom]
        return {one: 1.0, product: -1.0}

    def _summed(self, whole: _Sum) -> Any:
        """Return a sum: of the same factor its numbers first, and of these what the same few columns decide."""
        whole = self._put_together({key: own for key, own in whole.items() if own != 0.0})
        if not whole.keys() - {(None, None)}:
            return whole.get((None, None), 0.0)
        if len(whole) == 1:
            (((atom, factor), own),) = whole.items()
            if own == 1.0 and factor is None:
                return atom
        by_factor: dict[Any, list[tuple[Any, float]]] = {}
        for (atom, factor), own in whole.items():
            by_factor.setdefault(factor, []).append((1.0 if atom is None else atom, own))
        terms = by_factor.pop(None, [])
        for factor, own_terms in by_factor.items():
            multiple = self._weighted(own_terms)
            terms.append((self._node(np.multiply, (multiple, factor), self.columns(multiple, factor)), 1.0))
        made = self._weighted(terms)
        if type(made) is Sym:
            self._sums[made] = whole
        return made

    def _put_together(self, whole: _Sum) -> _Sum:
        """Return a sum with what a share leaves of a number as their product: no difference of two larger numbers."""
        for atom, factor in list(whole):
            for other in self._products.get(atom, ()):
                if (atom, factor) in whole and whole.get((other, factor)) == -whole[atom, factor]:
                    whole[self._left[atom, other], factor] = whole.pop((atom, factor))
                    del whole[other, factor]
        return whole

    def _weighted(self, terms: Sequence[tuple[Any, float]]) -> Any:
        """Return a sum of multiples as it is worked out."""
        few: dict[int, list[Any]] = {}
        flat: list[Any] = []
        for atom, own in terms:
            columns = self.columns(atom)
            if self.is_large(columns):
                flat += [atom, own]
            else:
                few.setdefault(columns, []).extend((atom, own))
        if not flat and len(few) == 1:
            (flat,) = few.values()
        else:
            for part in few.values():
                flat += part if len(part) == 2 else (self._node(weighted, tuple(part), self.columns(*part)), 1.0)
        if len(flat) == 2 and flat[1] == 1.0:
            return flat[0]
        return self._node(weighted, tuple(flat), self.columns(*flat))
