"""Print what fits: the verdict, the largest or the fewest, what the model needs, and what would make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.analyze.verdicts import DOES_NOT_FIT, TIGHT, missing_there
from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofsim.search.fitting.answer import Fit
    from roofsim.search.fitting.bench import Attempt
    from roofsim.search.fitting.changes import Remedy
    from roofsim.search.fitting.layouts import Fewest
    from roofsim.search.fitting.models import LargestModel, ModelRow
    from roofsim.search.fitting.search import Certificate
    from roofsim.search.fitting.state import State

#: Rows of a table; --json has all.
_ROWS: Final = 8
_ROLE_WORDS: Final = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
}
_BILLION: Final = 10.0**9
_HOUR: Final = 3600.0
_FULL: Final = 0.95
#: Of what each sample adds: below this share, bytes that no sample adds are not worth a line.
_NOTABLE: Final = 0.001


def print_fit(console: Console, fit: Fit) -> None:
    """Print the answer first, then what stands behind it."""
    console.print(Text(headline(fit), style="bold"))
    if fit.largest_model is None:
        resolved = fit.resolved
        sizes = words.sizes(resolved.workload.model_dump(), resolved.model.family, fit.assumed)
        console.print(sizes, style="dim", highlight=False)
    if fit.fewest is not None:
        _print_fewest(console, fit)
    elif fit.largest_model is not None:
        _print_models(console, fit.largest_model)
    else:
        console.print(verdict(fit.base), highlight=False)
        if fit.certificate is not None and fit.size is not None:
            console.print(_certified(fit, fit.size, fit.certificate), highlight=False)
            if fit.certificate.value is not None:
                console.print(_safe(fit), highlight=False)
    for note in fit.notes:
        console.print(f"({note})", style="dim", highlight=False)
    if fit.state is not None:
        console.print(_state_table(fit.state, fit))
    if fit.remedies is not None:
        _print_remedies(console, fit)
    if fit.assumed:
        console.print(f"Assumed: {'; '.join(fit.assumed)}.", style="dim", highlight=False)


def headline(fit: Fit) -> str:
    """Return what was asked, in one line."""
    resolved = fit.resolved
    where = f"{words.count(fit.base.gpus)} x {resolved.gpu.name}" if fit.fewest is None else resolved.gpu.name
    return f"{resolved.model.name} · {resolved.workload.phase} · {where} · {resolved.precision.name} · {resolved.engine.name}"


def facts(fit: Fit) -> list[tuple[str, str]]:
    """Return what was found, a name and a line each."""
    lines = [("memory", verdict(fit.base))]
    if fit.fewest is None and fit.largest_model is None and fit.certificate is not None and fit.size is not None:
        lines.append(("largest", _certified(fit, fit.size, fit.certificate)))
    if fit.fewest is not None:
        fewest = fit.fewest
        lines.append(("fewest GPUs", f"{fewest.gpus or 'no number'}; {_fewest_certificate(fewest)}"))
    if fit.remedies is not None:
        lines += [(remedy.flags(), verdict(remedy.attempt)) for remedy in (*fit.remedies.same, *fit.remedies.other)]
    return [*lines, *(("note", note) for note in fit.notes)]


def verdict(base: Attempt) -> str:
    """Say whether it fits, and what is left or missing."""
    taken = f"{words.gibibytes(base.memory)} of {words.gibibytes(base.capacity)}"
    elsewhere = missing_there(base.missing_off_device)
    if elsewhere:
        lacks = f"{words.gibibytes(base.shortfall)} missing, and " if base.shortfall else ""
        return f"does NOT fit: {taken}, {lacks}{elsewhere}"
    if base.verdict == DOES_NOT_FIT:
        return f"does NOT fit: {taken}, {words.gibibytes(base.shortfall)} missing"
    spare = base.capacity - base.memory
    amount = f"{words.gibibytes(spare)} left ({words.percent(spare / base.capacity)})"
    if not base.fits:
        amount = f"{words.gibibytes(base.shortfall)} missing"
    return f"{base.verdict}: {taken}, {amount}{words.chance(base.verdict, base.fit_probability)}"


def _certified(fit: Fit, size: str, certificate: Certificate) -> str:
    """Return the largest size that fits, in words; where places beyond the device lack room, of the device alone."""
    said = _largest_of(fit, size, certificate)
    return f"on the device alone, {said}" if any(fit.base.missing_off_device.values()) else said


def _largest_of(fit: Fit, size: str, certificate: Certificate) -> str:
    serves = fit.resolved.workload.phase != "train"
    batch = size in ("micro_batch_size", "batch_size")
    replicas = int(fit.resolved.parallel.data or 1) if serves and batch else 1
    name = "batch size" if serves and batch else size.replace("_", " ")
    if certificate.value is None:
        assert certificate.next is not None
        assert certificate.next_memory is not None
        return f"no {name} fits: {words.count(certificate.next)} alone takes {words.gibibytes(certificate.next_memory)}"
    assert certificate.memory is not None
    value = f"{words.on_replicas(certificate.value, replicas)}," if replicas > 1 else words.count(certificate.value)
    held = f"largest {name}: {value} takes {_exactly(certificate.memory)}"
    if certificate.next is None or certificate.next_memory is None:
        return f"{held}; the search ends here, and larger ones may fit"
    beyond = f"{words.count(certificate.next)} would take {_exactly(certificate.next_memory)}"
    return f"{held} of {words.gibibytes(certificate.capacity)}; {beyond}"


def _safe(fit: Fit) -> str:
    """Say up to which value the memory's whole interval fits."""
    if fit.safe is None:
        return "even the smallest is tight: the capacity lies inside the 80 % interval of its memory"
    return f"up to {words.count(fit.safe)} the whole 80 % interval of the memory fits; from there on it is tight"


