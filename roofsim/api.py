"""The recipe: resolve a scenario, build its program, price it, and say what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.bottleneck import bottleneck
from roofsim.analyze.distance import own_kernels, spread
from roofsim.analyze.goodput import goodput_of
from roofsim.analyze.intervals import around, interval_parts, interval_rows, nearly_full
from roofsim.analyze.ledger import memory_of
from roofsim.analyze.money import cost
from roofsim.analyze.networks import networks_of
from roofsim.analyze.provenance import provenance
from roofsim.analyze.result import Result
from roofsim.analyze.stated import scenario_of
from roofsim.analyze.throughput import tokens_read, units_per_step
from roofsim.analyze.utilization import utilization_of
from roofsim.analyze.warnings_of_results import warnings_of
from roofsim.analyze.watts import drawn_watts
from roofsim.analyze.work import parameters_of, work_of
from roofsim.errors import Place, Problem, SpecError
from roofsim.evaluate import Evaluation, evaluate
from roofsim.numeric import Real, divide, exactly, real
from roofsim.spec.resolve import Resolved, Resolver
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roofsim.compare.rows import Comparison
    from roofsim.search.fitting.answer import Fit
    from roofsim.search.resolving import Shared
    from roofsim.search.table import SweepTable
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Imported
    from roofsim.spec.scenario.workload import Scenario


def run(scenario: str | Path | dict[str, Any] | Scenario, **overrides: Any) -> Result:
    """Predict one scenario.

    Parameters
    ----------
    scenario
        A path, a catalog model name, a mapping of the form of a scenario file, or a `Scenario`.
    overrides
        Values for ``section.key``, written with two underscores (``workload__micro_batch_size=8``), or by the short
        names of the command line (``gpu="h100"``, ``precision="bf16"``).

    Returns
    -------
    Result
        Seconds, bytes, FLOPs and bytes per second; floats, or arrays of the broadcast shape of the sizes that are arrays.

    Raises
    ------
    SpecError
        When the request is wrong; the message says where and what would be right.
    """
    return answer(evaluate(resolve(scenario, **overrides)))


def sweep(
    scenario: str | Path | dict[str, Any] | Scenario,
    axes: Mapping[str, Iterable[Any]],
    *,
    figures: str | Sequence[str] | None = None,
    **overrides: Any,
) -> SweepTable:
    """Predict every combination of values of some keys of a scenario.

    Parameters
    ----------
    axes
        Key of the scenario -> its values, as a scenario file has them: ``{"parallel.tensor": [1, 2, 4], "hardware.gpu": ["a100",
        "h100"], "hardware.override.gpu.memory.bandwidth": [2e12, "4 TB/s", "2x"]}``. Any key is an axis: of the model (fields of a
        model in the catalog too: ``model.num_layers``), the workload, the layout, the hardware. None stands for the scenario's own
        value.
    figures
        Which figures to keep, by dotted key or section: ``["step_time", "memory"]``, or a single one, ``"step_time"``. All, if left
        out. Without `bound`, `bandwidth_bound`, `runner_up` and `elasticity` a sweep takes a third of the time: no hardware is
        priced but what is stated.
    overrides
        Values for all points, as for `run`; of a key that is an axis only where None is among its values.

    Returns
    -------
    SweepTable
        One array per figure, one dimension per axis. Each point equals `run` of its scenario; points that `run` refuses are not
        feasible, and say why.

    Raises
    ------
    SpecError
        For an axis that is wrong: a key that no scenario has, values that are no list; for a figure that no point has; and for what
        is wrong with the scenario itself, whatever the axes say.
    """
    from roofsim.search.sweep import sweep_document

    document = load_scenario(scenario, overrides)
    return sweep_document(document, axes, answer, import_model, figures=figures, keywords=overrides)


def compare(
    scenario: str | Path | dict[str, Any] | Scenario,
    gpus: str | Sequence[str] = (),
    *,
    sort: str | None = None,
    prices: Mapping[str, float | str] | str | None = None,
    **overrides: Any,
) -> Comparison:
    """Predict one scenario on several cards, and say who wins.

    Parameters
    ----------
    gpus
        Cards, with counts, systems and what-ifs as on the command line: ``["a100", "8xh100", "2x(dgx-h100)",
        "a100{memory.bandwidth=2x}"]``; five usual cards, if left out. `gpu` is another name of it.
    sort
        ``speed``, ``step``, ``cost``, ``price``, ``energy``, ``memory``, ``mfu`` or ``label``; as given, if left out.
    prices
        What you pay for an hour of a card or a system, in dollars: ``{"h100": 2.50}``.

    Returns
    -------
    Comparison
        A row per card, in the order of `sort`; times in seconds, memory in bytes, costs in dollars.

    Raises
    ------
    SpecError
        When the request is wrong. A card that cannot run the scenario is not an error: its row says why, and what would run.
    """
    from roofsim.compare.build import compare_document
    from roofsim.spec.settle.cards import read_cards

    if "gpu" in overrides and gpus:
        raise SpecError(Problem("expected one list of cards; got two", Place("gpus"), hint="Leave gpu= out."))
    cards = read_cards(overrides.pop("gpu", gpus), "gpus")
    document = load_scenario(scenario, overrides)
    return compare_document(document, cards, resolve_document, answer, sort=sort, prices=prices)


def fit(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    largest: str | None = None,
    fewest: str | None = None,
    family: str | None = None,
    **overrides: Any,
) -> Fit:
    """Say whether a scenario fits in memory, and search for what does.

    Parameters
    ----------
    largest
        ``micro-batch-size``, ``sequence-length``, ``image-size``, ``context-length`` or ``model``: search for the largest.
        Left out, it is the micro batch, and with what does not fit come the changes that make it fit.
    fewest
        ``gpus``: search for the smallest number of them.
    family
        With ``largest="model"``: a folder of the catalog or a prefix (``gpt3``, ``decoder``).

    Returns
    -------
    Fit
        Bytes of the scenario and of what fits, with the largest value that fits and the next, which does not.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    from roofsim.search.fitting.answer import fit_document

    document = load_scenario(scenario, overrides)
    return fit_document(document, resolve_document, largest=largest, fewest=fewest, family=family)


