"""Print what a budget buys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.decide.affordable import some
from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.job import assumed, figure
from roofsim.spec import catalog

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.budget import Bought, Budget

#: Cards that are printed.
_MOST: Final = 15
_REFUSED: Final = 6


def print_budget(console: Console, answer: Budget) -> None:
    """Print the sentence first, then the cards, those that work for the least money first."""
    console.print(Text(sentence(answer), style="bold"))
    for line in scenario_lines(answer):
        console.print(Text(line, style="dim"))
    table = Grid(
        [
            text("card"),
            number("GPUs"),
            number(answer.counted),
            text("80 % interval"),
            number("days"),
            number("USD"),
            number(f"USD/M {answer.counted}"),
            text("price"),
        ]
    )
    for one in answer.cards[:_MOST]:
        table.add(
            one.gpu,
            words.count(one.gpus),
            words.parameters(one.work),
            f"{words.parameters(one.work_low)} .. {words.parameters(one.work_high)}",
            figure(one.days),
            figure(one.usd),
            words.dollars(one.usd_per_million),
            one.price,
        )
    if answer.cards:
        console.print(table)
    for line in (*_below(answer), *assumed(answer.assumptions)):
        console.print(Text(line))


def sentence(answer: Budget) -> str:
    """Return the answer in a sentence."""
    asked = f"{figure(answer.usd)} USD and {words.plural(figure(answer.days), 'day')}"
    if answer.best is None:
        return f"{asked}: no card runs {answer.model}."
    best = answer.best
    spent = "all of the money" if best.limited_by == "usd" else f"{figure(best.usd)} USD, all of the days"
    done = f"{words.parameters(best.work)} {answer.counted} of {answer.model}"
    return (
        f"{asked}: {done} "
        f"({words.parameters(best.work_low)} .. {words.parameters(best.work_high)}) on {_layout(best)}; it takes {spent}."
    )


def scenario_lines(answer: Budget) -> list[str]:
    """Say what is trained or run, as it is on the best, and what was assumed for it."""
    lines = [words.headline(answer.run), words.batch_line(answer.run), words.layout_line(answer.run)]
    assumed_too = f"Assumed: {'; '.join(answer.run.assumed)}." if answer.run.assumed else ""
    return [line for line in (*lines, assumed_too) if line]


def _layout(one: Bought) -> str:
    sharded = "" if one.sharding is None else f", --sharding {one.sharding}"
    return f"{one.gpus} x {one.gpu}{sharded}"


def _below(answer: Budget) -> list[str]:
    lines = []
    if answer.rivals:
        lines.append(f"Undecided, as their intervals overlap: {', '.join(answer.rivals[:_MOST])}.")
    lines += _prices(answer)
    if len(answer.cards) > _MOST:
        lines.append(f"{len(answer.cards) - _MOST} more cards in --csv and --json.")
    largest = answer.largest
    if largest is not None:
        more = "" if largest.next is None else f"; {largest.next} is beyond it"
        wanted, bought = words.parameters(largest.wanted), words.parameters(largest.bought.work)
        lines.append(
            f"The largest of its family in the catalog: {largest.model}, {words.parameters(largest.parameters)} parameters, "
            f"{wanted} tokens wanted, {bought} bought on {_layout(largest.bought)}{more}."
        )
    by_reason: dict[str, list[str]] = {}
    for name, reason in answer.refused.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        shown = ", ".join(names[:_REFUSED])
        rest = f" and {len(names) - _REFUSED} more" if len(names) > _REFUSED else ""
        lines.append(f"Left out, {reason}: {shown}{rest}.")
    lines += [f"Note: {note}." for note in answer.notes]
    if answer.best is not None and catalog.has("model", answer.model):
        lines.append(
            f"Layouts of the best: roofsim plan {answer.model} --gpu {answer.best.gpu} --gpus {answer.best.gpus}"
        )
    return lines


def _prices(answer: Budget) -> list[str]:
    """Say whose prices stand in one table, where they are not of one seller: those of clouds, of marketplaces, and old ones."""
    if len({one.price.split(", ")[0] for one in answer.cards}) < 2:
        return []
    said = "Each card at the lowest list price that a cloud publishes, of several sellers"
    offered = [one.gpu for one in answer.cards if one.price.startswith("offer")]
    if offered:
        said += f"; at the lowest offer of a marketplace, which comes and goes, where none does: {some(offered)}"
    own = [one.gpu for one in answer.cards if one.price.startswith("your own")]
    if own:
        said += f"; at your own: {some(own)}"
    old = [one.gpu for one in answer.cards if one.price.endswith("months old")]
    if old:
        said += f"; at an old price where no other is known: {some(old)}"
    return [f"{said}. --price-file states those that you pay."]
