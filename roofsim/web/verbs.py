"""Answer each verb through the Python function of its name, and say what its ``--json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass, field
from roofsim.web.watch import tell, told_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofsim.spec.reading.source import Document

    Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class VerbAnswer:
    """The answer of a verb.

    Attributes
    ----------
    answer
        What the Python function returns.
    data
        What ``--json`` prints.
    arguments
        What the Python function is given otherwise than the options say.
    shown
        What its report takes beside the question (`AskedReport`).
    """

    answer: Any
    data: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)


def _plain(answer: Any) -> VerbAnswer:
    return VerbAnswer(answer=answer, data=answer.to_dict())


def _run(document: Document, options: Options) -> VerbAnswer:
    from roofsim.api import answer, resolve_document
    from roofsim.decide.long_job import cost_of_job, read_work
    from roofsim.evaluate import evaluate

    work = read_work(options)
    evaluation = evaluate(resolve_document(document), with_curve=True)
    result = answer(evaluation)
    data: dict[str, Any] = result.to_dict()
    shown: dict[str, Any] = {"evaluation": evaluation}
    if work is not None:
        cost = cost_of_job(evaluation, result, work, "")
        data |= {"job": cost.to_dict()}
        shown |= {"printed": data, "also": (cost,)}
    # Python asks for the result alone.
    return VerbAnswer(answer=result, data=data, arguments=dict.fromkeys(options), shown=shown)


def _compare(document: Document, options: Options) -> VerbAnswer:
    from roofsim.api import answer, resolve_document
    from roofsim.compare.build import compare_document
    from roofsim.spec.settle.cards import read_cards

    cards = read_cards(options.get("gpus", ()), "cards")
    wanted = {"sort": options.get("sort"), "prices": options.get("prices")}
    return _plain(compare_document(document, cards, resolve_document, answer, progress=told_of, **wanted))


def _serve(document: Document, options: Options) -> VerbAnswer:
    from roofsim.api import resolve_document
    from roofsim.search.serving.search import search_servers
    from roofsim.serve.any_model import serve_any
    from roofsim.serve.target import read_target

    target = read_target(*(options.get(name) for name in _BOUNDS), shown="--")
    axes = options.get("axes")
    if axes and target is not None:
        return _plain(search_servers(document, axes, target, resolve_document, k=options.get("top", _SERVERS)))
    return _plain(serve_any(document, resolve_document, simulated=options.get("simulated", False), target=target))


def _sweep(document: Document, options: Options) -> VerbAnswer:
    from roofsim.api import answer, import_model
    from roofsim.errors import Place, Problem, SpecError
    from roofsim.search.sweep import sweep_document
    from roofsim.search.table import worked_out

    if "axes" not in options:
        raise SpecError(Problem("expected at least one axis", Place("--axis")))
    figures = tuple(part.strip() for part in options.get("figures", "").split(",") if part.strip())
    wanted = worked_out(figures)
    table = sweep_document(document, options["axes"], answer, import_model, figures=wanted, progress=told_of)
    if not table.feasible.any():
        raise SpecError(f"no point is possible: {table.refusals.text(0)}")
    return VerbAnswer(answer=table, data=table.to_dict(), arguments={"figures": wanted}, shown={"figures": figures})


def _plan(document: Document, options: Options) -> VerbAnswer:
    from roofsim.plans import TOP, plan_servers, planning_tools
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.plan import plan_asked
    from roofsim.search.planning.running import Spread
    from roofsim.serve.target import read_target

    asked = PlanRequest.of(
        options.get("gpus"),
        options.get("gpu"),
        options.get("objective", "step_time"),
        options.get("constraints", ()),
        options.get("axes"),
        options.get("fixed", ()),
        shown="--",
        also=options.get("also", ()),
    )
    target = read_target(*(options.get(name) for name in _BOUNDS), shown="--")
    top = options.get("top", TOP)
    if target is not None:
        return _plain(plan_servers(document, asked, target, k=top, progress=told_of))
    spread = Spread(watch=lambda progress: tell(progress.done, progress.of))
    robust = options.get("robust", False)
    return _plain(plan_asked(document, asked, planning_tools(), k=top, robust=robust, spread=spread))


def _memory(document: Document, options: Options) -> VerbAnswer:
    import roofsim

    view = roofsim.memory(document, **options)  # type: ignore[arg-type]
    return VerbAnswer(answer=view, data=view.rows if hasattr(view, "view") else [view.to_dict()])


def _advise(document: Document, _: Options) -> VerbAnswer:
    from roofsim.decide.advise import advise_documents
    from roofsim.web.command import command_of

    words = command_of("whatif", document.data, {}).removeprefix("roofsim whatif ")
    return _plain(advise_documents([(words.partition(" ")[0], document, words)], progress=told_of))


def _whatif(document: Document, options: Options) -> VerbAnswer:
    from roofsim.decide.whatif import whatif_document

    given = {name: options[name] for name in ("also", "each", "by") if name in options}
    return _plain(whatif_document(document, options.get("changes", ()), origins=("--set", "--also"), **given))


def _need(document: Document, options: Options) -> VerbAnswer:
    from roofsim.decide.need import need_document
    from roofsim.decide.target import TARGETS, read_target

    asked = {name: options.get(name) for name in TARGETS}
    return _plain(need_document(document, read_target(asked, options.get("tokens"), flags=True)))


def _function(name: str) -> Callable[[Document, Options], VerbAnswer]:
    """Return what answers through the public function of a name."""

    def ask(document: Document, options: Options) -> VerbAnswer:
        import roofsim

        return _plain(getattr(roofsim, name)(document, **options))

    return ask


_BOUNDS: Final = ("ttft", "tpot", "percentile")
#: Servers that are shown of a search.
_SERVERS: Final = 10

#: Verb -> what answers it, with the places that the command line names.
ANSWERED: Final[dict[str, Callable[[Document, Options], VerbAnswer]]] = {
    "run": _run,
    "compare": _compare,
    "fit": _function("fit"),
    "memory": _memory,
    "serve": _serve,
    "sweep": _sweep,
    "plan": _plan,
    "advise": _advise,
    "whatif": _whatif,
    "need": _need,
    "timeline": _function("timeline"),
    "explain": _function("explain"),
}
