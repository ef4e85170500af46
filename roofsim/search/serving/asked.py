"""Read which servers to try: keys with several values, as flags, axes or keywords have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.search.axes import key_path
from roofsim.search.written_axes import listed, read_written_axes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from roofsim.search.planning.space import Wish
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document

#: Ranks of a replica that are tried where nobody says which.
RANKS: Final = (1, 2, 4, 8)
#: Stages of a replica's pipeline that are tried where somebody asks for it.
STAGES: Final = (1, 2, 4)
#: Workers for prompts, and for decode steps, that are tried then; None: each worker does both.
WORKERS: Final = (None, (1, 1), (2, 1), (1, 2), (3, 1), (1, 3))
#: A key, its text and the flag that it came by.
Setting = tuple[str, str, str]


def split_flags(
    overrides: Iterable[Setting], axes: Iterable[str], target: LatencyTarget | None
) -> tuple[list[Setting], dict[str, list[Any]]]:
    """Return the settings with one value, and axes: those that are stated, and flags with several values.

    Raises
    ------
    SpecError
        For an axis that is wrong, one beside a flag of its key, or one without a bound on latencies.
    """
    single: list[Setting] = []
    several: list[str] = []
    for key, text, origin in overrides:
        if target is not None and (len(listed(text)) > 1 or _is_range(text)):
            several.append(f"{key}={text}")
        else:
            single.append((key, text, origin))
    stated = list(axes)
    if stated and target is None:
        hint = "Give --ttft, --tpot or both; `roofsim sweep` prices every point of axes without them."
        raise SpecError(Problem("servers are searched for bounds on latencies", Place("--axis"), hint=hint))
    return single, read_written_axes([*several, *stated])


def _is_range(text: str) -> bool:
    low, dots, high = text.partition("..")
    return bool(dots) and low.strip()[:1].isdigit() and high.strip()[:1].isdigit()


def planned_axes(document: Document, wish: Wish) -> dict[str, list[Any]]:
    """Return the axes of servers that a plan tries: cards, numbers of GPUs, ranks in a node, and those that are stated.

    Raises
    ------
    SpecError
        Where nothing is left to choose.
    """
    axes: dict[str, list[Any]] = {key: list(values) for key, values in wish.axes.items()}
    paths = {key_path(key, Place(f"axis {key}")) for key in axes}
    own: dict[str, list[Any]] = {"hardware.gpu": list(wish.cards), "hardware.gpus": list(wish.gpus)}
    if not document.states("parallel", "tensor") and "parallel.tensor" not in wish.fixed:
        own["parallel.tensor"] = list(RANKS)
    if "pipeline" in wish.also:
        own["parallel.pipeline"] = list(STAGES)
    if "disaggregation" in wish.also:
        own["workload.serving.disaggregated"] = [
            None if both is None else dict(zip(("prefill_workers", "decode_workers"), both, strict=True))
            for both in WORKERS
        ]
    axes |= {key: values for key, values in own.items() if values and tuple(key.split(".")) not in paths}
    if not axes:
        hint = "For example --gpu h100,h200 or --axis workload.precision=bf16,fp8."
        raise SpecError(Problem("there is nothing to choose between", path="plan", hint=hint))
    return axes


def split_keywords(
    overrides: Mapping[str, Any], axes: Mapping[str, Sequence[Any]] | None
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the keywords with one value, and axes: those that are given, and keywords that are lists."""
    single = {key: value for key, value in overrides.items() if not isinstance(value, list | tuple)}
    several = {key.replace("__", "."): list(value) for key, value in overrides.items() if key not in single}
    return single, several | {key: list(values) for key, values in (axes or {}).items()}