def serve(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    percentile: float | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
    top: int = 10,
    requests: str | Path | None = None,
    simulated: bool = False,
    **overrides: Any,
) -> Any:
    """Say what a server does under a load: latencies, rates, limits, what fits, what tokens or images cost.

    Parameters
    ----------
    scenario
        With ``workload.prompt_length``, ``workload.output_length`` and a load: ``workload.concurrency`` (requests
        that are always in flight), ``workload.request_rate`` (requests that arrive per second), or neither (as many as fit).
        Models that answer in one pass have no lengths of prompt and output: their requests are batched dynamically
        (``workload.serving``: max_batch_size, max_queue_delay, latency_bound).
    ttft, tpot, percentile
        Bounds on the time to the first token and per token behind it (``"500ms"``, or seconds), and the percent of the requests
        for which each must hold (90, if left out). The answer is then for the server that keeps them: as many replicas as
        ``workload.request_rate`` needs, or, without one, for the largest rate (``answer.sized``).
    axes, top
        With bounds: key of the scenario -> values (``{"gpu": ["h100", "h200"], "parallel.tensor": [1, 2, 4]}``; keywords may be
        lists as well). The answer is then the cheapest servers that keep the bounds, and how many of them.
    requests
        A CSV or JSONL file of requests (prompt, output and, if known, arrival in seconds): their mean lengths and their rate, in
        place of those of the scenario. A simulation runs them as they are.
    simulated
        Run the same server step by step beside the estimate (of models that generate tokens: needs simpy).

    Returns
    -------
    Served, ServedPasses or ServerChoices
        Of a model that generates tokens, or answers in one pass. Latencies in seconds, rates in requests and tokens per second,
        memory in bytes per GPU, costs in dollars.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    from roofsim.errors import Place
    from roofsim.serve.any_model import serve_any
    from roofsim.serve.request_log import read_requests
    from roofsim.serve.target import read_target

    target = read_target(ttft, tpot, percentile)
    log = None if requests is None else read_requests(requests, Place("requests"))
    if target is not None:
        from roofsim.search.serving.asked import split_keywords

        overrides, several = split_keywords(overrides, axes)
        if several:
            from roofsim.search.serving.search import search_servers

            document = load_scenario(scenario, overrides)
            document = document if log is None else log.on(document)
            return search_servers(document, several, target, resolve_document, k=top)
    document = load_scenario(scenario, overrides)
    return serve_any(document, resolve_document, simulated=simulated, target=target, requests=log)


def resolve(scenario: str | Path | dict[str, Any] | Scenario, **overrides: Any) -> Resolved:
    """Find everything a scenario names and write out its defaults.

    Returns
    -------
    Resolved
        Hardware, model and engine as their files say, sizes as numbers; seconds, bytes, FLOP/s and bytes per second.

    Raises
    ------
    SpecError
        When the request is wrong; the message says where and what would be right.
    """
    return resolve_document(load_scenario(scenario, overrides))


def resolve_document(document: Document, shared: Shared | None = None) -> Resolved:
    """Resolve a request that was read (and perhaps changed by flags) already; `shared` keeps what others like it have as well."""
    return (Resolver(document, import_model) if shared is None else shared.resolver(document, import_model)).run()


def import_model(given: Path | dict[str, Any], where: str) -> Imported:
    """Read a model that is written in somebody else's words (a Hugging Face config), a file or what was in one."""
    from roofsim.importers.any_model import import_model

    return import_model(given, where)