def _exactly(amount: float) -> str:
    """Return bytes with enough digits to tell a value that fits from the next."""
    return humanize(amount, "B", 5)


def _state_table(state: State, fit: Fit) -> Grid:
    """Return bytes by role of the whole model, undivided."""
    table = Grid([text("the whole model"), number("B/parameter", 1), number("bytes")], roomy=False)
    count = words.parameters(state.parameters)
    trains = "gradients" in state.roles
    for name, amount in state.roles.items():
        if name != "key_value_cache":  # by sequence, below
            named = f"{count} parameters" if name == "parameters" else _ROLE_WORDS[name]
            table.add(named, f"{amount / state.parameters:.3g}", words.gibibytes(amount))
    if trains:
        table.line()
        table.add("state", f"{state.total / state.parameters:.3g}", words.gibibytes(state.total))
    sample = "image" if fit.base.unit == "images" else "sequence"
    copies = " (autocast's copies of weights)" if fit.resolved.precision.autocast and trains else ""
    for what, kept in (
        (f"activations of each {sample}, recompute {_policy(fit)}", state.saved),
        (f"key-value cache of each {sample}", state.cache),
    ):
        if kept.each > 0.0:
            table.add(what, "", words.gibibytes(kept.each))
        if kept.constant > _NOTABLE * kept.each:
            table.add(f"kept at any batch size{copies}", "", words.gibibytes(kept.constant))
    return table


def _policy(fit: Fit) -> str:
    given = fit.resolved.workload.recompute
    return given if isinstance(given, str) else given.policy


# -- fewest GPUs ------------------------------------------------------------------------------------------------


def _print_fewest(console: Console, fit: Fit) -> None:
    fewest = fit.fewest
    assert fewest is not None
    gpu = fit.resolved.gpu.name
    if fewest.gpus is None:
        console.print(
            f"does not fit on any number of {gpu} up to {words.count(fewest.limit)}: {_closest(fewest)}",
            style="bold",
            highlight=False,
        )
        if fewest.reason:
            console.print(f"{fewest.reason}.", highlight=False)
        _print_plan_hint(console, fit, "64..4096")
        return
    best = fewest.layouts[0]
    console.print(
        f"smallest number: {fewest.gpus} x {gpu}, {_layout_words(best.layout)}", style="bold", highlight=False
    )
    console.print(_fewest_certificate(fewest), highlight=False)
    console.print(_pace(best), highlight=False)
    if best.memory > _FULL * best.capacity:
        console.print("more than 95 % full: more GPUs would leave a margin", style="yellow")
    console.print(_layout_table(fewest.layouts))
    if len(fewest.layouts) > _ROWS:
        console.print(f"... and {len(fewest.layouts) - _ROWS} more layouts that fit (--json has all)", style="dim")
    if fewest.gpus > 1:
        _print_plan_hint(console, fit, str(fewest.gpus))


