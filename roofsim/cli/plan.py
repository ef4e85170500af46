"""Search layouts for the best: ``roofsim plan llama3-405b --gpu h100 --gpus 1024 --engine megatron-core``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roofsim.cli.flags import PICTURES, Choice, Csv, Dark, Emit, Html, Json, Scenario
from roofsim.cli.job import jobs_of, with_job, work_of
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.servers import Percentile, Tpot, Ttft, of_one_server, print_choices
from roofsim.cli.words import Option
from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.decide.long_job import JobCost, Work
    from roofsim.search.planning.answer import Plan

OBJECTIVES = ("step_time", "cost", "tokens_per_usd", "tokens_per_joule", "memory")

Gpus = Annotated[
    str | None,
    Option(
        "--gpus",
        metavar="N",
        panel="Axes",
        help="How many GPUs: 512, 64,128,256, or 64..4096 (doubling; 64..512:+64 for steps). [default: the scenario's]",
    ),
]
Gpu = Annotated[
    str | None,
    Option("--gpu", metavar="NAME,NAME", panel="Axes", help="Cards to try: a100,h100. [default: the scenario's]"),
]
Objective = Annotated[
    str,
    Choice(
        "--objective", OBJECTIVES, "What the best has least, or most tokens, of.", default="step_time", panel="Axes"
    ),
]
Constraints = Annotated[
    list[str] | None,
    Option(
        "--constraint",
        metavar="'FIGURE < VALUE'",
        panel="Axes",
        help="A condition on a figure of the result: 'memory < 70 GiB', 'step_time < 12 s', 'mfu > 0.4'. May be repeated.",
    ),
]
AxisTexts = Annotated[
    list[str] | None,
    Option(
        "--axis",
        metavar="KEY=VALUES",
        panel="Axes",
        help="Values of a key in place of those that the search would try, or of one that it would leave alone: "
        "parallel.tensor=4,8, workload.precision=bf16,fp8, parallel.schedule=1f1b,zero-bubble. May be repeated.",
    ),
]
Fix = Annotated[
    list[str] | None,
    Option("--fix", metavar="KEY", panel="Axes", help="Keep what the scenario says of a key. May be repeated."),
]
Also = Annotated[
    list[str] | None,
    Option(
        "--also",
        metavar="NAME",
        panel="Axes",
        help="Try this too: recompute-counts (the first 1, 2, 4 ... layers of a stage), offload (state on the host), options "
        "(the engine's switches for overlap, fusion and launches); of servers that keep --ttft or --tpot: pipeline, "
        "disaggregation (prompts and decode steps on workers of their own). May be repeated.",
    ),
]
Top = Annotated[int, Option("--top", minimum=1, metavar="N", help="How many layouts to show.")]
Exhaustive = Annotated[
    bool, Option("--exhaustive", panel="Axes", help="Price every layout that fits; leave none out by a bound.")
]


Robust = Annotated[
    bool,
    Option(
        "--robust",
        panel="Axes",
        help="Choose the layout that may be behind the others by the least, at the ends of the 80 % intervals.",
    ),
]
Plot = Annotated[
    Path | None,
    Option("--plot", metavar="FILE.png", help="Draw the front and the best with their intervals (.png, .svg, .pdf)."),
]
Jobs = Annotated[
    int, Option("--jobs", minimum=1, metavar="N", panel="Work", help="Search in N processes. The answer is the same.")
]
Scheduler = Annotated[
    str | None,
    Option(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        panel="Work",
        help="Search on the workers of a Dask scheduler (pip install 'roofsim[dask]'). The answer is the same.",
    ),
]
Resume = Annotated[
    Path | None,
    Option(
        "--resume",
        metavar="DIR",
        panel="Work",
        help="Keep what was searched in a folder, and go on from what is there: after Ctrl-C, or where a machine stopped.",
    ),
]
Block = Annotated[
    str | None,
    Option(
        "--block",
        metavar="I/N",
        panel="Work",
        help="Search part I of N alone, as one job of a batch system; the results go to the folder of --resume.",
    ),
]
Merge = Annotated[
    list[str] | None,
    Option(
        "--merge",
        metavar="PATH",
        panel="Work",
        help="Answer from the results of all parts: a folder that --block wrote to, or a file of it. May be repeated.",
    ),
]


@scenario_options(leave_out=(*LONG_RUNS, "gpu", "gpus"), job=True)
def plan(
    *,
    scenario: Scenario,
    gpus: Gpus = None,
    gpu: Gpu = None,
    objective: Objective = "step_time",
    constraint: Constraints = None,
    axis: AxisTexts = None,
    fix: Fix = None,
    also: Also = None,
    top: Top = 10,
    exhaustive: Exhaustive = False,
    robust: Robust = False,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    resume: Resume = None,
    block: Block = None,
    merge: Merge = None,
    ttft: Ttft = None,
    tpot: Tpot = None,
    percentile: Percentile = None,
    plot: Plot = None,
    dark: Dark = False,
    emit: Emit = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    job: dict[str, str | None] | None = None,
    overrides: Overrides,
) -> None:
    """Find the best layout on some GPUs: the first ten, how they differ, and a bound that none can beat."""
    from roofsim.cli.progress import SearchBar
    from roofsim.importers.launch.table import table_of
    from roofsim.plans import plan_servers, planning_tools
    from roofsim.report.plan import amount
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.plan import nothing_possible, part_asked, plan_asked
    from roofsim.search.planning.running import Spread, read_share
    from roofsim.search.written_axes import read_written_axes
    from roofsim.serve.target import read_target

    checked_path(plot, *PICTURES)
    if emit is not None:
        table_of(emit)  # a slip is told before the search
    work = work_of(job)
    checked_report(html)
    axes = read_written_axes(axis or [])
    asked = PlanRequest.of(gpus, gpu, objective, constraint or (), axes, fix or (), shown="--", also=also or ())
    if (target := read_target(ttft, tpot, percentile, shown="--")) is not None:
        steps = {
            "--robust": robust,
            "--scheduler": scheduler,
            "--resume": resume,
            "--block": block,
            "--merge": merge,
            "--emit": emit,
            "--plot": plot,
        }
        of_one_server(steps)
        document = document_of(scenario, overrides)
        bounds = {"ttft": ttft, "tpot": tpot, "percentile": None if percentile is None else float(percentile)}
        choices = plan_servers(document, asked, target, k=top, cuts=not exhaustive)
        print_choices(choices, json=json, csv=csv)
        write_report(html, choices, "plan", document, {**bounds, "gpus": gpus, "gpu": gpu, "axes": axes, "top": top})
        return
    share = None if block is None else read_share(block)
    if share is not None and resume is None:
        hint = "For example --block 3/10 --resume results, and in the end --merge results."
        raise SpecError(Problem("expected the folder that the results go to", Place("--block"), hint=hint))
    document, tools = document_of(scenario, overrides), planning_tools()
    with SearchBar("searching", lambda least: amount(objective, least)) as bar, _kept(resume):
        spread = Spread(
            jobs=jobs,
            scheduler=scheduler,
            folder=resume,
            share=share,
            merge=tuple(map(Path, merge or ())),
            watch=lambda progress: bar.show(progress.done, progress.of, progress.least),
        )
        if share is not None:
            done, of = part_asked(document, asked, tools, k=top, cuts=not exhaustive, robust=robust, spread=spread)
            write_text(f"{done:,} of {of:,} layouts searched; their results are in {resume}.\n")
            return
        answer = plan_asked(document, asked, tools, k=top, cuts=not exhaustive, robust=robust, spread=spread)
    if answer.best is None and not json:
        raise nothing_possible(answer)
    if plot is not None:
        from roofsim.report.figure import look
        from roofsim.report.plan_plot import draw_plan

        with look(dark=dark):
            draw_plan(answer, plot)
    if emit is not None:
        write_text(_launched(scenario, overrides, answer, emit))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        _print(answer, _costs(scenario, overrides, answer, work), json=json)
    written = {
        "gpus": gpus,
        "gpu": gpu,
        "objective": objective,
        "constraints": constraint,
        "axes": axes,
        "fixed": fix,
        "top": top,
    }
    write_report(html, answer, "plan", document, written)


def _costs(scenario: str, overrides: Overrides, plan: Plan, work: Work | None) -> list[JobCost]:
    """Return what the work takes with each of the layouts that are shown."""
    if work is None:
        return []
    from roofsim.api import answer, resolve_document
    from roofsim.evaluate import evaluate
    from roofsim.search.planning.winners import with_changes
    from roofsim.spec.prices import of_market

    document = document_of(scenario, overrides)
    with of_market(plan.market):
        evaluations = [evaluate(resolve_document(with_changes(document, one.changes))) for one in plan.top]
    labels = [f"{place}. {one.gpus}x{one.gpu}" for place, one in enumerate(plan.top, 1)]
    return jobs_of([(each, answer(each)) for each in evaluations], work, labels)


def _print(answer: Plan, costs: list[JobCost], *, json: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(with_job(answer.to_dict(), costs)))
    else:
        from roofsim.report.plan import print_plan

        print_plan(console(), answer)
        if costs:
            from roofsim.report.job import print_jobs

            print_jobs(console(), costs)


@contextmanager
def _kept(folder: Path | None) -> Iterator[None]:
    """Say after Ctrl-C that what was searched is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None:
            sys.stderr.write(f"Stopped. The same command goes on from the results in {folder}.\n")
        raise


def _launched(scenario: str, overrides: Overrides, plan: Plan, program: str) -> str:
    """Return the winner as a launch command of a program."""
    from roofsim.analyze.stated import scenario_of
    from roofsim.api import resolve_document
    from roofsim.importers.launch.write import launch_command
    from roofsim.search.planning.winners import with_changes

    assert plan.best is not None
    resolved = resolve_document(with_changes(document_of(scenario, overrides), plan.best.changes))
    return launch_command(scenario_of(resolved), program, per_node=int(resolved.system.gpus_per_node))
