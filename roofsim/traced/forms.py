"""Write the noted operations anew so that fewer of them depend on one column: sums of powers of its number, with coefficients.

What a step takes is, for the most part, so many micro batches times what one takes, and something that runs once. Written as
``a v + b``, with `v` the number of a column, all work is done on `a` and `b`, which other columns decide; what depends on `v` is
one product and one sum in the end, where an operation follows that is none of these (a soft corner). What is divided by `v` and
multiplied by it again does not depend on it. Sums are associated anew, so that results differ from those of the operations as they
were noted by rounding: a few units in the last place.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.traced.notes import LENGTH, NOTHING, Node, Record, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Powers of the column's number, and terms, of a form; what has others is an operation as any other.
_POWERS: Final = range(-2, 3)
_TERMS: Final = 2
#: Operations on the column's number itself from which on it is tried.
_USERS: Final = 8
#: Share of the operations that depend on it which must do so no longer.
_GAIN: Final = 0.1
#: Operations whose result leaps: what they take stays as it was noted.
_STEPS: Final = frozenset(
    {np.ceil, np.floor, np.rint, np.trunc, np.remainder, np.floor_divide, np.equal, np.not_equal, np.isclose}
)
#: Operations that a positive factor of both operands passes through.
_ORDERS: Final = frozenset({np.greater, np.greater_equal, np.less, np.less_equal})
_ENDS: Final = frozenset({np.maximum, np.minimum})
_SUMS: Final = frozenset({np.add, np.subtract})
#: A sum of powers: power -> coefficient, a node (`Ref`) or a number.
Form = dict[int, Any]


class Rewriter:
    """Operations written anew for one column.

    Parameters
    ----------
    nodes
        Number of each operation -> operation, each behind what it takes.
    leaf
        The leaf whose number is positive in all points.
    exact
        Operations whose values must be the same to the last bit.

    Attributes
    ----------
    made
        The operations that come out.
    """

    def __init__(self, nodes: Mapping[int, Node], leaf: int, exact: Iterable[int]) -> None:
        self.old, self.leaf = nodes, leaf
        steps = [number for number, node in nodes.items() if node.function in _STEPS]
        self._exact = behind(nodes, [*exact, *steps])
        self.made: list[Node] = []
        self._forms: dict[int, Form] = {}
        self._whole: dict[int, Any] = {}
        self._known: dict[Any, Ref] = {}
        for number in sorted(nodes):
            self._write(number, nodes[number])

    def whole(self, number: int) -> Any:
        """Return what has the value of an old operation: a new one, or a number."""
        if number not in self._whole:
            self._whole[number] = self._worked_out(number)
        return self._whole[number]

    # -- operations ------------------------------------------------------------------------------------------------

    def _write(self, number: int, node: Node) -> None:
        if node.function is None:
            ref = self._whole[number] = self._add(node)
            self._forms[number] = {1: 1.0} if number == self.leaf else {0: ref}
            return
        if number in self._exact:
            # What takes its value as it was noted does; sums go on with the form.
            whole = self._whole[number] = self._filled(node)
            form = self._form_of(node) if type(whole) is Ref and self._depends(whole) else {0: whole}
            if form is not None:
                self._forms[number] = form
            return
        same = self._same_as(node)
        if same is not None:
            self._whole[number] = self.whole(same)
            if same in self._forms:
                self._forms[number] = self._forms[same]
            return
        form = self._form_of(node)
        if form is not None:
            self._forms[number] = form
            return
        made = self._whole[number] = self._filled(node)
        if type(made) is not Ref or not self._depends(made):
            self._forms[number] = {0: made}

    def _depends(self, made: Ref) -> bool:
        return bool(self.made[made.node].columns & self.old[self.leaf].columns)

    def _is(self, argument: Any, number: float) -> bool:
        form = self._forms.get(argument.node) if type(argument) is Ref else {0: argument}
        return form is not None and set(form) == {0} and type(form[0]) is float and form[0] == number

    def _same_as(self, node: Node) -> int | None:
        """Return the operation whose value a sum has: ``b`` of ``a + (b - a)``, ``a`` of ``a + 0``."""
        if node.function is not np.add or not all(type(one) is Ref for one in node.arguments):
            return None
        for one, other in (node.arguments, node.arguments[::-1]):
            if self._is(one, 0.0) and self.old[other.node].shape == node.shape:
                return int(other.node)
        for one, other in (node.arguments, node.arguments[::-1]):
            inner = self.old[other.node]
            taken = inner.arguments
            if inner.function is np.subtract and all(type(each) is Ref for each in taken) and taken[1].node == one.node:
                return int(taken[0].node) if self.old[taken[0].node].shape == node.shape else None
        return None

    def _filled(self, node: Node) -> Any:
        """Return an operation on new ones; a number, where it takes nothing but numbers."""
        plain = isinstance(node.function, np.ufunc) or node.function is np.where
        arguments, options = self._taken(node.arguments, plain=plain), self._taken(node.options, plain=plain)
        columns, taken = 0, False
        for ref in refs((arguments, options)):
            columns, taken = columns | self.made[ref].columns, True
        if taken or not plain or node.function is None:
            return self._add(node._replace(arguments=arguments, options=options, columns=columns))
        with np.errstate(all="ignore"):
            return np.asarray(node.function(*arguments, **options)).item()

    def _taken(self, kept: Any, *, plain: bool) -> Any:
        """Return arguments with new operations in them; as `plain` numbers where these are the same for all points."""
        kind = type(kept)
        if kind is Ref:
            whole = self.whole(kept.node)
            return whole if plain or type(whole) is Ref else self._spread(whole, self.old[kept.node])
        if kind is tuple or kind is list:
            return kind(self._taken(part, plain=plain) for part in kept)
        if kind is dict:
            return {name: self._taken(part, plain=plain) for name, part in kept.items()}
        if kind is Record:
            return Record(kept.value, {name: self._taken(part, plain=plain) for name, part in kept.changed.items()})
        return kept

    def _spread(self, value: float, node: Node) -> Ref:
        """Return a number as an array, for what takes nothing else."""
        own = self.old[self.leaf].columns
        return self._add(Node(np.full, ((LENGTH,), value), NOTHING, node.columns & ~own or own, (-1,), 0))

    def _add(self, node: Node) -> Ref:
        self.made.append(node)
        return Ref(len(self.made) - 1)

    # -- forms -----------------------------------------------------------------------------------------------------

    def _form_of(self, node: Node) -> Form | None:
        """Return the form of what an operation gives; None where it has none, or needs none."""
        if node.shape != (-1,) or node.options or len(node.arguments) not in (2, 3):
            return None
        if node.function is np.multiply and any(self._is(argument, 0.0) for argument in node.arguments):
            return {0: 0.0}
        forms = [self._operand(argument) for argument in node.arguments]
        if any(form is None for form in forms):
            return None
        return self._combined(node.function, forms)

    def _operand(self, argument: Any) -> Form | None:
        if type(argument) is Ref:
            return self._forms.get(argument.node) if self.old[argument.node].shape == (-1,) else None
        return {0: float(argument)} if type(argument) in (int, float) else None

    def _combined(self, function: Any, forms: list[Any]) -> Form | None:
        """Return what an operation gives of forms, where that is one: nothing is kept of terms that are 0."""
        made: Form | None = None
        if len(forms) == 3:
            made = self._either(forms) if function is np.where and set(forms[0]) == {0} else None
        elif function in _SUMS:
            made = dict(forms[0])
            for power, value in forms[1].items():
                made[power] = self._of(function, made.get(power, 0.0), value)
        elif function is np.multiply or function in QUOTIENTS:
            made = self._scaled(function, *forms)
        elif function in _ENDS or function in _ORDERS:
            power = _alike(*forms)
            if power is not None:
                value = self._of(function, *(form.get(power, 0.0) for form in forms))
                made = {power if function in _ENDS else 0: value}
        if made is None:
            return None
        made = {power: value for power, value in made.items() if type(value) is Ref or value != 0.0} or {0: 0.0}
        return made if len(made) <= _TERMS and set(made) <= set(_POWERS) else None

    def _scaled(self, function: Any, first: Form, second: Form) -> Form | None:
        """Return a product, or a quotient, one factor of which has one term."""
        if len(second) > 1 and function is np.multiply:
            first, second = second, first
        if len(second) > 1:
            return None
        ((power, factor),) = second.items()
        power = power if function is np.multiply else -power
        return {own + power: self._of(function, value, factor) for own, value in first.items()}

    def _either(self, forms: list[Form]) -> Form:
        condition, first, second = forms
        return {
            power: self._chosen(condition[0], first.get(power, 0.0), second.get(power, 0.0))
            for power in sorted({*first, *second})
        }

    # -- new operations --------------------------------------------------------------------------------------------

    def _of(self, function: Any, first: Any, second: Any) -> Any:  # noqa: PLR0911 - one neutral operand after another
        """Return an operation on two coefficients."""
        if type(first) is not Ref and type(second) is not Ref:
            with np.errstate(all="ignore"):
                value = function(first, second)
            return float(value) if not isinstance(value, bool | np.bool_) else bool(value)
        if function is np.multiply:
            if 0.0 in (first, second):
                return 0.0
            if first == 1.0:
                return second
            if second == 1.0:
                return first
        if function is np.add and first == 0.0:
            return second
        if function in _SUMS and second == 0.0:
            return first
        if function in QUOTIENTS and (second == 1.0 or first == 0.0):
            return first
        return self._made(function, (first, second))

    def _chosen(self, condition: Any, first: Any, second: Any) -> Any:
        if type(condition) is not Ref:
            return first if condition else second
        same = first.node == second.node if type(first) is type(second) is Ref else first == second
        return first if same else self._made(np.where, (condition, first, second))

    def _made(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        key = (function, *(("node", one.node) if type(one) is Ref else one for one in arguments))
        if key not in self._known:
            columns = 0
            for one in arguments:
                columns |= self.made[one.node].columns if type(one) is Ref else 0
            self._known[key] = self._add(Node(function, arguments, NOTHING, columns, (-1,), 0))
        return self._known[key]

    def _worked_out(self, number: int) -> Any:
        """Write an operation out whose form is known: as a sum of powers, or as it was where that takes less."""
        form, node = self._forms[number], self.old[number]
        if set(form) == {0}:
            return form[0]
        depend = [ref for ref in refs(node.arguments) if set(self._forms.get(ref, {1: 1.0})) - {0}]
        if all(ref in self._whole for ref in depend):
            return self._made(node.function, self._taken(node.arguments, plain=True))
        total: Any = 0.0
        leaf = self._whole[self.leaf]
        for power, value in sorted(form.items(), reverse=True):
            term = value
            if power:
                factor = leaf if abs(power) == 1 else self._made(np.multiply, (leaf, leaf))
                term = (
                    self._of(np.multiply, value, factor) if power > 0 else self._made(np.true_divide, (value, factor))
                )
            total = self._of(np.add, total, term)
        return total


def refs(kept: Any) -> Iterable[int]:
    """Yield the operations that an argument takes the results of."""
    kind = type(kept)
    if kind is Ref:
        yield kept.node
    elif kind is tuple or kind is list:
        for part in kept:
            yield from refs(part)
    elif kind is dict:
        for part in kept.values():
            yield from refs(part)
    elif kind is Record:
        for part in kept.changed.values():
            yield from refs(part)


def _alike(first: Form, second: Form) -> int | None:
    """Return the power of two forms of one term each of the same power; nothing is of any power."""
    powers = {power for form in (first, second) for power, value in form.items() if type(value) is Ref or value != 0.0}
    return powers.pop() if len(powers) == 1 else None if powers else 0


def behind(nodes: Any, ends: Iterable[int]) -> set[int]:
    """Return operations and all that they take, and what that takes."""
    needed: set[int] = set()
    todo = list(ends)
    while todo:
        number = todo.pop()
        if number not in needed:
            needed.add(number)
            todo += refs((nodes[number].arguments, nodes[number].options))
    return needed


def written_anew(
    nodes: Mapping[int, Node], leaves: Iterable[int], wanted: Iterable[int], exact: Iterable[int]
) -> Rewriter | None:
    """Return operations written anew for the column for which fewest depend on it then; None where none gains enough.

    Parameters
    ----------
    nodes, exact
        As those of `Rewriter`.
    leaves
        Leaves whose numbers are positive, one of each column.
    wanted
        Operations whose values are asked for, besides those of `exact`.
    """
    users = Counter(ref for node in nodes.values() for ref in {*refs((node.arguments, node.options))})
    best, gained = None, _GAIN
    for leaf in leaves:
        if users[leaf] < _USERS:
            continue
        written = Rewriter(nodes, leaf, exact)
        ends = [written.whole(number) for number in (*wanted, *exact)]
        bit = nodes[leaf].columns
        before = sum(bool(node.columns & bit) for node in nodes.values())
        needed = behind(written.made, [end.node for end in ends if type(end) is Ref])
        gain = 1.0 - sum(bool(written.made[number].columns & bit) for number in needed) / before
        if gain > gained:
            best, gained = written, gain
    return best
