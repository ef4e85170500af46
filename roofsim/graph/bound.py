"""Hold graphs whose sizes come of a trace: made of the structure that was built once, and of the numbers of one scenario."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from roofsim.errors import RoofsimError
from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.recipe import Recipe
from roofsim.graph.tensor import Tensor
from roofsim.symbols import NumberTrace, UntracedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

#: What code raises that cannot go on with a symbol.
UNTRACED: Final = (UntracedError, TypeError, ValueError, AttributeError, RoofsimError, ArithmeticError)
#: Ways that decisions about a graph of a template were found to go; with more, each asks anew.
_MOST_WAYS: Final = 4


class Template:
    """A program that was built of symbols, from which those of other numbers are made.

    Parameters
    ----------
    make
        Builds it of numbers, in the order in which `of` takes them.
    numbers
        Those that it is built of first.
    fixed
        How many of these, the first, must be the same next time.

    Raises
    ------
    UntracedError
        And others of `UNTRACED`: where the code that builds it needs more than a symbol knows.
    """

    def __init__(self, make: Callable[[list[Any]], Any], numbers: Sequence[Any], fixed: int = 0) -> None:
        self.trace = NumberTrace()
        given = [self.trace.given(number) for number in numbers]
        made = make([*(number.settled() for number in given[:fixed]), *given[fixed:]])
        self.trace.close()
        self.slots = len(self.trace.values)
        self._outer = Recipe([made], self.slots, apart=(OpGraph,))
        self.graphs: list[OpGraph] = self._outer.left
        self._inner: Recipe | None = None
        self._lock = RLock()
        self._said: dict[tuple[int, str], list[tuple[NumberTrace, Recipe]]] = {}
        self._unsaid: set[tuple[int, str]] = set()

    def of(self, numbers: Sequence[Any]) -> Any:
        """Return the program of other numbers; None: code would have decided otherwise on the way to it."""
        values = self.trace.replayed(numbers)
        if values is None:
            return None
        binding = _Binding(self, values)
        return self._outer.make(values, [BoundGraph(binding, place) for place in range(len(self.graphs))])[0]

    def ops(self, values: list[Any]) -> list[Any]:
        """Return the ops of each graph."""
        with self._lock:
            if self._inner is None:
                self._inner = Recipe([graph.ops for graph in self.graphs], self.slots)
        return self._inner.make(values)

    def said(self, place: int, name: str, ask: Callable[[OpGraph], Any], values: list[Any]) -> Any:
        """Return what a function says of a graph, by the numbers alone; None: it has to be asked."""
        with self._lock:
            ways = self._said.setdefault((place, name), [])
            for trace, recipe in ways:
                more = trace.continued(values)
                if more is not None:
                    return recipe.make(more)[0]
            if len(ways) >= _MOST_WAYS or (place, name) in self._unsaid:
                return None
            try:
                ways.append(self._asked(self.graphs[place], ask, values))
            except UNTRACED:
                self._unsaid.add((place, name))
                return None
            trace, recipe = ways[-1]
            return recipe.make(trace.values)[0]

    def _asked(self, graph: OpGraph, ask: Callable[[OpGraph], Any], values: list[Any]) -> tuple[NumberTrace, Recipe]:
        """Ask a function about the graph of symbols, which stand for these values."""
        trace = self.trace.head = NumberTrace(self.trace, values)
        try:
            answer = ask(graph)
        finally:
            self.trace.head = self.trace
        recipe = Recipe([answer], len(trace.values), apart=(OpGraph, AbstractOp, Tensor, Block))
        if recipe.left:
            raise UntracedError("an answer that names parts of the graph")
        trace.close()
        return trace, recipe


class _Binding:
    """The values of one scenario for a template, and the ops of its graphs once somebody asks for them."""

    def __init__(self, template: Template, values: list[Any]) -> None:
        self.template, self.values = template, values
        self._lock = RLock()
        self._ops: list[Any] | None = None

    def ops(self, place: int) -> Any:
        """Return the ops of a graph."""
        with self._lock:
            if self._ops is None:
                self._ops = self.template.ops(self.values)
            return self._ops[place]


class BoundGraph(OpGraph):
    """A graph whose ops are made when somebody asks for them, all graphs' of its program at once."""

    def __init__(self, binding: _Binding, place: int) -> None:
        self._binding, self._place = binding, place
        self.facts = binding.template.graphs[place].facts

    @cached_property
    def ops(self) -> Any:  # type: ignore[override]
        """The ops in program order."""
        return self._binding.ops(self._place)

    def __len__(self) -> int:
        return len(self._binding.template.graphs[self._place].ops)

    def once(self, name: str, ask: Callable[[OpGraph], T]) -> T:
        """Return what a function says of the graph: by its numbers alone where it was asked of others like it."""
        if name not in self.kept:
            said = self._binding.template.said(self._place, name, ask, self._binding.values)
            self.kept[name] = ask(self) if said is None else said
        known: T = self.kept[name]
        return known