def _print_plan_hint(console: Console, fit: Fit, gpus: str) -> None:
    """Point to what searches more kinds of layouts: training pipelines of models whose layers are a stack."""
    if fit.resolved.workload.phase == "train" and fit.resolved.model.stacked:
        console.print(
            f"`roofsim plan SCENARIO --gpus {gpus}` searches more layouts for the fastest: virtual stages, schedules, "
            "micro batches, context and expert parallelism.",
            highlight=False,
        )


def _fewest_certificate(fewest: Fewest) -> str:
    if fewest.before is None:
        return "one GPU is enough"
    return f"{fewest.before} {'does' if fewest.before == 1 else 'do'} not: {_closest(fewest)}"


def _closest(fewest: Fewest) -> str:
    if fewest.closest is None:
        return "no layout is possible on them"
    near = fewest.closest
    return (
        f"the closest of {fewest.tried_before} layout{'s' if fewest.tried_before > 1 else ''} ({_layout_words(near.layout)}) lacks "
        f"{words.gibibytes(near.shortfall)} per GPU"
    )


def _layout_words(layout: dict[str, Any]) -> str:
    degrees = [
        f"{name} {layout[name]}"
        for name in ("tensor", "pipeline", "context", "expert", "data")
        if layout[name] not in (1, None)
    ]
    sharding = layout["sharding"]
    degrees += [f"sharding {_plain(sharding)}"] if sharding not in ("none", None) else []
    degrees += [f"recompute {_plain(layout['recompute'])}"] if layout["recompute"] is not None else []
    return ", ".join(degrees) or "no parallelism"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(f"{key} {item}" for key, item in value.items())


def _pace(best: Attempt) -> str:
    """Say how long a step takes and what a billion tokens (or a million images) costs on the best layout."""
    text = f"step {words.seconds(best.step_time)} of {words.count(best.units)} {best.unit}"
    amount, name = (_BILLION, "billion tokens") if best.unit == "tokens" else (_BILLION / 1000.0, "million images")
    seconds = amount / best.units_per_second
    text += f"; {words.duration(seconds)} per {name}"
    if best.usd_per_hour is not None:
        text += (
            f"; {words.dollars(best.usd_per_hour)} USD/h, {words.dollars(seconds / _HOUR * best.usd_per_hour)} USD per {name} "
            f"({best.price})"
        )
    return text


def _layout_table(layouts: Sequence[Attempt]) -> Grid:
    unit = layouts[0].unit
    degrees = [number("tensor"), number("pipeline"), number("data")]
    kinds = [text("sharding", 1), text("recompute", 1)]
    figures = [number("step"), number(f"{unit}/s", 3), number("memory"), number("full", 2)]
    table = Grid([*degrees, *kinds, *figures], roomy=False)
    for attempt in layouts[:_ROWS]:
        layout = attempt.layout
        table.add(
            *(str(layout[name]) for name in ("tensor", "pipeline", "data")),
            _plain(layout["sharding"]),
            _plain(layout["recompute"] or "-"),
            words.seconds(attempt.step_time),
            words.count(attempt.units_per_second),
            _memory_cell(attempt),
            words.percent(attempt.memory / attempt.capacity),
        )
    return table


def _memory_cell(attempt: Attempt) -> str:
    """Return the memory, marked where the capacity lies inside its interval."""
    return f"{'tight, ' if attempt.verdict == TIGHT else ''}{words.gibibytes(attempt.memory)}"


