"""Name the options of each verb: as the Python function takes them, as the command line writes them, and of what form they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Longest text and longest list of an option.
LONGEST_TEXT: Final = 2_000
MOST_ITEMS: Final = 1_000


@dataclass(frozen=True)
class VerbOption:
    """An option of a verb.

    Attributes
    ----------
    name
        What the Python function calls it.
    form
        ``text`` (a text or a number), ``number``, ``whole``, ``switch``, ``texts`` (one or several), ``joined`` (the same, in
        one text with commas), ``axes`` (key -> values) or ``amounts`` (name -> a text or a number).
    flag
        What the command line calls it; without one its texts stand alone.
    alone
        Whether a key that it gives values of may not be stated beside it.
    """

    name: str
    form: str
    flag: str | None
    alone: bool = False


_BOUNDS: Final = (
    VerbOption("ttft", "text", "--ttft"),
    VerbOption("tpot", "text", "--tpot"),
    VerbOption("percentile", "number", "--percentile"),
)

#: How much work there is, for what the whole of it takes.
_JOB: Final = tuple(
    VerbOption(name, "text", f"--{name.replace('_', '-')}")
    for name in ("tokens", "samples", "epochs", "eval_samples", "eval_every", "pue", "carbon")
)

#: Verb -> what it takes beside the scenario.
TAKEN: Final[dict[str, tuple[VerbOption, ...]]] = {
    "run": _JOB,
    "compare": (
        VerbOption("gpus", "texts", None),
        VerbOption("sort", "text", "--sort"),
        VerbOption("prices", "amounts", "--price"),
    ),
    "fit": (
        VerbOption("largest", "text", "--largest"),
        VerbOption("fewest", "text", "--fewest"),
        VerbOption("family", "text", "--family"),
    ),
    "memory": (
        VerbOption("by", "text", "--by"),
        VerbOption("tensor", "text", "--tensor"),
        VerbOption("curve", "switch", "--curve"),
        VerbOption("top", "whole", "--top"),
    ),
    "serve": (
        *_BOUNDS,
        VerbOption("axes", "axes", "--axis"),
        VerbOption("top", "whole", "--top"),
        VerbOption("simulated", "switch", "--simulate"),
    ),
    "sweep": (
        VerbOption("axes", "axes", "--axis", alone=True),
        VerbOption("figures", "joined", "--figure"),
    ),
    "plan": (
        VerbOption("gpus", "joined", "--gpus"),
        VerbOption("gpu", "joined", "--gpu"),
        VerbOption("objective", "text", "--objective"),
        VerbOption("constraints", "texts", "--constraint"),
        VerbOption("axes", "axes", "--axis"),
        VerbOption("fixed", "texts", "--fix"),
        VerbOption("also", "texts", "--also"),
        VerbOption("top", "whole", "--top"),
        VerbOption("robust", "switch", "--robust"),
        *_BOUNDS,
    ),
    "advise": (),
    "whatif": (
        VerbOption("changes", "texts", "--set"),
        VerbOption("also", "texts", "--also"),
        VerbOption("each", "switch", "--each"),
        VerbOption("by", "text", "--by"),
    ),
    "need": (
        VerbOption("step_time", "text", "--step-time"),
        VerbOption("tokens_per_second", "text", "--tokens-per-second"),
        VerbOption("time_to_first_token", "text", "--time-to-first-token"),
        VerbOption("cost", "text", "--cost"),
        VerbOption("days", "text", "--days"),
        VerbOption("tokens", "text", "--tokens"),
    ),
    "timeline": (),
    "explain": (VerbOption("figure", "text", None),),
}


def option_at(verb: str, source: str) -> str | None:
    """Return the option of a verb that the place of an error names; None where it names none.

    >>> option_at("sweep", "axis gpx"), option_at("compare", "cards"), option_at("whatif", "--set memory.bandwith")
    ('axes', 'gpus', 'changes')
    >>> option_at("run", "--gpu") is None
    True
    """
    said = source.partition(" ")[0]
    names = {word: one.name for one in TAKEN.get(verb, ()) for word in _words_for(one)}
    return names.get(said)


def _words_for(option: VerbOption) -> tuple[str, ...]:
    """Return how places of errors name an option: by its flag, or one without a flag by what it lists."""
    if option.flag is None:
        return (option.name, _LISTS.get(option.name, option.name))
    return (option.flag, option.flag.lstrip("-"))


#: Options without a flag -> what places of errors call them.
_LISTS: Final = {"gpus": "cards"}


def read_options(verb: str, given: Any) -> dict[str, Any]:
    """Return the options of a request that say something, each of the form that the verb's function takes.

    Raises
    ------
    SpecError
        For an option that the verb does not have, and for a value of another form.
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _wrong("expected a mapping of options", given, "options")
    taken = {each.name: each for each in TAKEN[verb]}
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in taken:
            hint = did_you_mean(name, taken) or f"{verb} has no options beside the scenario."
            raise SpecError(Problem(f"{verb} has no option {name[:80]!r}", Place("options"), name[:80], hint))
        if value is None or value in ("", [], {}):
            continue
        read[name] = _FORMS[taken[name].form](value, taken[name].flag or name)
    return read


def _text(value: Any, shown: str) -> str | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong("expected a text or a number", value, shown)
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise SpecError(Problem(f"has {len(value)} characters; at most {LONGEST_TEXT} are read", Place(shown)))
        return value
    return _finite(value, shown)


def _finite(value: float, shown: str) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong("expected a number", value, shown)
    return value


def _number(value: Any, shown: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("expected a number", value, shown)
    return _finite(value, shown)


def _whole(value: Any, shown: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**6:
        raise _wrong("expected a whole number from 1 to 1,000,000", value, shown)
    return value


def _switch(value: Any, shown: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong("expected true or false", value, shown)
    return value


def _texts(value: Any, shown: str) -> list[Any]:
    given = value if isinstance(value, list) else [value]
    if len(given) > MOST_ITEMS:
        raise SpecError(Problem(f"has {len(given)} entries; at most {MOST_ITEMS} are read", Place(shown)))
    return [_text(one, shown) for one in given]


def _joined(value: Any, shown: str) -> str:
    return ",".join(map(str, _texts(value, shown)))


def _axes(value: Any, shown: str) -> Any:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        from roofsim.search.written_axes import read_written_axes

        return read_written_axes([str(_text(one, shown)) for one in value], shown)
    if not isinstance(value, dict):
        raise _wrong("expected axes, such as {'parallel.tensor': [1, 2, 4]}", value, shown)
    for key, values in value.items():
        if not isinstance(values, list):
            raise _wrong("expected a list of values", values, f"{shown} {key[:80]}")
    return value


def _amounts(value: Any, shown: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("expected names with amounts, such as {'h100': 2.5}", value, shown)
    return {key: _text(one, shown) for key, one in value.items()}


def _wrong(expected: str, value: Any, shown: str) -> SpecError:
    return SpecError(Problem(f"{expected}; got {str(value)[:60]!r}", Place(shown)))


_FORMS: Final = {
    "text": _text,
    "number": _number,
    "whole": _whole,
    "switch": _switch,
    "texts": _texts,
    "joined": _joined,
    "axes": _axes,
    "amounts": _amounts,
}
