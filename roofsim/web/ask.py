"""Answer a question of the page, as plain data: the one function behind the local server and the static page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from roofsim.web.problems import error_document

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Document
    from roofsim.web.verbs import VerbAnswer

#: What is asked beside the verbs.
READ, CATALOG = "read", "catalog"
#: Asked for as HTML: a whole report.
PAGE: Final = "page"
#: Everything that can be asked.
VERBS: Final = (
    *("run", "compare", "fit", "memory", "serve", "sweep"),
    *("plan", "advise", "whatif", "need", "timeline", "explain"),
    READ,
    CATALOG,
)


def ask(verb: str, request: Any) -> dict[str, Any]:
    """Answer a question; what is wrong with it is an answer, too. No file is read or written that the question names.

    Parameters
    ----------
    verb
        One of `VERBS`.
    request
        For verbs ``{"scenario": mapping, model name or text of a file, "options": {...}}``, with ``"html": False`` where only the
        data is wanted, ``"page"`` for a whole report; for ``read`` ``{"text", "name"}``; nothing for ``catalog``.

    Returns
    -------
    dict
        With ``ok``. An answer holds ``data`` (what ``--json`` prints; seconds, bytes, FLOP/s, bytes per second, dollars), ``html``,
        ``charts`` (what its pictures are drawn of), ``headline``, ``command``, ``python``, ``yaml``, ``warnings`` and the
        ``seconds`` that it took; an error ``message``, ``key``, ``option``, ``line``, ``expected``, ``found`` and ``near``.
    """
    from roofsim.output import without_files

    started = time.perf_counter()
    try:
        with without_files():
            answer = _answered(verb, request)
    except Exception as error:  # a page shows whatever went wrong
        answer = error_document(error, str(verb))
    return answer | {"verb": str(verb)[:80], "seconds": time.perf_counter() - started}


def _answered(verb: str, request: Any) -> dict[str, Any]:
    from roofsim.errors import Place, Problem, SpecError, UnknownNameError, did_you_mean

    if verb not in VERBS:
        raise UnknownNameError(
            Problem(f"there is no {str(verb)[:60]!r} to ask", hint=did_you_mean(str(verb)[:60], VERBS))
        )
    if not isinstance(request, dict):
        raise SpecError(Problem(f"expected a mapping; got {type(request).__name__}", Place("request")))
    if verb == CATALOG:
        from roofsim.web.catalog import catalog

        return {"ok": True, **catalog()}
    if verb == READ:
        from roofsim.web.pasted import read_pasted

        return {"ok": True, **read_pasted(request)}
    return _asked(verb, request)


def _asked(verb: str, request: dict[str, Any]) -> dict[str, Any]:
    from roofsim.web.options import read_options
    from roofsim.web.scenario import read_scenario
    from roofsim.web.verbs import ANSWERED

    options = read_options(verb, request.get("options"))
    document = read_scenario(verb, request.get("scenario"))
    answered = ANSWERED[verb](document, options)
    return {
        "ok": True,
        "data": answered.data,
        **_shown(verb, document, options, answered, request.get("html")),
    }


def _shown(verb: str, document: Document, options: dict[str, Any], answered: VerbAnswer, html: Any) -> dict[str, Any]:
    """Return what the page shows beside the data."""
    from roofsim.report.html.asked import AskedReport
    from roofsim.web.command import command_of, stated

    scenario = stated(document.data)
    asked = AskedReport(
        verb=verb,
        command=command_of(verb, scenario, options),
        scenario=scenario,
        arguments=options | answered.arguments,
        **answered.shown,
    )
    shown: dict[str, Any] = {
        "command": asked.command,
        "python": asked.python,
        "yaml": asked.yaml,
        "warnings": list(getattr(answered.answer, "warnings", ())),
    }
    if html is False:
        return shown
    from roofsim.report.html.page import html_fragment, html_page, page_of

    page = page_of(answered.answer, asked)
    shown["headline"] = page.headline
    if html == PAGE:
        return shown | {"html": html_page(answered.answer, asked)}
    charts = {key: value for key, value in page.data.items() if key not in ("answer", "about")}
    return shown | {"html": html_fragment(page), **charts}
