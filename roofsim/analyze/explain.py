"""Unfold a figure of a result: the formula, what goes into it, and down to constants and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ops import op_table
from roofsim.analyze.printed import Printed
from roofsim.cost.kernels.models.streaming import unit_reach
from roofsim.cost.kernels.ops import kernels_of_all
from roofsim.errors import Problem, UnknownNameError, did_you_mean
from roofsim.graph.tensor import Role
from roofsim.numeric import is_scalar
from roofsim.records import dataclass, field
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp

#: How many ops of a sum are written out; the rest is one line.
SHOWN = 12
#: Units of sections of the result whose figures are all of one kind.
_UNITS: Final = {"time": "s", "waits": "s", "latency": "s", "memory": "B"}
#: Sections whose own explanation shows all that they hold.
_WRITTEN_OUT: Final = ("work", "memory", "memory.components", "parameters")


@dataclass(repr=False)
class Explanation(Printed):
    """A figure, how it is computed, and what it is computed from; `seconds` where parts of it are a sum of times."""

    title: str
    value: str
    formula: str = ""
    source: str = ""
    parts: list[Explanation] = field(default_factory=list)
    seconds: float | None = None

    def to_rows(self, above: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Return one flat row per line: its path, value, formula and source."""
        path = (*above, self.title)
        own = {
            "path": " / ".join(path),
            "depth": len(above),
            "title": self.title,
            "value": self.value,
            "formula": self.formula,
            "source": self.source,
        }
        return [own, *(row for part in self.parts for row in part.to_rows(path))]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "title": self.title,
            "value": self.value,
            "formula": self.formula,
            "source": self.source,
            "seconds": self.seconds,
            "parts": [part.to_dict() for part in self.parts],
        }


def explain(evaluation: Evaluation, result: Result, figure: str) -> Explanation:
    """Unfold a key of the result (``step_time``, ``memory.peak``, ``work.forward.matmul.flops`` ...) or an op by name.

    Raises
    ------
    UnknownNameError
        With near matches.
    """
    for place, stage in enumerate(evaluation.program.stages):
        op = next((op for op in stage.graph if op.name == figure), None)
        if op is not None:
            return _op(evaluation, place, op)
    data = result.to_dict()
    value = _lookup(data, figure)
    head = figure.split(".", maxsplit=1)[0]
    if head in ("step_time", "time", "waits", "throughput", "latency"):
        root = _time(evaluation, result, figure, value)
    elif head in ("memory",):
        root = _memory(evaluation, result, figure, value)
    elif head in ("mfu", "hfu", "model_flops", "hardware_flops", "work", "utilization"):
        root = _flops(result, figure, value)
    elif head == "parameters":
        root = _parameters(evaluation, figure, value)
    else:
        root = (_interval if head == "step_time_interval" else _plain)(result, figure, value)
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
            parts.append(Explanation(key, _text(item, unit or _unit_of(key))))
    return parts


def _unit_of(key: str) -> str:
    if key.startswith("bytes"):
        return "B"
    if "flops" in key or key.endswith("peak"):
        return "FLOP/s" if "per_second" in key or key.endswith("peak") else "FLOP"
    return "s" if key == "time" else ""


def _lookup(data: dict[str, Any], figure: str) -> Any:
    at: Any = data
    for part in figure.split("."):
        if not isinstance(at, dict) or part not in at:
            known = _keys(data)
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


def _seconds(value: float) -> str:
    return humanize(value, "s", 4)


