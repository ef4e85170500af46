"""Say whether a newer scenario is better or worse than an older one, within what is allowed, or that nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.decide.whatif import ChangedScenario

#: What a comparison comes to, the worst first, and the exit code of each.
WORSE, NO_VERDICT, UNDECIDED, BETTER = "worse", "none", "undecided", "better"
EXIT_CODES: Final = {WORSE: 3, NO_VERDICT: 5, UNDECIDED: 4, BETTER: 0}
#: What may grow by no more than is allowed: seconds and dollars for the same work, bytes of device memory.
GATED: Final = ("time", "memory", "cost")
#: Ratios that are the same.
_SAME: Final = 1e-9


def read_allowed(text: str | float | Mapping[str, float] | None) -> dict[str, float]:
    """Return by what share each figure may grow: ``3%`` of all of them, or ``time=3%,memory=10%``; time alone, by nothing, if None.

    Raises
    ------
    SpecError
        For an unknown figure, and what is no share.

    >>> read_allowed("3%"), read_allowed("time=3%,memory=0.1")
    ({'time': 0.03, 'memory': 0.03, 'cost': 0.03}, {'time': 0.03, 'memory': 0.1})
    """
    if text is None:
        return {"time": 0.0}
    if isinstance(text, int | float):
        return dict.fromkeys(GATED, _share(str(text)))
    if not isinstance(text, str):
        return {_figure(name): _share(str(value)) for name, value in text.items()}
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and "=" not in parts[0]:
        return dict.fromkeys(GATED, _share(parts[0]))
    allowed = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            message = f"expected FIGURE=SHARE, such as time=3%; got {part[:60]!r}"
            raise SpecError(Problem(message, Place("--fail-over")))
        allowed[_figure(name.strip())] = _share(value.strip())
    return allowed


def _figure(name: str) -> str:
    if name not in GATED:
        raise SpecError(Problem(f"unknown figure {name[:60]!r}", Place("--fail-over"), hint=did_you_mean(name, GATED)))
    return name


def _share(text: str) -> float:
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < float("inf"):
        message = f"expected a share of zero or more, such as 3% or 0.03; got {text[:60]!r}"
        raise SpecError(Problem(message, Place("--fail-over")))
    return share


def verdict_of(
    outcome: ChangedScenario, memory: tuple[float, float], fits: tuple[bool, bool], allowed: Mapping[str, float]
) -> str:
    """Return ``worse``, ``undecided`` or ``better`` (which also is: no worse than is allowed); ``none`` where nothing is known.

    Parameters
    ----------
    outcome
        The newer scenario against the older one: the ratio of its speeds and its interval, the ratio of its costs.
    memory, fits
        Bytes of the device before and after, and whether they fit.
    allowed
        Figure -> by what share it may grow. It is worse where the whole interval is beyond no change, undecided where the
        interval includes it.
    """
    if outcome.result is None or outcome.ratio is None:
        return NO_VERDICT
    said = [WORSE] if fits[0] and not fits[1] else []
    if "memory" in allowed and memory[1] > memory[0] * (1.0 + allowed["memory"] + _SAME):
        said.append(WORSE)
    for name, growth in (("time", 1.0 / outcome.ratio), ("cost", outcome.cost_ratio)):
        if name not in allowed or growth is None or growth <= 1.0 + allowed[name] + _SAME:
            continue
        least = growth if outcome.interval is None else growth * outcome.ratio / outcome.interval[1]
        said.append(WORSE if least > 1.0 else UNDECIDED)
    return next((one for one in (WORSE, UNDECIDED) if one in said), BETTER)
