"""Print what whole jobs take: days, dollars, energy and CO2, with ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from roofsim.decide.long_job import work_words
from roofsim.report import words
from roofsim.report.grid import Grid, number, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from roofsim.decide.assumptions import Assumption
    from roofsim.decide.long_job import Ends, JobCost


def print_job(console: Console, job: JobCost) -> None:
    """Print one job, a figure a line, and what it rests on."""
    console.print(Text(f"job: {work_words(job.work)}, {words.count(job.steps)} steps", style="bold"))
    table = Grid([text("figure"), number("amount"), text("80 % interval")])
    table.add("days", figure(job.days[1]), ends(job.days))
    table.add("GPU hours", figure(job.gpu_hours[1]), ends(job.gpu_hours))
    table.add("USD", "?" if job.usd is None else figure(job.usd[1]), "" if job.usd is None else ends(job.usd))
    if job.kwh is not None and job.co2_kg is not None:
        table.add("kWh", figure(job.kwh[1]), ends(job.kwh))
        table.add("kg CO2", figure(job.co2_kg[1]), ends(job.co2_kg))
    console.print(table)
    for line in (*_money(job), *_lost(job), *assumed(job.assumptions), *job.notes):
        console.print(Text(line))


def sentence(job: JobCost) -> str:
    """Return the answer in a sentence."""
    usd = "" if job.usd is None else f", {figure(job.usd[1])} USD"
    return f"{work_words(job.work)}: {words.plural(figure(job.days[1]), 'day')}{usd} on {job.gpus} x {job.gpu}."


def print_jobs(console: Console, jobs: Sequence[JobCost]) -> None:
    """Print the same work on several cards or layouts, one a line."""
    if not jobs:
        return
    console.print(Text(f"job: {work_words(jobs[0].work)}", style="bold"))
    table = Grid(
        [
            text("on"),
            number("GPUs"),
            number("days"),
            text("80 % interval"),
            number("USD"),
            text("80 % interval"),
            number("kWh"),
            number("kg CO2"),
        ]
    )
    for job in jobs:
        table.add(
            job.label or job.gpu,
            words.count(job.gpus),
            figure(job.days[1]),
            ends(job.days),
            "?" if job.usd is None else figure(job.usd[1]),
            "" if job.usd is None else ends(job.usd),
            "?" if job.kwh is None else figure(job.kwh[1]),
            "?" if job.co2_kg is None else figure(job.co2_kg[1]),
        )
    console.print(table)
    seen: dict[str, None] = {}
    for job in jobs:
        for line in (*assumed(job.assumptions), *job.notes):
            seen.setdefault(line)
    for line in seen:
        console.print(Text(line))


def figure(amount: float) -> str:
    """Return an amount with three digits or all of its whole ones.

    >>> figure(21.1834), figure(223859.66), figure(0.012345)
    ('21.2', '223,860', '0.0123')
    """
    return f"{amount:,.0f}" if amount >= 100.0 else f"{amount:.3g}"


def ends(amounts: Ends) -> str:
    """Return the ends of an interval; nothing where it has none."""
    low, middle, high = amounts
    return "" if low == middle == high else f"{figure(low)} .. {figure(high)}"


def assumed(assumptions: Iterable[Assumption]) -> list[str]:
    """Return what was taken, one a line, with its source."""
    lines = []
    for one in assumptions:
        unit = "" if one.unit == "1" else f" {one.unit}"
        lines.append(f"{one.name} {one.value:,.6g}{unit}: {one.meaning} ({one.source})")
    return lines


def _money(job: JobCost) -> list[str]:
    if job.usd is None:
        return []
    line = f"USD by {job.price}"
    if job.usd_low is not None and job.usd_high is not None and job.usd_low < job.usd_high:
        line += f"; {figure(job.usd_low)} to {figure(job.usd_high)} by the prices that are known"
    return [line]


def _lost(job: JobCost) -> list[str]:
    parts = [f"{words.percent(1.0 - job.goodput)} of the time lost to checkpoints and failures"]
    if job.evaluating > 0.0:
        parts.append(f"{words.percent(job.evaluating)} to evaluations")
    if job.watts is not None:
        parts.append(f"each GPU draws {figure(job.watts)} W on average")
    return [", ".join(parts)]
