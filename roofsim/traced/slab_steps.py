"""Do operations on the single numbers of a slab's points, one after the other, with numpy: each term of a sum as it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.traced.scalars import Sym, weighted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def order_of(nodes: Sequence[Any], results: Iterable[Any], given: set[int]) -> list[tuple[Any, ...]]:
    """Return what is done in turn: ``("call", number, function, arguments)``, and each term of a sum when it is there."""
    order: list[tuple[Any, ...]] = []
    done = set(given)

    def visit(number: Any) -> None:
        if type(number) is not Sym or number in done:
            return
        node = nodes[number]
        if node.function is weighted:
            terms = zip(node.arguments[::2], node.arguments[1::2], strict=True)
            for place, (value, coefficient) in enumerate(terms):
                visit(value)
                order.append(("add", int(number), value, coefficient, place == 0))
        else:
            for one in node.arguments:
                visit(one)
            order.append(("call", int(number), node.function, node.arguments))
        done.add(number)

    for one in results:
        visit(one)
    return order


def steps_of(order: Sequence[tuple[Any, ...]], results: Iterable[Any], given: set[int]) -> list[Any]:
    """Return what is done in turn as functions of the numbers that are there."""
    used = [{int(one) for one in (step[2:3] if step[0] == "add" else step[3]) if type(one) is Sym} for step in order]
    last = {one: place for place, own in enumerate(used) for one in own}
    kept = {int(one) for one in results if type(one) is Sym}
    steps: list[Any] = []
    for place, step in enumerate(order):
        free = tuple(one for one in used[place] if last[one] == place and one not in kept)
        own = frozenset(one for one in free if one not in given)
        make: Any = _adding if step[0] == "add" else _calling
        steps.append(make(*step[1:], free, own))
    return steps


def _adding(number: int, value: Any, coefficient: float, first: bool, free: Any, own: Any) -> Any:
    slot = int(value) if type(value) is Sym else None

    def step(at: dict[int, Any]) -> None:
        term = value if slot is None else at[slot]
        if coefficient != 1.0:
            term = np.multiply(term, coefficient, out=term) if slot in own else term * coefficient
        if first:
            at[number] = term if slot is None or slot in own or coefficient != 1.0 else np.array(term)
        else:
            total = at[number]
            if np.shape(total) == np.broadcast_shapes(np.shape(total), np.shape(term)) and np.ndim(total):
                np.add(total, term, out=total)
            else:
                at[number] = total + term
        for one in free:
            del at[one]

    return step


def _calling(number: int, function: Any, arguments: tuple[Any, ...], free: Any, own: Any) -> Any:
    slots = tuple((type(one) is Sym, int(one) if type(one) is Sym else one) for one in arguments)
    into = slots[0][1] if function is np.power and slots[0][1] in own else None

    def step(at: dict[int, Any]) -> None:
        given = [at[one] if is_slot else one for is_slot, one in slots]
        at[number] = function(*given) if into is None else function(*given, out=at[into])
        for one in free:
            del at[one]

    return step
