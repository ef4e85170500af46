"""Unfold a figure of a result: the formula, what goes into it, and down to constants and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.explained_figures import (
    constants_of,
    interval_figure,
    memory_figure,
    money_figure,
    parameters_figure,
    plain_figure,
    unit_of,
    work_figure,
)
from roofsim.analyze.explained_ops import class_named, classes_of, longest_ops, op_named
from roofsim.analyze.explanation import Explanation, figure_text, of_seconds, seconds_text
from roofsim.analyze.ops import op_table
from roofsim.analyze.shares import made_of
from roofsim.cost.kernels.roofline import BOUNDS
from roofsim.errors import Problem, UnknownNameError, did_you_mean
from roofsim.graph.base import Phase
from roofsim.numeric import is_scalar

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation

#: Units of sections of the result whose figures are all of one kind.
_UNITS: Final = {"time": "s", "waits": "s", "latency": "s", "memory": "B"}
#: Sections whose own explanation shows all that they hold.
_WRITTEN_OUT: Final = ("work", "memory", "memory.components", "parameters")
#: Ops that are listed of what a part of the time goes to.
_CAUSED: Final = 12


def explain(evaluation: Evaluation, result: Result, figure: str) -> Explanation:
    """Unfold a key of the result (``step_time``, ``memory.peak`` ...), an op by name, a class of ops (``matmul``) or a wait.

    Raises
    ------
    UnknownNameError
        With near matches.
    """
    op = op_named(evaluation, figure)
    if op is not None:
        return op
    data = result.to_dict()
    if figure.split(".", maxsplit=1)[0] not in data and is_scalar(result.step_time):
        group = class_named(evaluation, figure)
        if group is not None:
            return group
    value = _lookup(data, figure, evaluation)
    head = figure.split(".", maxsplit=1)[0]
    if head in ("step_time", "time", "waits", "throughput", "latency"):
        root = _time(evaluation, result, figure, value)
    elif head == "memory":
        root = memory_figure(evaluation, result, figure, value)
    elif head in ("mfu", "hfu", "model_flops", "hardware_flops", "work", "utilization"):
        root = work_figure(evaluation, result, figure, value)
    elif head == "parameters":
        root = parameters_figure(evaluation, figure, value)
    elif head == "cost":
        root = money_figure(result, figure, value)
    else:
        root = (interval_figure if head == "step_time_interval" else plain_figure)(result, figure, value)
    if isinstance(value, dict) and figure not in _WRITTEN_OUT:
        root.value = ""
        root.parts = [*_members(value, _UNITS.get(head, "")), *root.parts]
    return root


def _members(section: dict[str, Any], unit: str) -> list[Explanation]:
    """Return the figures of a section of the result, one part each; those that the scenario has no use for are left out."""
    parts = []
    for key, item in section.items():
        if isinstance(item, dict):
            parts.append(Explanation(key, "", parts=_members(item, unit)))
        elif item is not None:
            parts.append(Explanation(key, figure_text(item, unit or unit_of(key))))
    return parts


def _lookup(data: dict[str, Any], figure: str, evaluation: Evaluation) -> Any:
    at: Any = data
    for part in figure.split("."):
        if not isinstance(at, dict) or part not in at:
            known = [*_keys(data), *classes_of(evaluation)]
            raise UnknownNameError(
                Problem(f"there is no figure or op {figure[:80]!r}", hint=did_you_mean(figure, known))
            )
        at = at[part]
    return at


def _keys(data: dict[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for key, value in data.items():
        if key in ("scenario", "provenance", "schema", "assumed", "warnings"):
            continue
        keys.append(f"{prefix}{key}")
        if isinstance(value, dict):
            keys += _keys(value, f"{prefix}{key}.")
    return keys


def _time(evaluation: Evaluation, result: Result, figure: str, value: Any) -> Explanation:
    """Time is a sum over ops and waits; how long the kernels take is a soft maximum of device, power and host."""
    head = figure.split(".", maxsplit=1)[0]
    root = Explanation(figure, figure_text(value, "s" if head != "throughput" else ""))
    root.formula = {
        "step_time": "kernels + waits",
        "throughput": "what a step handles / step_time",
    }.get(head, "a part of step_time, or of the passes that make it")
    made = _step(evaluation)
    if figure == "step_time":
        root.seconds, root.parts = made.seconds, made.parts
    else:
        cause = figure.rpartition(".")[2] if head == "time" and "." in figure else ""
        root.parts = [*_caused(evaluation, cause), made]
    root.parts = [*root.parts, _limits(evaluation), constants_of(result)]
    return root


def _step(evaluation: Evaluation) -> Explanation:
    """Unfold a step into the kernels of a rank and what else it waits for."""
    table = op_table(evaluation)
    ops = [row for row in table.rows if row["kind"] == "op"]
    seconds = sum(row["time"] for row in ops)
    kernels = of_seconds("kernels", seconds, "sum over ops of (time of one launch x launches in a step)")
    kernels.parts = longest_ops(evaluation, ops)
    root = of_seconds("step", table.total["time"], "; ".join(table.notes))
    root.parts = [kernels]
    root.parts += [of_seconds(row["name"], row["time"]) for row in table.rows if row["kind"] == "wait"]
    return root


def _limits(evaluation: Evaluation) -> Explanation:
    """Say how long device, power and host would take alone."""
    step, resolved = evaluation.step, evaluation.resolved
    host = evaluation.device.host
    forward, backward, update = (seconds_text(float(each)) for each in (host.call, host.backward, host.issue))
    root = Explanation(
        "limits", "", "device, power and host overlap: the slowest sets the pace, with a soft corner (a soft maximum)"
    )
    root.parts = [
        Explanation("device time", seconds_text(float(step.device)), "kernels at full clock, and what they wait for"),
        Explanation(
            "power",
            seconds_text(float(step.power)),
            "energy of FLOPs and bytes / the card's power; what it adds belongs to kernels by the energy that they draw",
            resolved.constants.sources.get("energy", ""),
        ),
        Explanation(
            "host time",
            seconds_text(float(step.host)),
            f"kernels x {forward} in a forward pass, x {backward} in a backward pass, x {update} in an update (engine "
            f"{resolved.engine.name}, system {resolved.system.name} factor {resolved.system.host.issue_factor:g})",
            resolved.engine.source("host_call_time") or resolved.constants.physics.constants["host_call_time"].source,
        ),
    ]
    return root


def _caused(evaluation: Evaluation, cause: str) -> list[Explanation]:
    """Return the ops whose kernels wait longest for a resource, at full clock: the power limit stretches them."""
    if cause not in (*BOUNDS, "optimizer"):
        return []
    seconds: dict[str, float] = {}
    for part in made_of(evaluation).parts:
        for cost, times, lasting in part.kernels():
            updates = cost.op.phase is Phase.OPTIMIZER
            if updates == (cause == "optimizer"):
                own = lasting if updates else part.over(getattr(cost, cause) * cost.op.count) * times
                label = cost.op.name
                seconds[label] = seconds.get(label, 0.0) + own
    longest = sorted(seconds.items(), key=lambda one: -one[1])[:_CAUSED]
    root = Explanation("ops", "", "those whose kernels spend most on it at full clock; power stretches what draws it")
    root.parts = [Explanation(name, seconds_text(own)) for name, own in longest if own > 0.0]
    return [root]
