"""Print what a server of a network that answers in one pass does: latencies, rates, batches, memory, cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number
from roofsim.report.serving import ARRIVALS

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.serve.one_pass.served import OnePassSteady, ServedPasses


def print_passes(console: Console, served: ServedPasses) -> None:
    """Print one answer: the load and what comes of it first, then limits, memory and cost, and what batches take."""
    console.print(Text(headline(served), style="bold"))
    console.print(_load(served), style="dim", highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in answer_rows(served):
        table.add_row(name, Text(value))
    console.print(table)
    if served.plan.fits:
        console.print(_batches(served))
    console.print(f"Assumed: {'; '.join(served.plan.assumed)}.", style="dim", highlight=False)
    for note in served.notes:
        console.print(f"Note: {note}.", style="yellow", highlight=False)


def headline(served: ServedPasses) -> str:
    """Return what serves, in one line."""
    plan, resolved = served.plan, served.plan.resolved
    tensor = f" · tensor {resolved.parallel.tensor}" if resolved.parallel.tensor > 1 else ""
    replicas = f" · {plan.replicas:.0f} replicas" if plan.replicas > 1 else ""
    return (
        f"{resolved.model.name} · {resolved.precision.name} · {resolved.engine.name} on {plan.gpus} x "
        f"{resolved.gpu.name}{tensor}{replicas}"
    )


def _load(served: ServedPasses) -> str:
    plan = served.plan
    arrivals = ARRIVALS[plan.serving.arrivals or "poisson"]
    bound = plan.serving.latency_bound
    kept = "" if bound is None else f" {plan.percent:g} % of the requests within {words.duration(bound)}"
    load = {
        "closed": f"{words.count(plan.concurrency or 0)} requests in flight at all times (closed loop)",
        "open": f"{_rate(plan.request_rate or 0.0)}, {arrivals} arrivals (open loop)",
        "bounded": f"as many requests as keep{kept}, {arrivals} arrivals",
        "saturated": "always full batches",
    }[served.kind]
    delay = plan.serving.max_queue_delay
    waits = f", which waits up to {words.duration(delay)} for more" if delay else ""
    return f"{load}; batches of what waits, at most {words.count(plan.most)} requests{waits}"


def _rate(rate: float) -> str:
    return f"{words.count(rate)} request{'' if rate == 1 else 's'}/s"


def answer_rows(served: ServedPasses) -> list[tuple[str, str]]:
    """Return name and text of each line of the answer."""
    if not served.plan.fits:
        ways = "A smaller serving.max_batch_size or a larger card would help"
        reason = (served.reason or "").replace("does not fit", "does NOT fit", 1)
        return [("verdict", f"{reason}, so there is no rate. {ways}"), *_memory(served), *_cost(served)]
    rows = _verdict(served)
    if served.steady is not None:
        rows += _steady(served, served.steady)
    rows += _bound(served)
    low, high = served.highest_rate_range
    span = f"80 % range {words.count(low)} .. {words.count(high)}"
    rows.append(("saturation", f"{words.count(served.highest_rate)} requests/s ({span})"))
    rows += _memory(served) + _cost(served)
    simulated = served.simulated
    if simulated is not None:
        last = f"{served.plan.percent:g}"
        taken = f"mean {words.seconds(simulated.mean)}, {last} % within {words.seconds(simulated.percentiles[last])}"
        batch = words.count(simulated.mean_batch)
        rows.append(("simulated", f"{simulated.requests:,} requests: {taken}, batches of {batch}"))
    return rows


def _verdict(served: ServedPasses) -> list[tuple[str, str]]:
    rate, most = served.plan.request_rate or 0.0, words.count(served.highest_rate)
    grow = "the queue and the latency grow without bound"
    low, high = served.highest_rate_range
    if served.verdict == "tight":
        then = "" if served.steady is not None else f"; where it is less, {grow}"
        span = f"80 % range {words.count(low)} .. {words.count(high)}"
        return [("verdict", f"tight: {_rate(rate)} arrive, the server can complete at most {most} ({span}){then}")]
    if served.steady is not None:
        return []
    if served.plan.request_rate is None:
        return [("verdict", served.reason or "")]
    return [("verdict", f"NOT sustainable: {_rate(rate)} arrive, but the server can complete at most {most}; {grow}")]


def _steady(served: ServedPasses, steady: OnePassSteady) -> list[tuple[str, str]]:
    low, high = steady.latency_range
    upper = "without an upper end" if high is None else words.seconds(high)
    rows = [("latency", f"mean {words.seconds(steady.latency)}   80 % range {words.seconds(low)} .. {upper}")]
    if steady.percentiles:
        taken = ", ".join(f"{percent} % within {words.seconds(own)}" for percent, own in steady.percentiles.items())
        rows.append(("percentiles", taken))
    each = words.count(steady.request_rate / served.plan.gpus)
    rows.append(("throughput", f"{words.count(steady.request_rate)} requests/s ({each} per GPU)"))
    rows.append(("batches", f"{words.count(steady.batch)} requests in the mean"))
    return rows


def _bound(served: ServedPasses) -> list[tuple[str, str]]:
    bounded = served.bounded
    if bounded is None:
        return []
    low, high = bounded.rates
    kept = f"{bounded.percent:g} % of the requests within {words.duration(bounded.bound)}"
    line = f"at most {_rate(bounded.rate)} (80 % range {words.count(low)} .. {words.count(high)}) keep {kept}"
    return [("bound", line)]


def _memory(served: ServedPasses) -> list[tuple[str, str]]:
    memory = served.plan.memory
    taken, room = words.gibibytes(float(memory.device_total)), words.gibibytes(float(memory.capacity))
    return [("memory", f"{taken} of {room} with the largest batch")]


def _cost(served: ServedPasses) -> list[tuple[str, str]]:
    money = served.money()
    if money["usd_per_hour"] is None:
        return []
    line, each = f"{words.dollars(money['usd_per_hour'])} USD/h", money["usd_per_million_requests"]
    if each is not None:
        line += f", {words.dollars(each)} USD per million requests"
    return [("cost", f"{line} ({money['price']})")]


def _batches(served: ServedPasses) -> Grid:
    table = Grid([number("batch"), number("time"), number("requests/s")])
    for row in served.rows():
        if row["batch_size"].is_integer() and (row["batch_size"] == served.plan.most or _is_power(row["batch_size"])):
            table.add(
                words.count(row["batch_size"]), words.seconds(row["time"]), words.count(row["requests_per_second"])
            )
    return table


def _is_power(size: float) -> bool:
    """Tell whether a batch is a power of two: between them times are read off the same line."""
    return int(size) & (int(size) - 1) == 0
