"""Make the page of any answer and write it: one file, which asks nothing of any network."""

from __future__ import annotations

import importlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.output import save_text, visible
from roofsim.report.html.blocks import Code, ReportPage, Section, Shown

if TYPE_CHECKING:
    from pathlib import Path

    from jinja2 import Environment

    from roofsim.report.html.asked import AskedReport

#: Class of an answer -> the module that makes its page; of others, their text and their rows.
_PAGES: Final = {
    "Result": "of_run",
    "Comparison": "of_compare",
    "Plan": "of_plan",
    "SweepTable": "of_sweep",
    "Fit": "of_fit",
    "Served": "of_serve",
    "ServedPasses": "of_serve",
    "ServerChoices": "of_servers",
    "Timeline": "of_timeline",
    "WhatIf": "of_whatif",
    "Need": "of_need",
    "ScoredRows": "of_validate",
    "Advised": "of_advise",
    "Check": "of_check",
    "Explanation": "of_explain",
    "MemoryLedger": "of_memory",
    "MemoryView": "of_memory",
}
_GENERIC: Final = "of_any"


def page_of(answer: Any, asked: AskedReport) -> ReportPage:
    """Return the page of an answer, with the command, the Python and the scenario behind it."""
    name = next((_PAGES[kind.__name__] for kind in type(answer).__mro__ if kind.__name__ in _PAGES), _GENERIC)
    made: ReportPage = importlib.import_module(f"roofsim.report.html.{name}").page(answer, asked)
    codes = tuple(
        Code(name=title, text=visible(text))
        for title, text in (("Command", asked.command), ("Python", asked.python), ("Scenario (YAML)", asked.yaml))
        if text is not None
    )
    again = Section(title="Ask it again", blocks=codes)
    data = made.data | {"about": _about(asked)}
    return ReportPage(
        **{**made.__dict__, "sections": (*made.sections, again) if codes else made.sections, "data": data}
    )


def _about(asked: AskedReport) -> dict[str, Any]:
    from roofsim import __version__

    return {"made_by": f"roofsim {__version__}", "verb": asked.verb, "command": asked.command, "python": asked.python}


def html_page(answer: Any, asked: AskedReport) -> str:
    """Return the page of an answer as HTML."""
    page = page_of(answer, asked)
    return templates().get_template("page.html.jinja").render(page=page, data=embedded(page.data), **_files())


def html_fragment(page: ReportPage) -> str:
    """Return the sections of a page alone, for somebody else's page: they need `page.css`, and `page.js` for tips.

    They are an ``article`` without scripts or styles of its own, so that they stand in a page with a strict policy of content.
    """
    return templates().get_template("sections.html.jinja").render(page=page)


def write_page(answer: Any, asked: AskedReport, path: Path) -> None:
    """Write the page of an answer.

    Raises
    ------
    OutputError
        When it cannot be written; a file that was there is as it was.
    """
    save_text(path, html_page(answer, asked))


def embedded(data: dict[str, Any]) -> str:
    """Return data as JSON that no text in it can end: ``<``, ``>``, ``&`` and separators of lines are written as escapes."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def templates() -> Environment:
    """Return the templates of pages and their parts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=PackageLoader("roofsim.report.html"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["shown"] = lambda cell: isinstance(cell, Shown)
    made.filters["seen"] = visible
    return made


def style() -> Any:
    """Return the style of pages, as text that is put into them as it is."""
    return _files()["css"]


@cache
def _files() -> dict[str, Any]:
    """Return what is put into every page as it is: its style and its script."""
    from importlib.resources import files

    from markupsafe import Markup

    folder = files("roofsim.report.html") / "templates"
    return {name: Markup((folder / f"page.{name}").read_text(encoding="utf-8")) for name in ("css", "js")}  # ours
