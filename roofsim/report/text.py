"""Print results as tables that one likes to read; the only user of rich besides the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from roofsim.analyze.bottleneck import UNBOUND
from roofsim.report import room, words
from roofsim.report.grid import Grid, number, text
from roofsim.units import humanize

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.goodput import Goodput
    from roofsim.analyze.result import Result


#: Share of a step up to which a table does not show it.
NOTHING: Final = 5e-5


def print_result(console: Console, result: Result) -> None:
    """Print one result: the answer first, then where time and memory go, then what was assumed."""
    console.print(Text(words.headline(result), style="bold"))
    console.print(words.batch_line(result), style="dim")
    if layout := words.layout_line(result):
        console.print(layout, style="dim")
    console.print(_answer(result))
    console.print(Columns([_time_table(result), _memory_table(result)], padding=(0, 4)))
    if result.networks:
        console.print(_networks_table(result))
    if result.elasticity is not None:
        console.print(_elasticity_line(result))
    _print_notes(console, result)


def _print_notes(console: Console, result: Result) -> None:
    if result.assumed:
        console.print(f"Assumed: {'; '.join(result.assumed)}.", style="dim", highlight=False)
    for warning in result.warnings:
        console.print(f"Note: {warning}.", style="yellow", highlight=False)


def _answer(result: Result) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in answer_rows(result):
        table.add_row(name, Text(value))
    return table


def answer_rows(result: Result) -> list[tuple[str, str]]:
    """Return name and text of each line of the answer."""
    rows = (
        []
        if result.memory.fits
        else [("verdict", f"{room.room(result.memory)}; times and rates are those of {room.with_room(result.memory)}")]
    )
    rows.append(("step time", f"{words.seconds(_f(result.step_time))}{_interval(result)}"))
    rows += [(name, words.seconds(_f(value))) for name, value in _latency_rows(result)]
    rows.append(("throughput", _throughput(result)))
    rows.append(("limited by", words.bound_sentence(result)))
    rows.append(("utilization", words.utilization(result)))
    rows.append(("parameters", _parameters(result)))
    rows.append(("memory", _memory(result)))
    if result.memory.off_device:
        rows.append(("off device", f"{words.off_device(result.memory.off_device)} (per GPU)"))
    if result.memory.ways:
        from roofsim.report.ways import ways_there  # nothing is offloaded in most answers

        rows.append(("way there", f"{ways_there(result.memory.ways)} (per GPU, all at work)"))
    if result.goodput is not None:
        rows += _goodput(result.goodput)
    rows.append(("cost", _cost(result)))
    return rows


def _goodput(goodput: Goodput) -> list[tuple[str, str]]:
    """Return the lines of checkpoints and failures."""
    size, writing = words.gibibytes(goodput.checkpoint_bytes), words.duration(goodput.write_time)
    line = (
        f"{size}, written in {writing}; training waits {words.duration(goodput.blocking_time)} every "
        f"{words.duration(goodput.interval)}, {words.percent(goodput.checkpoint_share)} of the time"
    )
    rows = [("checkpoints", line)]
    if goodput.mtbf is not None and goodput.daly is not None and goodput.goodput_at_daly is not None:
        line = (
            f"{words.percent(goodput.goodput)} of the time is progress, with {words.duration(goodput.mtbf)} between failures; "
            f"the best interval is {words.duration(goodput.daly)}, for {words.percent(goodput.goodput_at_daly)}"
        )
        rows.append(("goodput", line))
    return rows


def _f(value: Any) -> float:
    return float(value)


def _interval(result: Result) -> str:
    if result.step_time_interval is None:
        return ""
    low, high = result.step_time_interval
    return f"   80 % interval {words.seconds(low)} .. {words.seconds(high)}"


def _latency_rows(result: Result) -> list[tuple[str, Any]]:
    names = {"time_to_first_token": "first token", "time_per_output_token": "per output token"}
    return [(name, result.latency[key]) for key, name in names.items() if result.latency[key] is not None]


def _throughput(result: Result) -> str:
    decodes = result.scenario["workload"]["phase"] == "decode"  # a step gives tokens; no sequence is done
    units = {
        "tokens_per_second": "tokens/s",
        "samples_per_second": f"{words.unit_of(result)}/s"
        if result.scenario["workload"]["image_size"]
        else "samples/s",
        "decode_tokens_per_second": "decode tokens/s",
        "output_tokens_per_second": "output tokens/s",
    }
    rates = [
        f"{words.count(_f(result.throughput[key]))} {unit}"
        for key, unit in units.items()
        if result.throughput[key] is not None and not (decodes and key == "samples_per_second")
    ]
    return ", ".join(rates)


def _parameters(result: Result) -> str:
    total, active = _f(result.parameters["total"]), _f(result.parameters["active"])
    shown = words.parameters(total)
    return shown if active == total else f"{shown}, {words.parameters(active)} active per token"


def _memory(result: Result) -> str:
    memory = result.memory
    peak, capacity = _f(memory.device_total), _f(memory.capacity)
    taken, at = (
        f"{words.gibibytes(peak)} of {words.gibibytes(capacity)}",
        f"peak in {memory.peak_phase}, {memory.peak_op}",
    )
    return f"{taken}: {room.room(memory)} ({at})"


def _cost(result: Result) -> str:
    cost = result.cost
    if cost.get("usd_per_hour") is None:
        return f"no price of an hour of {words.card_name(result.scenario['hardware']['gpu'])} is known; state one: --price 2.50"
    _, per_million = _per_million(cost)
    rate = "" if per_million is None else f", {words.dollars(per_million)} USD per million {words.unit_of(result)}"
    return f"{words.dollars(cost['usd_per_hour'])} USD/h{rate} ({cost['price']}{words.price_range(cost)})"


def _per_million(cost: dict[str, Any]) -> tuple[str, float | None]:
    """Return the unit that a cost is stated for, and its dollars per million of it."""
    key = next(key for key in cost if key.startswith("usd_per_million_"))
    return key.removeprefix("usd_per_million_"), cost[key]


def _time_table(result: Result) -> Grid:
    table = Grid([text("where the time goes"), number("time"), number("share")])
    step = _f(result.step_time)
    for name, value in result.time.items():
        if _f(value) > 0:
            table.add(words.BOUND_WORDS[name], words.seconds(_f(value)), words.percent(_f(value) / step))
    table.line()
    table.add("step", words.seconds(step), "100.0 %")
    return table


def _memory_table(result: Result) -> Grid:
    table = Grid([text("memory at the peak"), number("bytes"), number("share")])
    peak = _f(result.memory.device_total)
    for name, value in result.memory.components.items():
        if _f(value) > 0:
            table.add(name.replace("_", " "), words.gibibytes(_f(value)), words.percent(_f(value) / peak))
    table.line()
    table.add("peak", words.gibibytes(peak), "100.0 %")
    return table


def _networks_table(result: Result) -> Grid:
    """Return what each network of a diffusion pipeline takes, and what binds it."""
    table = Grid(
        [
            text("network"),
            number("runs", 1),
            number("time"),
            number("share"),
            number("work", 2),
            number("parameters", 3),
            text("limited by"),
        ]
    )
    step = _f(result.step_time)
    for row in result.networks:
        time = _f(row["time"])
        table.add(
            row["name"].replace("_", " "),
            words.count(_f(row["runs"])),
            words.seconds(time),
            words.percent(time / step),
            humanize(_f(row["flops"]), "FLOP", 3),
            words.parameters(_f(row["parameters"])),
            words.BOUND_WORDS[row["bound"]],
        )
    rest = step - sum(_f(row["time"]) for row in result.networks)
    if rest > NOTHING * step:
        table.add("waits", "", words.seconds(rest), words.percent(rest / step), "", "", "")
    table.line()
    table.add("step", "", words.seconds(step), "100.0 %", "", "", "")
    return table


def _elasticity_line(result: Result) -> str:
    assert result.elasticity is not None
    parts = [
        f"{words.RESOURCE_WORDS[name]} {100.0 * ((1.01**slope) - 1.0):+.2f} %"
        for name, slope in sorted(result.elasticity.items(), key=lambda item: item[1])
        if abs(slope) >= 0.0005 and name not in UNBOUND
    ]
    fixed = 1.0 + sum(slope for name, slope in result.elasticity.items() if name not in UNBOUND)
    between = " between GPUs" if result.scenario["hardware"]["gpus"] > 1 else ""
    rest = f" {words.percent(fixed)} of it is latency{between}, which none of these shortens." if fixed > 0.01 else ""
    return f"Step time with 1 % more of: {', '.join(parts)}.{rest}"
