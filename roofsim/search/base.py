"""Find what is wrong with the scenario of a sweep itself: at every point, whatever the axes say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, RoofsimError, SpecError, UnknownNameError
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.workload import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.search.axes import AxisGrid
    from roofsim.search.resolving import SharedResolver


def check_base(resolver: SharedResolver, space: AxisGrid) -> None:
    """Check those keys of a scenario that are wrong by themselves and that no axis replaces: names, types, the model.

    Raises
    ------
    SpecError
        With all of them.
    """
    document = resolver.document
    problems: list[Problem] = []
    try:
        validate(Scenario, document, si=resolver.si)
    except SpecError as error:
        problems += error.problems
    unknown = resolver.wrong_names()
    problems = [problem for problem in (*problems, *unknown) if not _is_swept(problem.path, space)]
    given = document.data.get("model") if isinstance(document.data, dict) else None
    if isinstance(given, str | dict) and not _is_swept("model", space):
        try:
            resolver.model(given)
        except UnknownNameError as error:
            unknown += error.problems
            problems += error.problems
        except SpecError as error:
            problems += error.problems
    if problems:
        raise (UnknownNameError if all(problem in unknown for problem in problems) else SpecError)(problems)


def check_refused(run: Callable[[], object], reasons: Iterable[str], space: AxisGrid) -> None:
    """Check whether points that are all refused are so because the scenario without the axes is wrong.

    What breaks a rule is not wrong, but not possible: the points say so.

    Parameters
    ----------
    run
        Answers that scenario.
    reasons
        What is wrong with each point.

    Raises
    ------
    RoofsimError
        That of the scenario, if each point has it; of several problems those that each point has.
    """
    try:
        run()
    except SpecError as error:
        shared = [problem for problem in error.problems if not problem.code and not _is_swept(problem.path, space)]
        for reason in reasons:
            shared = [problem for problem in shared if SpecError(problem).reason in reason]
            if not shared:
                break
        if not shared:
            return
        raise (error if len(shared) == len(error.problems) else SpecError(shared)) from None
    except RoofsimError as error:
        if all(reason == error.reason for reason in reasons):
            raise


def _is_swept(path: str, space: AxisGrid) -> bool:
    """Tell whether an axis gives the value at a key path, a part of it, or the section that it is in."""
    keys = (".".join(axis.path) for axis in space.axes)
    return any(f"{key}.".startswith(f"{path}.") or f"{path}.".startswith(f"{key}.") or not path for key in keys)
