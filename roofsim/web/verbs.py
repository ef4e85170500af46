"""Answer each verb through the Python function of its name, and say what its ``--json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass, field

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
    shown
        What its report takes beside the question (`AskedReport`).
    """

    answer: Any
    data: Any
    shown: dict[str, Any] = field(default_factory=dict)


def _plain(answer: Any) -> VerbAnswer:
    return VerbAnswer(answer=answer, data=answer.to_dict())


def _run(document: Document, options: Options) -> VerbAnswer:
    from roofsim.api import answer, resolve_document
    from roofsim.evaluate import evaluate

    evaluation = evaluate(resolve_document(document), with_curve=True)
    result = answer(evaluation)
    return VerbAnswer(answer=result, data=result.to_dict(), shown={"evaluation": evaluation})


def _sweep(document: Document, options: Options) -> VerbAnswer:
    import roofsim
    from roofsim.errors import Place, Problem, SpecError
    from roofsim.search.table import with_fits

    if "axes" not in options:
        raise SpecError(Problem("expected at least one axis", Place("--axis")))
    figures = tuple(map(str, options.get("figures", ())))
    table = roofsim.sweep(document, options["axes"], figures=with_fits(figures))  # type: ignore[arg-type]
    if not table.feasible.any():
        raise SpecError(f"no point is possible: {table.refusals.text(0)}")
    return VerbAnswer(answer=table, data=table.to_dict(), shown={"figures": figures})


def _memory(document: Document, options: Options) -> VerbAnswer:
    import roofsim

    view = roofsim.memory(document, **options)  # type: ignore[arg-type]
    return VerbAnswer(answer=view, data=view.rows if hasattr(view, "view") else [view.to_dict()])


def _advise(document: Document, options: Options) -> VerbAnswer:
    from roofsim.decide.advise import advise_documents
    from roofsim.web.command import command_of

    data = document.data
    words = command_of("whatif", data, {}).removeprefix("roofsim whatif ")
    return _plain(advise_documents([(words.partition(" ")[0], document, words)]))


def _function(name: str) -> Callable[[Document, Options], VerbAnswer]:
    """Return what answers through the public function of a name."""

    def ask(document: Document, options: Options) -> VerbAnswer:
        import roofsim

        return _plain(getattr(roofsim, name)(document, **options))

    return ask


ANSWERED: Final[dict[str, Callable[[Document, Options], VerbAnswer]]] = {
    "run": _run,
    "sweep": _sweep,
    "memory": _memory,
    "advise": _advise,
    **{name: _function(name) for name in ("compare", "fit", "serve", "plan", "whatif", "need", "timeline", "explain")},
}