def _text(value: Any, unit: str = "") -> str:
    if isinstance(value, float) and unit:
        return humanize(value, unit, 4)
    if isinstance(value, list | tuple):
        return ", ".join(_text(item, unit) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _time(evaluation: Evaluation, result: Result, figure: str, value: Any) -> Explanation:
    """Time is a sum over ops and waits; how long the kernels take is a soft maximum of device, power and host."""
    head = figure.split(".", maxsplit=1)[0]
    root = Explanation(figure, _text(value, "s" if head != "throughput" else ""))
    root.formula = {
        "step_time": "kernels + waits",
        "throughput": "what a step handles / step_time",
    }.get(head, "a part of step_time, or of the passes that make it")
    made = _step(evaluation)
    if figure == "step_time":
        root.seconds, root.parts = made.seconds, made.parts
    else:
        root.parts = [made]
    root.parts = [*root.parts, _limits(evaluation), _constants(result)]
    return root


def _step(evaluation: Evaluation) -> Explanation:
    """Unfold a step into the kernels of a rank and what else it waits for."""
    table = op_table(evaluation)
    ops = [row for row in table.rows if row["kind"] == "op"]
    seconds = sum(row["time"] for row in ops)
    kernels = _of_seconds("kernels", seconds, "sum over ops of (time of one launch x launches in a step)")
    kernels.parts = _longest_ops(ops)
    root = _of_seconds("step", table.total["time"], "; ".join(table.notes))
    root.parts = [kernels]
    root.parts += [_of_seconds(row["name"], row["time"]) for row in table.rows if row["kind"] == "wait"]
    return root


def _of_seconds(title: str, seconds: float, formula: str = "") -> Explanation:
    return Explanation(title, _seconds(seconds), formula, seconds=seconds)


def _limits(evaluation: Evaluation) -> Explanation:
    """Say how long device, power and host would take alone."""
    step, resolved = evaluation.step, evaluation.resolved
    host = evaluation.device.host
    forward, backward, update = (_seconds(float(each)) for each in (host.call, host.backward, host.issue))
    root = Explanation(
        "limits", "", "device, power and host overlap: the slowest sets the pace, with a soft corner (a soft maximum)"
    )
    root.parts = [
        Explanation("device time", _seconds(float(step.device)), "kernels at full clock, and what they wait for"),
        Explanation(
            "power",
            _seconds(float(step.power)),
            "energy of FLOPs and bytes / the card's power; what it adds belongs to kernels by the energy that they draw",
            resolved.constants.sources.get("energy", ""),
        ),
        Explanation(
            "host time",
            _seconds(float(step.host)),
            f"kernels x {forward} in a forward pass, x {backward} in a backward pass, x {update} in an update (engine "
            f"{resolved.engine.name}, system {resolved.system.name} factor {resolved.system.host.issue_factor:g})",
            resolved.engine.source("host_call_time") or resolved.constants.physics.constants["host_call_time"].source,
        ),
    ]
    return root


def _longest_ops(rows: list[dict[str, Any]]) -> list[Explanation]:
    parts = [
        _of_seconds(
            row["name"],
            row["time"],
            f"{100 * row['share']:.1f} % of the step: {_launches(row['launches'])}, {humanize(row['executed_flops'], 'FLOP', 4)}, "
            f"{humanize(row['bytes'], 'B', 4)} in all"
            + (f"; bound by {row['bound'].replace('_', ' ')}" if row["bound"] else ""),
        )
        for row in rows[:SHOWN]
    ]
    if len(rows) > SHOWN:
        rest = sum(row["time"] for row in rows[SHOWN:])
        parts.append(_of_seconds(f"{len(rows) - SHOWN} other ops", rest, "`roofsim ops` lists them all"))
    return parts


def _launches(count: float) -> str:
    return f"{count:g} launch{'' if count == 1 else 'es'}"


def _constants(result: Result) -> Explanation:
    root = Explanation(
        "constants", f"{len(result.provenance)} numbers", "achieved rate = datasheet rate x achieved fraction"
    )
    root.parts = [Explanation(row["what"], str(row["value"]), "", row["source"]) for row in result.provenance]
    return root


def _op(evaluation: Evaluation, place: int, op: AbstractOp) -> Explanation:
    """One op of a stage: its work, the roofline of each kernel it launches, and what the power limit makes of it."""
    context = evaluation.priced[place].context
    root = Explanation(op.name, f"{type(op).__name__}, {op.phase}, runs {_text(op.count)} times per pass")
    root.parts.append(Explanation("FLOPs", _text(op.flops(), "FLOP"), _dimensions(op)))
    if _text(op.executed_flops()) != _text(op.flops()):
        root.parts.append(
            Explanation(
                "FLOPs executed", _text(op.executed_flops(), "FLOP"), "without masked scores; this sets the time"
            )
        )
    for name, tensors, amount in (
        ("bytes read", op.inputs, op.bytes_read()),
        ("bytes written", op.outputs, op.bytes_written()),
    ):
        parts = [Explanation(str(tensor), _text(tensor.bytes, "B"), str(tensor.root.role)) for tensor in tensors]
        root.parts.append(Explanation(name, _text(amount, "B"), "distinct tensors", parts=parts))
    root.parts += [_kernel(work, context.device) for _, work in kernels_of_all([op], context)]
    cost = next(one for one in evaluation.priced[place].per_op() if one.op is op)
    if is_scalar(cost.time, evaluation.step.step) and cost.time:
        alone, lasting = float(cost.time), float(cost.lasting(evaluation.own_step(place).stretch))
        text = f"{_seconds(alone)} at full clock, {_seconds(lasting - alone)} for the power that it draws"
        root.parts.append(Explanation("time of one launch", _seconds(lasting), text, seconds=lasting))
    return root


def _kernel(work: KernelWork, device: Device) -> Explanation:
    """One kernel: its roofline, the achieved fractions by name, and the level that they come from."""
    rate, drawn = work.flop_peak * work.compute_share, work.bandwidth_share * unit_reach(work.load)
    moved, source = device.bandwidth * drawn, f"stream x {work.bandwidth_key}"
    if work.limit < moved:
        moved, source = work.limit, "what the loads of its compute units draw at most, with this engine's kernels"
        drawn = moved / device.bandwidth
    arithmetic = f"{_text(work.flops, 'FLOP')} / {_text(rate, 'FLOP/s')}"
    tiled = () if work.product is None else (f"tiles and waves {_text(work.tiling)}",)
    traffic = f"{_text(work.traffic, 'B')} / {_text(moved, 'B/s')}"
    return Explanation(
        "kernel",
        f"norm({arithmetic}, {traffic}) + {_seconds(device.architecture.kernel_floor)}",
        f"{_text(work.compute_share)} of {_text(work.flop_peak, 'FLOP/s')} ({' x '.join((*work.compute_keys, *tiled))}); "
        f"{_text(drawn)} of {_text(device.bandwidth, 'B/s')} ({source}); "
        f"norm: power sum with exponent {device.constants.norm:g}",
        f"constants {device.level}: {device.constants.sources.get('compute', '')}",
    )


def _dimensions(op: AbstractOp) -> str:
    names = (
        "batch",
        "m",
        "n",
        "k",
        "heads",
        "q_length",
        "kv_length",
        "head_size",
        "in_channels",
        "out_channels",
        "groups",
        "rows",
        "experts",
    )
    dimensions = [f"{name}={_text(getattr(op, name))}" for name in names if hasattr(op, name)]
    return ", ".join(dimensions)


def _memory(evaluation: Evaluation, result: Result, figure: str, value: Any) -> Explanation:
    """Memory at the peak by category, and what stands behind each."""
    memory = result.memory
    root = Explanation(
        figure,
        _text(memory.device_total if isinstance(value, dict) else value, "B"),
        "live tensors at the peak (each rounded up to 512 B) + what the allocator reserves beyond them + the context",
    )
    notes = {
        "context": evaluation.resolved.architecture.sources.get("context", ""),
        "fragmentation": evaluation.resolved.engine.source("reserved_overhead"),
    }
    root.parts = [
        Explanation(name.replace("_", " "), _text(float(amount), "B"), "", notes.get(name, ""))
        for name, amount in memory.components.items()
    ]
    root.parts.append(Explanation("peak op", memory.peak_op, f"in the {memory.peak_phase} phase"))
    root.parts.append(
        Explanation(
            "saved activations",
            _text(float(memory.saved_activations), "B"),
            "storages that the forward pass makes and a backward op reads, each counted once",
        )
    )
    return root


def _flops(result: Result, figure: str, value: Any) -> Explanation:
    used = result.utilization
    peak = f"{_text(float(used.peak), 'FLOP/s')} dense {used.math} peak"
    formulas = {
        "mfu": f"model_flops / (step_time x {peak} x GPUs), without what Winograd's algorithm saves",
        "hfu": f"hardware_flops / (step_time x {peak} x GPUs)",
        "model_flops": "GEMMs, convolutions and attention products of forward and backward; a multiply-add is two FLOPs; "
        f"of the scores, those that the mask shows ({_text(float(used.usual), 'FLOP')} with the masked ones); no recomputation",
        "hardware_flops": "what the kernels run: like model_flops, plus recomputation, the scores that fused attention computes "
        "twice, and masked scores where a kernel does not skip them",
    }
    shown = "" if isinstance(value, dict) else _text(value, _unit_of(figure.rpartition(".")[2]))
    root = Explanation(figure, shown, formulas.get(figure, "" if figure.startswith("utilization") else "sum over ops"))
    for phase, classes in result.work.items():
        total = sum(float(row["flops"]) for row in classes.values())
        part = Explanation(phase, _text(total, "FLOP"))
        part.parts = [
            Explanation(name, _text(float(row["flops"]), "FLOP")) for name, row in classes.items() if row["flops"]
        ]
        root.parts.append(part)
    return root


def _parameters(evaluation: Evaluation, figure: str, value: Any) -> Explanation:
    shown = value["total"] if isinstance(value, dict) else value
    root = Explanation(figure, f"{shown:,.0f}", "sum over parameter tensors of elements x copies")
    rows = sorted(
        (
            (tensor, float(tensor.numel) * float(copies), float(copies))
            for tensor, copies in evaluation.program.stages[0].graph.parameters().items()
            if tensor.role is Role.PARAMETER
        ),
        key=lambda row: -row[1],
    )
    root.parts = [
        Explanation(str(tensor), f"{total:,.0f}", f"{copies:g} copies") for tensor, total, copies in rows[:SHOWN]
    ]
    if len(rows) > SHOWN:
        root.parts.append(
            Explanation(f"{len(rows) - SHOWN} other tensors", f"{sum(row[1] for row in rows[SHOWN:]):,.0f}")
        )
    return root


def _plain(result: Result, figure: str, value: Any) -> Explanation:
    formulas = {
        "elasticity": "d ln(step_time) / d ln(rate): the step is priced again with the rate changed by 0.01 %",
        "bound": "the resource with the largest elasticity, its rates together: 1 % more of it shortens the step most",
        "runner_up": "the first resource to take its place as it gets faster; headroom: how many times as fast it is by then",
        "cost": "hourly price x time, at the catalog's price of the date shown",
    }
    root = Explanation(figure, _text(value, ""), formulas.get(figure.split(".", maxsplit=1)[0], ""))
    root.parts.append(_constants(result))
    return root


def _interval(result: Result, figure: str, value: Any) -> Explanation:
    """Explain the interval by its terms."""
    how = "8 of 10 measured runs that no fit had seen lie inside; each term alone puts the ends so far, and they add in quadrature"
    rows = [row for row in result.provenance if row["what"].startswith("interval.")]
    terms = [Explanation(row["what"].partition(".")[2], str(row["value"]), source=row["source"]) for row in rows]
    return Explanation(figure, _text(value, "s"), how, parts=terms)
