"""Unfold figures of a result that are no times: memory, work, parameters, money, error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.explained_ops import SHOWN
from roofsim.analyze.explanation import Explanation, figure_text, seconds_text
from roofsim.analyze.money import JOULES_PER_KWH, MILLION, SECONDS_PER_HOUR
from roofsim.graph.tensor import Role
from roofsim.memory.inventory import inventory

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation


def memory_figure(evaluation: Evaluation, result: Result, figure: str, value: Any) -> Explanation:
    """Explain memory at the peak by category, and what stands behind each; a category by what is alive in it."""
    memory = result.memory
    last = figure.rpartition(".")[2]
    if last == "capacity":
        return _stated(evaluation, result, figure, figure_text(float(value), "B"))
    if figure.startswith("memory.components."):
        return _category(evaluation, figure, float(value))
    root = Explanation(
        figure,
        figure_text(memory.device_total if isinstance(value, dict) else value, "B"),
        "live tensors at the peak (each rounded up to 512 B) + what the allocator reserves beyond them + the context",
    )
    notes = {
        "context": evaluation.resolved.architecture.sources.get("context", ""),
        "fragmentation": evaluation.resolved.engine.source("reserved_overhead"),
    }
    root.parts = [
        Explanation(name.replace("_", " "), figure_text(float(amount), "B"), "", notes.get(name, ""))
        for name, amount in memory.components.items()
    ]
    root.parts.append(Explanation("peak op", memory.peak_op, f"in the {memory.peak_phase} phase"))
    root.parts.append(
        Explanation(
            "saved activations",
            figure_text(float(memory.saved_activations), "B"),
            "storages that the forward pass makes and a backward op reads, each counted once",
        )
    )
    return root


def work_figure(evaluation: Evaluation, result: Result, figure: str, value: Any) -> Explanation:
    """Explain FLOPs by phase and class of ops, and utilizations by FLOPs, the step and the peak."""
    used = result.utilization
    peak = f"{figure_text(float(used.peak), 'FLOP/s')} dense {used.math} peak"
    formulas = {
        "mfu": f"model_flops / (step_time x {peak} x GPUs), without what Winograd's algorithm saves",
        "hfu": f"hardware_flops / (step_time x {peak} x GPUs)",
        "model_flops": "GEMMs, convolutions and attention products of forward and backward; a multiply-add is two FLOPs; "
        f"of the scores, those that the mask shows ({figure_text(float(used.usual), 'FLOP')} with the masked ones); "
        "no recomputation",
        "hardware_flops": "what the kernels run: like model_flops, plus recomputation, the scores that fused attention computes "
        "twice, and masked scores where a kernel does not skip them",
    }
    shown = "" if isinstance(value, dict) else figure_text(value, unit_of(figure.rpartition(".")[2]))
    root = Explanation(figure, shown, formulas.get(figure, "" if figure.startswith("utilization") else "sum over ops"))
    if figure in ("mfu", "hfu"):
        root.parts += [
            of_figure(evaluation, result, "model_flops" if figure == "mfu" else "hardware_flops"),
            _step_part(result),
            _stated(evaluation, result, f"gpu.peak.{used.math}", figure_text(float(used.peak), "FLOP/s")),
        ]
        return root
    for phase, classes in result.work.items():
        total = sum(float(row["flops"]) for row in classes.values())
        part = Explanation(phase, figure_text(total, "FLOP"))
        part.parts = [
            Explanation(name, figure_text(float(row["flops"]), "FLOP")) for name, row in classes.items() if row["flops"]
        ]
        root.parts.append(part)
    return root


def parameters_figure(evaluation: Evaluation, figure: str, value: Any) -> Explanation:
    """Explain a count of parameters by the largest tensors."""
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


def interval_figure(result: Result, figure: str, value: Any) -> Explanation:
    """Explain the interval by its terms."""
    how = "8 of 10 measured runs that no fit had seen lie inside; each term alone puts the ends so far, and they add in quadrature"
    rows = [row for row in result.provenance if row["what"].startswith("interval.")]
    terms = [Explanation(row["what"].partition(".")[2], str(row["value"]), source=row["source"]) for row in rows]
    return Explanation(figure, figure_text(value, "s"), how, parts=terms)


def constants_of(result: Result) -> Explanation:
    """Return every number that a result rests on, with its source."""
    root = Explanation(
        "constants", f"{len(result.provenance)} numbers", "achieved rate = datasheet rate x achieved fraction"
    )
    root.parts = [Explanation(row["what"], str(row["value"]), "", row["source"]) for row in result.provenance]
    return root


def unit_of(key: str) -> str:
    """Return the unit of a figure by its name."""
    if key.startswith("bytes"):
        return "B"
    if "flops" in key or key.endswith("peak"):
        return "FLOP/s" if "per_second" in key or key.endswith("peak") else "FLOP"
    return "s" if key == "time" else ""


def of_figure(evaluation: Evaluation, result: Result, figure: str) -> Explanation:
    """Return the explanation of a count of FLOPs, as a part of another figure."""
    return work_figure(evaluation, result, figure, float(getattr(result, figure)))


def _step_part(result: Result) -> Explanation:
    return Explanation("step_time", seconds_text(float(result.step_time)), asked="step_time")


def _stated(evaluation: Evaluation, result: Result, title: str, value: str) -> Explanation:
    """Return a number of the card, with where its file has it from."""
    key = "gpu.memory.capacity" if title == "memory.capacity" else title
    row = next((row for row in result.provenance if row["what"] == key), None)
    where = f"of {evaluation.resolved.gpu.name}, as the catalog or the scenario states it"
    return Explanation(title, value, where, "" if row is None else row["source"])


def _category(evaluation: Evaluation, figure: str, value: float) -> Explanation:
    """Explain a category of memory: what is alive in it at the peak, or where the number comes from."""
    from roofsim.analyze.alive import fullest_stage

    name = figure.rpartition(".")[2]
    notes = {
        "context": (
            "what the driver and the libraries take",
            evaluation.resolved.architecture.sources.get("context", ""),
        ),
        "fragmentation": (
            "what the allocator reserves beyond live tensors",
            evaluation.resolved.engine.source("reserved_overhead"),
        ),
    }
    formula, source = notes.get(name, ("storages alive at the peak, each rounded up to 512 B", ""))
    root = Explanation(figure, figure_text(value, "B"), formula, source)
    if name in notes:
        return root
    stage = evaluation.program.stages[fullest_stage(evaluation)]
    alive = [one for one in inventory(stage.graph, stage.in_flight).entries if one.category == name]
    alive.sort(key=lambda one: -one.bytes)
    root.parts = [
        Explanation(
            str(one.tensor), figure_text(float(one.bytes), "B"), f"{one.copies:g} copies, {one.role}, of {one.op.name}"
        )
        for one in alive[:SHOWN]
    ]
    rest = value - sum(one.bytes for one in alive[:SHOWN])
    if len(alive) > SHOWN:
        root.parts.append(Explanation(f"{len(alive) - SHOWN} other storages", figure_text(rest, "B")))
    elif rest > 1.0:
        root.parts.append(
            Explanation("outside of the graph", figure_text(rest, "B"), "buffers that the engine holds beside a step")
        )
    return root


def money_figure(result: Result, figure: str, value: Any) -> Explanation:
    """Explain dollars and energy by the price, the step and what it handles."""
    cost = result.cost
    root = Explanation(figure, figure_text(value), "", "")
    price = Explanation(
        "cost.usd_per_hour",
        f"{figure_text(cost['usd_per_hour'])} USD/h",
        f"of all GPUs; {cost['price']}; {cost['prices_known']} prices known, {figure_text(cost['usd_per_hour_low'])} to "
        f"{figure_text(cost['usd_per_hour_high'])} USD/h",
        cost["price_source"] or "",
    )
    name = figure.rpartition(".")[2]
    if name.startswith("usd_per_million_") and value is not None:
        unit = name.removeprefix("usd_per_million_")
        per_step = float(cost["usd_per_hour"]) / SECONDS_PER_HOUR * float(result.step_time) * MILLION / float(value)
        root.formula = f"cost.usd_per_hour / {SECONDS_PER_HOUR:g} s x step_time / {unit} of a step x 1e6"
        root.parts = [price, _step_part(result), Explanation(f"{unit} of a step", figure_text(round(per_step, 6)))]
    elif name.startswith("usd_per_hour"):
        root.formula, root.source = price.formula, price.source
        root.parts = [price]
    elif name.startswith("kwh") and cost["kwh"] is not None:
        watts = float(cost["kwh"]) * JOULES_PER_KWH / float(result.step_time)
        root.formula = "what the kernels draw on all GPUs x step_time"
        root.parts = [Explanation("power of all GPUs", figure_text(watts, "W")), _step_part(result)]
    else:
        root.formula = "hourly price x time, at the catalog's price of the date shown"
        root.parts = [price, _step_part(result)]
    return root


def plain_figure(result: Result, figure: str, value: Any) -> Explanation:
    """Explain a figure of which only the rule is stated, and list what the result rests on."""
    formulas = {
        "elasticity": "d ln(step_time) / d ln(rate): the step is priced again with the rate changed by 0.01 %",
        "bound": "the resource with the largest elasticity, its rates together: 1 % more of it shortens the step most",
        "runner_up": "the first resource to take its place as it gets faster; headroom: how many times as fast it is by then",
    }
    root = Explanation(figure, figure_text(value, ""), formulas.get(figure.split(".", maxsplit=1)[0], ""))
    root.parts.append(constants_of(result))
    return root
