"""Read the scenario of a question: a mapping, the name of a model, or the text of a file; never a file of this machine."""

from __future__ import annotations

from typing import Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.spec.reading.source import DEEPEST, MOST_VALUES, Document, Path_, parse_yaml
from roofsim.spec.scenario.document import SECTIONS, load_scenario
from roofsim.web.command import FILE, flag_of, is_named, stated

#: Longest name of a model; a longer text, or one of several lines, is what a file holds.
_LONGEST_NAME: Final = 200


def read_scenario(verb: str, given: Any) -> Document:
    """Return the scenario of a question, with the places that the command line would name.

    Raises
    ------
    SpecError
        For what is none, and for what is nested or repeated beyond reason.
    """
    if isinstance(given, str):
        text = given.strip()
        if not text:
            raise SpecError(Problem("expected a scenario; got nothing", path="model"))
        if "\n" in text or ":" in text or len(text) > _LONGEST_NAME:
            return load_scenario(parse_yaml(given, FILE), {})
        given = {"model": text}
    if not isinstance(given, dict):
        message = f"expected a scenario, as a mapping or as text; got {type(given).__name__}"
        raise SpecError(Problem(message, Place("scenario")))
    check_size(stated(given))
    named = is_named(given)
    source = str(given["model"]) if named else FILE
    places: dict[Path_, Place] = {
        (section, key): Place(flag_of(verb, section, key))
        for section in (SECTIONS if named else ())
        if isinstance(given.get(section), dict)
        for key in map(str, given[section])
    }
    return load_scenario(Document(given, source, places), {})


def check_size(data: Any) -> None:
    """Pass data that is as deep and as long as a scenario may be.

    Raises
    ------
    SpecError
        For any other.
    """
    count, level = 0, [data]
    for _ in range(DEEPEST + 1):
        count += len(level)
        if count > MOST_VALUES:
            raise SpecError(Problem(f"holds more than {MOST_VALUES} values", Place("scenario")))
        level = [
            below
            for each in level
            if isinstance(each, dict | list)
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise SpecError(Problem(f"is nested deeper than {DEEPEST} levels", Place("scenario")))