# -- the largest model ------------------------------------------------------------------------------------------


def _print_models(console: Console, largest: LargestModel) -> None:
    chosen, after = largest.chosen, largest.next
    if chosen is None:
        console.print(f"no model of {largest.family} fits", style="bold")
    else:
        assert chosen.attempt is not None
        console.print(
            f"largest model of {largest.family} that fits: {chosen.name}, {words.gibibytes(chosen.attempt.memory)} of "
            f"{words.gibibytes(chosen.attempt.capacity)}",
            style="bold",
            highlight=False,
        )
        if after is None:
            console.print("it is the largest in the catalog", highlight=False)
    table = Grid(
        [
            text("model"),
            number("parameters", 2),
            number("memory"),
            number("of", 1),
            text("fits"),
            number("step", 3),
            number("speed", 2),
        ],
        roomy=False,
    )
    place = 0 if chosen is None else largest.rows.index(chosen)
    for row in largest.rows[max(place - 4, 0) : place + 4]:
        table.add(row.name, words.parameters(row.parameters), *_model_cells(row))
    console.print(table)


def _model_cells(row: ModelRow) -> list[str]:
    attempt = row.attempt
    if attempt is None:
        return ["", "", f"no: {row.refusal}", "", ""]
    verdict = words.room_cell(attempt.verdict, attempt.memory, attempt.capacity)
    speed = f"{words.count(attempt.units_per_second)} {attempt.unit}/s"
    return [
        words.gibibytes(attempt.memory),
        words.gibibytes(attempt.capacity),
        verdict,
        words.seconds(attempt.step_time),
        speed,
    ]


# -- changes ----------------------------------------------------------------------------------------------------


def _print_remedies(console: Console, fit: Fit) -> None:
    remedies = fit.remedies
    assert remedies is not None
    if remedies.same:
        heading = f"Changes that make it fit on the same hardware, by time per {fit.base.unit[:-1]}"
        console.print(Text(heading, style="bold"))
        console.print(_remedy_table(remedies.same, fit.base))
    elif remedies.closest is not None:
        near = remedies.closest
        console.print(
            f"No change makes it fit on the same hardware; {near.name} comes closest: {words.gibibytes(near.attempt.memory)}, "
            f"{words.gibibytes(near.attempt.shortfall)} missing.",
            highlight=False,
        )
    if remedies.other:
        console.print(Text(f"Other or more hardware, by time per {fit.base.unit[:-1]}", style="bold"))
        console.print(_remedy_table(remedies.other, fit.base))
    elif not remedies.same:
        console.print(
            "Nor do up to eight times as many GPUs, or a GPU with more memory; try --fewest gpus.", highlight=False
        )
    if any(change.computes_otherwise for remedy in (*remedies.same, *remedies.other) for change in remedy.changes):
        console.print("Another precision, optimizer, adapter or length changes what is computed.", style="dim")
    said = [f"{remedies.tried} combinations tried, {remedies.refused} of them invalid", *remedies.notes]
    console.print(f"{'; '.join(said)}.", style="dim", highlight=False)


def _remedy_table(remedies: Sequence[Remedy], base: Attempt) -> Grid:
    sample = "image" if base.unit == "images" else "sequence"
    table = Grid(
        [
            text("change"),
            number(f"time per {sample}", 1),
            number("time"),
            number("memory"),
            number("of", 2),
            number("GPUs", 3),
            number("USD/h", 4),
        ],
        roomy=False,
    )
    for remedy in remedies[:_ROWS]:
        attempt = remedy.attempt
        table.add(
            remedy.flags(),
            words.seconds(attempt.seconds_per_sample),
            f"{100.0 * remedy.slowdown:+.0f} %",
            _memory_cell(attempt),
            words.gibibytes(attempt.capacity),
            str(attempt.gpus),
            "?" if attempt.usd_per_hour is None else words.dollars(attempt.usd_per_hour),
        )
    if len(remedies) > _ROWS:
        table.caption = f"... and {len(remedies) - _ROWS} more (--json has all)"
    return table
