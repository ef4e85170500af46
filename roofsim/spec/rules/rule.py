"""State a condition on a scenario once, for one point as for many: one that breaks it is refused with a code and a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from roofsim.errors import Problem, SpecError
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.model.traits import Traits
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.point import Point
    from roofsim.spec.scenario.workload import Parallel, Workload


@dataclass(frozen=True, kw_only=True)
class LayoutCase:
    """What rules on degrees alone look at: numbers, and the words of a layout."""

    point: Point
    parallel: Parallel


@dataclass(frozen=True, kw_only=True)
class ScenarioCase(LayoutCase):
    """What rules look at: the numbers of a scenario (or of several), its words, its model and its engine.

    Of `parallel` and `workload` only the words count: their numbers stand in `point`.
    """

    workload: Workload
    model: ModelSpec
    traits: Traits
    engine: Engine


C = TypeVar("C")


@dataclass(frozen=True)
class Rule(Generic[C]):
    """One reason to refuse a scenario.

    Attributes
    ----------
    code
        Names it in tables.
    path
        The key that is wrong.
    broken
        Whether a case breaks it: a bool, or an array of them where the case has numbers of several points. It must not raise on
        points that break an earlier rule; what it says of these is not looked at.
    says
        What is wrong, and the way out, of a case with the numbers of one point that breaks it.
    """

    code: str
    path: str
    broken: Callable[[C], Any]
    says: Callable[[C], tuple[str, str]]

    def problem(self, case: C, document: Document) -> Problem:
        """Return what to say of one point that breaks it."""
        message, hint = self.says(case)
        return Problem(message, document.place(tuple(self.path.split("."))), self.path, hint, self.code)


def where_so(condition: Any, then: Callable[[], Any]) -> Any:
    """Return ``condition & then()``; nothing is asked where the condition is plainly false.

    >>> where_so(False, lambda: 1 / 0), where_so(True, lambda: 2 > 1)
    (False, True)
    """
    return False if condition is False else condition & then()


class Checks:
    """Hold one scenario against rules: the first that it breaks is an error.

    Attributes
    ----------
    document
        Where the scenario is written.
    quiet
        Whether nobody asks for notes and warnings.
    """

    quiet = False

    def __init__(self, document: Document) -> None:
        self.document = document

    def hold(self, rules: Iterable[Rule[C]], case: C) -> None:
        """Refuse a case that breaks a rule.

        Raises
        ------
        SpecError
            What the first broken rule says.
        """
        for rule in rules:
            if rule.broken(case):
                raise SpecError(rule.problem(case, self.document))
