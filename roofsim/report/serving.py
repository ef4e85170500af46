"""Print what a server does under a load: latencies and rates, what binds, what fits, what tokens cost, more and less load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from roofsim.analyze.verdicts import TIGHT
from roofsim.report import words
from roofsim.report.grid import Grid, number
from roofsim.report.serving_target import percentile_rows, simulated_percentiles, sized_rows

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.serve.load import Steady
    from roofsim.serve.served import Served
    from roofsim.spec.scenario.serving import Serving

#: Bytes below which no weights are meant.
_GRANULE = 2.0**20


#: Words for how requests arrive.
ARRIVALS: Final = {"poisson": "Poisson", "constant": "evenly spaced"}


def print_served(console: Console, served: Served) -> None:
    """Print one answer: the load and what comes of it first, then limits, memory, cost, and the curve over loads."""
    console.print(Text(headline(served), style="bold"))
    console.print(_requests(served), style="dim", highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in answer_rows(served):
        table.add_row(name, Text(value))
    console.print(table)
    if served.curve:
        console.print(_curve(served))
    console.print(f"Assumed: {'; '.join(served.plan.assumed)}.", style="dim", highlight=False)
    for note in served.notes:
        console.print(f"Note: {note}.", style="yellow", highlight=False)


def headline(served: Served) -> str:
    """Return what serves, in one line."""
    plan = served.plan
    resolved = plan.resolved
    ranks = ((name, getattr(resolved.parallel, name)) for name in ("tensor", "pipeline", "expert", "context"))
    layout = "".join(f" · {name} {number}" for name, number in ranks if number > 1)
    replicas = f" · {plan.replicas:.0f} replicas" if plan.replicas > 1 and served.workers is None else ""
    if served.workers is not None:
        apart = (worker / served.load.batches for worker in (served.workers.prefill, served.workers.decode))
        replicas = " · {:.0f} prefill + {:.0f} decode workers".format(*apart)
    return (
        f"{resolved.model.name} · {resolved.precision.name} · {resolved.engine.name} on {plan.gpus} x "
        f"{resolved.gpu.name}{layout}{replicas}"
    )


def _rate(rate: float) -> str:
    return f"{words.count(rate)} request{'' if rate == 1 else 's'}/s"


def _requests(served: Served) -> str:
    plan = served.plan
    cached = f" ({words.count(plan.cached)} of them cached)" if plan.cached else ""
    load = {
        "closed": f"{words.count(plan.concurrency or 0)} requests in flight at all times{_dealt(served, plan.concurrency)} "
        "(closed loop)",
        "open": f"{_rate(plan.request_rate or 0)}{_dealt(served, plan.request_rate)}, {_arrivals(plan.serving)} (open loop)",
        "saturated": f"as many requests as fit: {words.count(served.max_requests)}{_dealt(served, served.max_requests)}",
    }[served.kind]
    if plan.serving.num_prompts is not None:
        whole = "" if served.kind == "closed" else ", all sent at once"
        load = f"a run of {plan.serving.num_prompts:,} requests{whole}" + (
            f", {load}" if served.kind == "closed" else ""
        )
    default = words.default_lengths(plan.resolved.workload.model_dump(), plan.assumed)
    beams = f" in {plan.beams:.0f} beams" if plan.beams > 1.0 else ""
    beams = f" in each of {plan.samples:.0f} answers" if plan.samples > 1.0 else beams
    tokens = (
        f"{words.count(plan.prompt)} prompt tokens{cached}, {words.count(plan.output)} output tokens{beams}{default}"
    )
    return f"{tokens}; {load}"


def _arrivals(serving: Serving) -> str:
    """Return how requests arrive; a stated variation of the times between them is what counts."""
    if serving.arrival_variation:
        return f"arrivals of variation {serving.arrival_variation:.3g}"
    return f"{ARRIVALS['poisson' if serving.scattered else 'constant']} arrivals"


def _dealt(served: Served, load: float | None) -> str:
    """Return what each replica has of a load that is stated for the whole server."""
    replicas = served.plan.replicas
    if replicas == 1.0 or served.workers is not None or not load:
        return ""
    return f", {words.count(load / replicas)} on each of {words.count(replicas)} replicas"


def answer_rows(served: Served) -> list[tuple[str, str]]:
    """Return name and text of each line of the answer."""
    if not served.room.fits:
        return [_no_room(served), *_memory(served), *_hourly(served)]
    rows = [] if served.sized is None else sized_rows(served, served.sized)
    rows += _room_for_one(served) + _rate_verdict(served)
    rows += [] if served.steady is None else _latencies(served, served.steady)
    rows += [
        ("prefill", _bound(served, "prefill")),
        ("decode", _bound(served, "decode")),
        ("turning point", _turning(served)),
    ]
    best = served.highest_rate
    tokens, each = words.count(best * served.plan.given), words.count(best * served.plan.given / served.plan.gpus)
    span = _span(served)
    rows.append(("saturation", f"{words.count(best)} requests/s ({span}), {tokens} output tokens/s ({each} per GPU)"))
    rows += _prefixes(served) + _memory(served)
    if served.money()["usd_per_hour"] is not None:
        rows.append(("cost", _cost(served)))
    if served.simulated is not None:
        rows.append(("simulated", _simulated(served)))
    return rows


def _no_room(served: Served) -> tuple[str, str]:
    plan, verdict = served.plan, TIGHT if served.room.verdict == TIGHT else "does NOT fit"
    reason = (served.reason or "").replace("does not fit", verdict, 1)
    tokens = plan.limits.context or plan.prompt + plan.output
    search = f"`roofsim fit` with --phase decode --context-length {tokens:.0f} --fewest gpus searches how many"
    ways = f"More GPUs for each replica (tensor, pipeline) or narrower weights would help: {search}"
    return "verdict", f"{reason}, so there is no rate. {ways}"


def _hourly(served: Served) -> list[tuple[str, str]]:
    money = served.money()
    hourly = money["usd_per_hour"]
    return [] if hourly is None else [("cost", f"{words.dollars(hourly)} USD/h ({money['price']})")]


def _room_for_one(served: Served) -> list[tuple[str, str]]:
    if served.room.verdict != TIGHT:
        return []
    return [("verdict", "tight: the 80 % interval of the memory does not tell whether one request has room")]


def _rate_verdict(served: Served) -> list[tuple[str, str]]:
    """Say whether the server keeps up with what arrives, where it may not."""
    rate, most = served.plan.request_rate or 0.0, words.count(served.highest_rate)
    grow = "the queue and the time to first token grow without bound"
    if served.verdict == "tight":
        then = "" if served.steady is not None else f"; where it is less, {grow}"
        line = f"tight: {_rate(rate)} arrive, the server can complete at most {most} ({_span(served)}){then}"
        return [("verdict", line)]
    if served.steady is not None:
        return []
    return [("verdict", f"NOT sustainable: {_rate(rate)} arrive, but the server can complete at most {most}; {grow}")]


def _span(served: Served) -> str:
    low, high = served.highest_rate_range
    return f"80 % range {words.count(low)} .. {words.count(high)}"


def _latencies(served: Served, steady: Steady) -> list[tuple[str, str]]:
    ranges, rates = served.ranges(), served.rates(steady)
    first = f"{words.seconds(steady.time_to_first_token)}{_range(ranges['time_to_first_token'])}"
    if served.workers is not None:
        first += f", {words.seconds(served.workers.transfer)} of it to transfer the cache"
    rows = [("first token", first)]
    if steady.time_per_output_token is not None:
        each = f"{words.seconds(steady.time_per_output_token)}{_range(ranges['time_per_output_token'])}"
        rows.append(
            ("per output token", f"{each}: {words.count(rates['tokens_per_second_per_user'] or 0.0)} tokens/s per user")
        )
    rows += percentile_rows(served)
    rows.append(("whole request", words.duration(steady.end_to_end)))
    output, each, given = (
        words.count(rates[f"{name}_tokens_per_second{suffix}"] or 0.0)
        for name, suffix in (("output", ""), ("output", "_per_gpu"), ("input", ""))
    )
    span = served.output_range
    per = (
        f"{each} per GPU"
        if span is None
        else f"80 % range {words.count(span[0])} .. {words.count(span[1])}, {each} per GPU"
    )
    line = f"{output} output tokens/s ({per}), {given} input tokens/s, {words.count(steady.request_rate)} requests/s"
    rows.append(("throughput", line))
    share = words.percent(steady.prompt_share)
    rows.append(
        ("running", f"{words.count(steady.running)} requests decode at a time; prompts take {share} of the time")
    )
    return rows


def _range(limits: tuple[float, float] | None) -> str:
    return "" if limits is None else f"   80 % range {words.seconds(limits[0])} .. {words.seconds(limits[1])}"


def _bound(served: Served, phase: str) -> str:
    bound = served.bounds[phase]
    what = f"{words.seconds(bound['time'])} for a prompt"
    if phase == "decode":
        what = f"{words.seconds(bound['time'])} for a step with {words.count(bound['requests'])} requests"
        if served.load.batches > 1.0:
            what += f", one of {served.load.batches:.0f} in flight"
    first, second = (words.BOUND_WORDS[bound[key]] for key in ("bound", "runner_up"))
    return f"{what}, limited by {first}, then by {second}"


def _turning(served: Served) -> str:
    """Say from how many requests on arithmetic binds decode steps, and their products with weights."""
    steps, products = served.compute_bound_at, served.products_bound_at
    if steps is None and products is None:
        return "decode steps are never limited by compute or power, and neither are their weight GEMMs"
    if steps is None:
        weights = f"are from {words.count(products or 0.0)} requests per step"
        return f"decode steps are never limited by compute or power; their weight GEMMs {weights}"
    weights = "never are" if products is None else f"from {words.count(products)}"
    return f"decode steps are limited by compute or power from {words.count(steps)} requests per step; their weight GEMMs {weights}"


def _prefixes(served: Served) -> list[tuple[str, str]]:
    plan, hits = served.plan, served.plan.hits
    if plan.serving.num_prefixes is None and hits.capacity <= 0.0:
        return []
    on_device = f"{words.percent(hits.on_device)} of {words.count(plan.stated_cached)} tokens found on the GPU"
    if hits.capacity <= 0.0:
        return [("prefixes", f"{on_device}, the rest is computed again")]
    copies = (
        f"{words.gibibytes(hits.loaded)} per request are loaded in {words.seconds(hits.load)}, "
        f"{words.gibibytes(hits.stored)} are stored"
    )
    line = (
        f"{on_device}, {words.percent(hits.on_host)} on the host ({words.gibibytes(hits.capacity)} per GPU); {copies}"
    )
    return [("prefixes", f"{line}; the link carries at most {words.count(hits.most)} requests/s")]


def _memory(served: Served) -> list[tuple[str, str]]:
    room = served.room
    weights = words.gibibytes(room.parameters)
    if any("parameters" in held for held in room.off_device.values()):  # the rest is an allocation's granule
        weights = "no" if room.parameters < _GRANULE else f"{weights} of the"
    taken = f"{weights} weights, {words.gibibytes(room.working)} to run steps"
    off_device = [("off device", f"{words.off_device(room.off_device)} (per GPU)")] if room.off_device else []
    if not room.fits:
        return [("memory", f"{taken}, of {words.gibibytes(room.capacity)}"), *off_device]
    there = any("key_value_cache" in held for held in room.off_device.values())
    cache = (
        f"{taken}; the cache is on the host"
        if there
        else (
            f"{taken}, {words.gibibytes(room.pool)} for the cache at {words.gibibytes(room.per_request)} per request "
            f"({words.gibibytes(room.waste)} of it in partly filled blocks)"
        )
    )
    several = served.load.limit * served.load.batches
    most = f"{words.count(several)} requests at once per replica, or {words.count(room.max_context)} tokens of a single request"
    return [("memory", cache), *off_device, ("most", most)]


def _cost(served: Served) -> str:
    money = served.money()
    line = f"{words.dollars(money['usd_per_hour'])} USD/h"
    each = money["usd_per_million_output_tokens"]
    if each is not None:
        kinds = ("input", "output")
        apart = ", ".join(f"{words.dollars(money[f'usd_per_million_{kind}_tokens_apart'])} {kind}" for kind in kinds)
        line += f", {words.dollars(each)} USD per million output tokens (priced separately: {apart})"
    return f"{line} ({money['price']})"


def _simulated(served: Served) -> str:
    simulated = served.simulated
    assert simulated is not None
    low, high = simulated.first_token_range
    each = (
        ""
        if simulated.time_per_output_token is None
        else f", {words.seconds(simulated.time_per_output_token)} per output token"
    )
    return (
        f"{simulated.requests} requests: first token {words.seconds(simulated.time_to_first_token)} "
        f"(80 % in {words.seconds(low)} .. {words.seconds(high)}){each}, {words.count(simulated.request_rate)} requests/s"
        f"{' per replica' if served.plan.replicas > 1 and served.workers is None else ''}; {simulated_percentiles(simulated)}"
    )


def _curve(served: Served) -> Grid:
    table = Grid(
        [
            number("requests"),
            number("first token"),
            number("per token"),
            number("tokens/s per user", 1),
            number("output tokens/s per GPU", 2),
            number("requests/s"),
        ]
    )
    for concurrency, steady in served.curve:
        rates: dict[str, Any] = served.rates(steady)
        each = steady.time_per_output_token
        user = rates["tokens_per_second_per_user"]
        table.add(
            words.count(concurrency),
            words.seconds(steady.time_to_first_token),
            "-" if each is None else words.seconds(each),
            "-" if user is None else words.count(user),
            words.count(rates["output_tokens_per_second_per_gpu"]),
            words.count(steady.request_rate),
        )
    return table