def answer(evaluation: Evaluation, *, limits: bool = True, work: bool = True) -> Result:
    """Say what an evaluation means; of several points figures are arrays without texts.

    Without `limits`: not what binds it; without `work`: no table of work by class of op.
    """
    resolved, step = evaluation.resolved, evaluation.step
    used = utilization_of(evaluation)
    memory = memory_of(evaluation)
    binds = bottleneck(step, evaluation.reprice) if limits else None
    terms = interval_parts(evaluation, crowded=nearly_full(memory, resolved.constants.physics["nearly_full"]))
    several = resolved.points > 1
    return Result(
        scenario={} if several else scenario_of(resolved),
        step_time=step.step,
        step_time_interval=around(step.step, *spread(terms)),
        interval_terms=terms,
        own_kernels=own_kernels(evaluation).share,
        throughput=_throughput(evaluation),
        latency=_latency(evaluation),
        model_flops=used.model,
        hardware_flops=used.hardware,
        mfu=used.mfu,
        hfu=used.hfu,
        utilization=used,
        bound=None if binds is None else binds.bound,
        runner_up=None if binds is None else {"bound": binds.runner_up, "headroom": binds.headroom},
        time=step.breakdown,
        host_time=step.host,
        device_time=step.busy,
        waits=step.waits,
        parameters=parameters_of(evaluation),
        work=work_of(evaluation) if work else {},
        memory=memory,
        elasticity=None if binds is None else binds.elasticity,
        cost=_cost(evaluation, drawn_watts(evaluation)),
        warnings=() if several else (*resolved.warnings, *warnings_of(evaluation, memory)),
        assumed=resolved.assumed,
        provenance=() if several else (*provenance(resolved), *interval_rows(terms), *_assumed(resolved)),
        goodput=goodput_of(evaluation),
        networks=networks_of(evaluation),
    )


def _assumed(resolved: Resolved) -> list[dict[str, Any]]:
    return [{"what": "assumed", "value": text, "source": "not stated in the scenario"} for text in resolved.assumed]


def _throughput(evaluation: Evaluation) -> dict[str, Real | None]:
    resolved, step = evaluation.resolved, evaluation.step.step
    samples, units, unit = units_per_step(resolved)
    tokens = divide(units, step) if unit == "tokens" else None
    rates: dict[str, Real | None] = {
        "tokens_per_second": tokens,
        "samples_per_second": divide(samples, step * _steps_per_sample(resolved)),
        "tokens_per_second_per_gpu": None if tokens is None else tokens / real(resolved.gpus),
        "prefill_tokens_per_second": None,
        "decode_tokens_per_second": None,
        "output_tokens_per_second": None,
    }
    if resolved.workload.phase in ("prefill", "generate"):
        prompt = samples / real(resolved.workload.num_return_sequences or 1) * tokens_read(resolved)
        rates["prefill_tokens_per_second"] = divide(prompt, evaluation.stage_time("prefill"))
    if resolved.workload.phase in ("decode", "generate"):
        decode = evaluation.stage_time("decode")
        rates["decode_tokens_per_second"] = None if _is_zero(decode) else divide(samples, decode)
    if resolved.workload.phase == "generate":
        rates["output_tokens_per_second"] = divide(units, step)
    return rates


def _steps_per_sample(resolved: Resolved) -> Real:
    """Return how many steps a sample takes: a sequence that is decoded is done once its output is."""
    return real(resolved.workload.output_length) if resolved.workload.phase == "decode" else 1.0


def _is_zero(value: Real) -> bool:
    return exactly(value, 0.0)


def _latency(evaluation: Evaluation) -> dict[str, Real | None]:
    phase, step = evaluation.resolved.workload.phase, evaluation.step.step
    latencies: dict[str, Real | None] = {"time_to_first_token": None, "time_per_output_token": None, "end_to_end": None}
    if phase == "train":
        return latencies
    latencies["end_to_end"] = step
    if phase in ("prefill", "generate"):
        latencies["time_to_first_token"] = evaluation.stage_time("prefill")
    if phase in ("decode", "generate"):
        decode = evaluation.stage_time("decode")
        latencies["time_per_output_token"] = None if _is_zero(decode) else decode
    return latencies


def _cost(evaluation: Evaluation, watts: Real | None) -> dict[str, Any]:
    resolved = evaluation.resolved
    _, units, unit = units_per_step(resolved)
    return cost(resolved.gpu, resolved.system, resolved.gpus, evaluation.step.step, units, unit, watts)
