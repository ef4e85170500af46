"""Say which values a search tries: what an engine lets its users choose, and numbers that divide what they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.search.planning.rows import divisors, doublings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.spec.engine.ranks import LayoutChoices
    from roofsim.spec.resolve import Resolved

#: The key of a scenario's engine.
ENGINE: Final = "workload.engine"
#: Tokens that a context rank has at least.
_LEAST_TOKENS: Final = 1024
#: Divisors of a batch that are all tried; of more, powers of two.
_MOST_DIVISORS: Final = 12
#: Samples of a micro batch of a stack of layers.
_MOST_SAMPLES: Final = 64
#: What a search tries only where it is asked to: name -> what that is.
ALSO: Final = {
    "recompute-counts": "recomputation of the first 1, 2, 4 ... layers of a stage",
    "offload": "parts of the state on the host, where the engine keeps them there",
    "options": "switches of the engine for overlap, fusion and launches (`layouts.options`)",
}

#: What a search for servers that keep bounds on latencies tries only where it is asked to.
ALSO_SERVED: Final = {
    "pipeline": "replicas of 2 and 4 pipeline stages",
    "disaggregation": "prompts and decode steps on workers of their own, in several proportions",
}


def check_also(names: Iterable[str], known: Iterable[str], of: str) -> None:
    """Refuse what is not tried in a search of this kind; `of` says which others try it.

    Raises
    ------
    SpecError
        For such a name.
    """
    for name in names:
        if name not in known:
            hint = f"This search tries {', '.join(known) or 'nothing beside the usual'}."
            raise SpecError(Problem(f"{name} is tried {of} alone", Place("--also"), hint=hint))


def words_of(resolved: Resolved, also: Sequence[str], *, trains: bool) -> dict[str, list[Any]]:
    """Return the axes of words: what the engine lets users choose, and of `ALSO` what is asked for."""
    if not trains:
        return {}
    choices, model = resolved.engine.layouts, resolved.model
    node = max(int(resolved.places), 1)
    axes: dict[str, list[Any]] = {
        "workload.recompute": list(choices.recompute),
        "parallel.sharding": _shardings(choices, node),
    }
    if "pipeline" in choices.degrees and model.stacked:
        axes["parallel.schedule"] = list(choices.schedules)
        if choices.counted_ends:
            axes |= {f"parallel.account_for_{end}": [False, True] for end in ("embedding", "loss")}
    if choices.sequence and "tensor" in choices.degrees and model.splits_sequence and model.splits_tensor:
        axes["parallel.sequence"] = [False, True]
    return axes | _more(resolved, axes, also)


def _more(resolved: Resolved, axes: dict[str, list[Any]], also: Sequence[str]) -> dict[str, list[Any]]:
    """Return the axes that are tried only where they are asked for."""
    choices, engine, more = resolved.engine.layouts, resolved.engine.name, dict[str, list[Any]]()
    if "recompute-counts" in also and "full" in choices.recompute and resolved.model.stacked:
        counts = [{"policy": "full", "layers": layers} for layers in doublings(int(resolved.model.traits().depth) // 2)]
        more["workload.recompute"] = [*axes["workload.recompute"], *counts]
    if "offload" in also and choices.offload:
        more["parallel.offload"] = [{part: place} for part in choices.offload[:1] for place in ("none",)]
        more["parallel.offload"] += [{part: "host"} for part in choices.offload]
    missing = [option for option in choices.options if option not in engine.split("+")]
    if "options" in also and missing:
        each = [f"{engine}+{option}" for option in missing]
        more[ENGINE] = [engine, *each, *(["+".join([engine, *missing])] if len(missing) > 1 else [])]
    return more


def _shardings(choices: LayoutChoices, node: int) -> list[Any]:
    values: list[Any] = []
    for name in choices.sharding:
        level, _, inside = name.partition("_")
        values += [{level: ranks} for ranks in divisors(node)[1:]] if inside else [name]
    return values


def numbers_of_layouts(resolved: Resolved, gpus: Sequence[int], batch: int, *, trains: bool) -> dict[str, list[Any]]:
    """Return the axes of numbers: divisors of what they divide."""
    choices, model, traits = resolved.engine.layouts, resolved.model, resolved.model.traits()
    degrees = set(choices.degrees)
    node, depth = max(int(resolved.places), 1), int(traits.depth)
    shared = sorted({each for number in gpus for each in divisors(number)})
    axes: dict[str, list[Any]] = {"hardware.gpus": sorted(gpus)}
    if model.splits_tensor and "tensor" in degrees:
        axes["parallel.tensor"] = [each for each in shared if each <= node]
    if model.stacked and "pipeline" in degrees:
        axes["parallel.pipeline"] = [each for each in shared if each <= depth + 2]
        if trains and "virtual_stages" in degrees:
            axes["parallel.virtual_stages"] = _chunks(depth, axes["parallel.pipeline"], counted=choices.counted_ends)
    length = _length(resolved)
    if model.splits_sequence and "context" in degrees and length is not None:
        most = max(length // _LEAST_TOKENS, 1)
        axes["parallel.context"] = [each for each in doublings(most) if each in shared]
    if traits.experts and "expert" in degrees:
        axes["parallel.expert"] = [each for each in divisors(int(traits.experts)) if each in shared]
        if trains and "expert_tensor" in degrees and "parallel.tensor" in axes:
            axes["parallel.expert_tensor"] = list(axes["parallel.tensor"])
    return axes | {"workload.micro_batch_size": _micro_batches(batch, trains=trains, stacked=model.stacked)}


def _length(resolved: Resolved) -> int | None:
    """Return the tokens of a sequence that context ranks may share."""
    workload = resolved.workload
    if workload.phase in ("train", "forward"):
        return workload.sequence_length
    return workload.prompt_length if workload.phase == "prefill" else None


def _chunks(depth: int, pipelines: Sequence[int], *, counted: bool) -> list[int]:
    """Return the chunks per stage that some pipeline deals layers out to evenly."""
    sizes = range(depth, depth + (3 if counted else 1))
    known = {
        size // stages // each
        for size in sizes
        for stages in pipelines
        if size % stages == 0 and stages > 1
        for each in divisors(size // stages)
    }
    return sorted({1, *known} - {0})


def _micro_batches(batch: int, *, trains: bool, stacked: bool) -> list[int]:
    if not trains:
        return divisors(batch)  # one for each number of replicas
    known = [each for each in divisors(batch) if each <= _MOST_SAMPLES or not stacked]
    return known if len(known) <= _MOST_DIVISORS else [each for each in known if math.log2(each).is_integer()]
