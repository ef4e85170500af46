"""Answer a call of a tool: the same functions as behind the verbs of the command line, on a document that was read once."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.agents import catalog
from roofsim.agents.tools import check_names, tool_form, tool_named
from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.report.printed import line_of, text_of
from roofsim.report.tabular import to_json
from roofsim.spec.reading.told_apart import STANDARD_INPUT
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document

    #: Is told how far an answer is: done, of how many.
    Watch = Callable[[int, int], None]
    Options = Mapping[str, Any]

#: Points of a sweep that are predicted for one call.
MOST_POINTS: Final = 20_000
#: Characters of a call's arguments.
LONGEST_REQUEST: Final = 1_000_000
#: Types of JSON -> what they are in Python, and in words.
_KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "string": ((str,), "a text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "object": ((dict,), "a mapping"),
    "array": ((list,), "a list"),
}


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """The answer to a call.

    Attributes
    ----------
    data
        What ``--json`` prints.
    line, text
        The answer in a line, and as the command line prints it.
    """

    data: dict[str, Any]
    line: str
    text: str


def tool_answer(name: str, arguments: dict[str, Any], watch: Watch = lambda _done, _of: None) -> ToolAnswer:
    """Answer a call of a tool.

    Raises
    ------
    SpecError
        When the request is wrong; the message is that of the command line.
    NoDataError
        For a figure that the catalog does not have.
    """
    check_arguments(name, arguments)
    given = {key: value for key, value in arguments.items() if value is not None}
    if not tool_named(name).scenario:
        options = {key: value for key, value in given.items() if key not in ("keys", "start")}
        return _CATALOGS[name](options)
    document = _document(given["scenario"], given.get("overrides") or {})
    answer = _ANSWERS[name](document, given, watch)
    line = line_of(answer).removeprefix(f"<{type(answer).__name__}: ").removesuffix(">")
    return ToolAnswer(data=json.loads(to_json(answer.to_dict())), line=line, text=text_of(answer))


def check_arguments(name: str, arguments: dict[str, Any]) -> None:
    """Check names and types of what a tool was given; what it means is checked where it is used.

    Raises
    ------
    SpecError
        For an argument that the tool does not take, one that is missing, of another type, too small or too long.
    """
    tool_named(name)
    size = len(json.dumps(arguments))
    if size > LONGEST_REQUEST:
        raise SpecError(Problem(f"has {size:,} characters; a call has at most {LONGEST_REQUEST:,}", Place(name)))
    check_names(name, arguments)
    for key, value in arguments.items():
        if value is not None:
            _check_type(tool_form(name)["properties"][key], value, key)


def _check_type(form: dict[str, Any], value: Any, key: str) -> None:
    types = form["type"] if isinstance(form["type"], list) else [form["type"]]
    if not any(_is(kind, value) for kind in types):
        expected = " or ".join(_KINDS[kind][1] for kind in types)
        raise SpecError(Problem(f"expected {expected}; got {json.dumps(value)[:60]}", Place(key)))
    if isinstance(value, list) and "items" in form:
        for place, each in enumerate(value):
            _check_type(form["items"], each, f"{key}[{place}]")
    if "minimum" in form and value < form["minimum"]:
        raise SpecError(Problem(f"expected at least {form['minimum']}; got {value}", Place(key)))


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind][0])


def _document(scenario: Any, overrides: dict[str, Any]) -> Document:
    if scenario == STANDARD_INPUT:
        raise SpecError(Problem("expected a name or a mapping; standard input carries the protocol", Place("scenario")))
    return load_scenario(scenario, overrides)


def _over(watch: Watch) -> Callable[[Sequence[Any]], Iterator[Any]]:
    """Return what goes through items and tells how far it is."""

    def tracked(items: Sequence[Any]) -> Iterator[Any]:
        for place, item in enumerate(items):
            watch(place, len(items))
            yield item

    return tracked


def _evaluation(document: Document, *, with_curve: bool = False) -> Evaluation:
    from roofsim.api import resolve_document
    from roofsim.evaluate import evaluate

    return evaluate(resolve_document(document), with_curve=with_curve)


def _run(document: Document, _options: Options, _watch: Watch) -> Any:
    from roofsim.api import answer

    return answer(_evaluation(document))


def _compare(document: Document, options: Options, watch: Watch) -> Any:
    from roofsim.api import answer, resolve_document
    from roofsim.compare.build import compare_document
    from roofsim.spec.settle.cards import read_cards

    cards = read_cards(options.get("gpus") or (), "gpus")
    sort, prices = options.get("sort"), options.get("prices")
    return compare_document(document, cards, resolve_document, answer, sort=sort, prices=prices, progress=_over(watch))


def _fit(document: Document, options: Options, _watch: Watch) -> Any:
    from roofsim.api import resolve_document
    from roofsim.search.fitting.answer import fit_document

    return fit_document(document, resolve_document, **_stated(options, ("largest", "fewest", "family")))


def _plan(document: Document, options: Options, watch: Watch) -> Any:
    from roofsim.plans import TOP, plan_servers, planning_tools
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.plan import plan_asked
    from roofsim.search.planning.running import Spread

    asked = PlanRequest.of(
        options.get("gpus"),
        options.get("gpu"),
        options.get("objective", "step_time"),
        options.get("constraints") or (),
        options.get("axes"),
        options.get("fixed") or (),
        also=options.get("also") or (),
    )
    target, top = _target(options), options.get("top", TOP)
    if target is not None:
        return plan_servers(document, asked, target, k=top, progress=_over(watch))
    spread = Spread(watch=lambda progress: watch(progress.done, progress.of))
    return plan_asked(document, asked, planning_tools(), k=top, robust=options.get("robust", False), spread=spread)


def _explain(document: Document, options: Options, _watch: Watch) -> Any:
    from roofsim.analyze.explain import explain
    from roofsim.api import answer

    evaluation = _evaluation(document)
    return explain(evaluation, answer(evaluation), options.get("figure", "step_time"))


def _sweep(document: Document, options: Options, watch: Watch) -> Any:
    from roofsim.api import answer, import_model
    from roofsim.search.sweep import sweep_document

    axes: dict[str, Any] = options["axes"]
    points = math.prod(len(values) for values in axes.values() if isinstance(values, list))
    if points > MOST_POINTS:
        hint = "Give fewer values."
        raise SpecError(
            Problem(f"has {points:,} points; a call predicts at most {MOST_POINTS:,}", Place("axes"), "", hint)
        )
    figures = options.get("figures")
    return sweep_document(document, axes, answer, import_model, figures=figures, progress=_over(watch))


def _advise(document: Document, options: Options, watch: Watch) -> Any:
    from roofsim.decide.advise import advise_documents

    del options
    name = document.data.get("model") if isinstance(document.data, dict) else None
    job = (name if isinstance(name, str) else "the scenario", document, "SCENARIO")
    return advise_documents([job], None, _over(watch))


def _serve(document: Document, options: Options, _watch: Watch) -> Any:
    from roofsim.api import resolve_document
    from roofsim.search.serving.search import search_servers
    from roofsim.serve.any_model import serve_any

    target, axes = _target(options), options.get("axes")
    if axes and target is not None:
        return search_servers(document, axes, target, resolve_document, k=options.get("top", 10))
    if axes:
        hint = "`sweep` tries values without a bound."
        raise SpecError(Problem("expected a bound, ttft or tpot, beside axes", Place("axes"), hint=hint))
    return serve_any(document, resolve_document, target=target)


def _memory(document: Document, options: Options, _watch: Watch) -> Any:
    from roofsim.analyze.alive import checked_view
    from roofsim.views import memory_ledger_of, memory_view_of

    stated = _stated(options, ("by", "tensor", "curve"))
    checked_view(options.get("by"))
    if len(stated) > 1:
        raise SpecError(Problem(f"{' and '.join(stated)} are different views; give one"))
    evaluation = _evaluation(document, with_curve=True)
    if not stated:
        return memory_ledger_of(evaluation)
    return memory_view_of(evaluation, by=options.get("by"), tensor=options.get("tensor"), top=options.get("top"))


def _target(options: Options) -> Any:
    from roofsim.serve.target import read_target

    return read_target(options.get("ttft"), options.get("tpot"), options.get("percentile"))


def _stated(options: Options, names: Iterable[str]) -> dict[str, Any]:
    return {name: options[name] for name in names if options.get(name) not in (None, False)}


_ANSWERS: Final[dict[str, Callable[[Document, Options, Watch], Any]]] = {
    "run": _run, "compare": _compare, "fit": _fit, "plan": _plan, "explain": _explain, "sweep": _sweep, "advise": _advise,
    "serve": _serve, "memory": _memory,
}  # fmt: skip


def _listed(options: Options) -> ToolAnswer:
    data = json.loads(to_json(catalog.listed(**options)))
    names = [row["name"] for row in data["rows"]]
    return ToolAnswer(data=data, line=f"{len(names)} {data['catalog']}", text=", ".join(names))


def _shown(options: Options) -> ToolAnswer:
    data = json.loads(to_json(catalog.shown(**options)))
    return ToolAnswer(data=data, line=f"{data['kind']} {data.get('name', options['name'])}", text="")


_CATALOGS: Final[dict[str, Callable[[Options], ToolAnswer]]] = {"list": _listed, "show": _shown}
