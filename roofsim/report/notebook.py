"""Show answers in a notebook: the parts of their reports, under styles that reach nothing else on its page, and their pictures."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, RoofsimError, SpecError
from roofsim.numeric import is_scalar
from roofsim.records import replace
from roofsim.report import printed
from roofsim.report.html.asked import AskedReport
from roofsim.report.html.blocks import Chart, Panels, ReportPage, Section
from roofsim.report.html.page import page_of, style, templates

if TYPE_CHECKING:
    from collections.abc import Callable

#: The class under which all styles stand.
SCOPE: Final = "roofsim-answer"
#: Class of an answer -> the verb whose report it has.
_VERBS: Final = {
    "Result": "run", "Comparison": "compare", "SweepTable": "sweep", "Plan": "plan", "Fit": "fit", "Served": "serve",
    "ServedPasses": "serve", "ServerChoices": "serve", "Timeline": "timeline", "WhatIf": "whatif", "Need": "need",
    "Advised": "advise", "Check": "check", "Explanation": "explain", "OpsView": "ops", "MemoryLedger": "memory",
    "MemoryView": "memory", "CollectivesView": "collectives", "Diff": "diff", "Transplant": "transplant", "Budget": "budget",
    "Owning": "rent-or-buy", "PowerCurve": "power", "PredictedTable": "predict_batch",
}  # fmt: skip
#: How notebooks say that they are dark or light, whatever the system is: JupyterLab, VS Code, Colab.
_DARK: Final = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast", 'html[theme="dark"]')
_LIGHT: Final = ('[data-jp-theme-light="true"]', ".vscode-light", 'html[theme="light"]')


def bundle_of(answer: Any, include: Any = None, exclude: Any = None) -> dict[str, str]:
    """Return an answer in the forms that a notebook takes: its report, and its text for whatever shows no HTML."""
    made: dict[str, Callable[[Any], str]] = {"text/plain": printed.text_of, "text/html": html_of}
    wanted = [kind for kind in made if (include is None or kind in include) and not (exclude and kind in exclude)]
    return {kind: made[kind](answer) for kind in wanted}


def html_of(answer: Any) -> str:
    """Return an answer as a piece of HTML: its report, without script; a table where it has none."""
    page = _page(answer)
    if page is None:
        return printed.html_of(answer)
    page = replace(page, sections=tuple(_of_one_width(section) for section in page.sections))
    text: str = (
        templates().get_template("notebook.html.jinja").render(page=page, css=_scoped(), scope=SCOPE, hatched=False)
    )
    if "url(#hatch)" in text:
        text = (
            templates().get_template("notebook.html.jinja").render(page=page, css=_scoped(), scope=SCOPE, hatched=True)
        )
    return text


def _page(answer: Any) -> ReportPage | None:
    """Return the report of an answer; None of many points at once, and where the scenario cannot be read again."""
    name = next((kind.__name__ for kind in type(answer).__mro__ if kind.__name__ in _VERBS), None)
    if name is None or (name == "Result" and not is_scalar(answer.step_time)):
        return None
    try:
        return page_of(answer, AskedReport(verb=_VERBS[name]))
    except RoofsimError:
        return None


def _of_one_width(section: Section) -> Section:
    """Return a section whose charts are drawn once: the column of a notebook is as wide as a page."""
    return replace(section, blocks=tuple(_one_width(block) for block in section.blocks))


def _one_width(block: Any) -> Any:
    from markupsafe import Markup

    if isinstance(block, Chart):
        return replace(block, narrow=Markup())
    if isinstance(block, Panels):
        return replace(block, charts=tuple(replace(chart, narrow=Markup()) for chart in block.charts))
    return block


# -- styles ---------------------------------------------------------------------------------------------------------


@cache
def _scoped() -> Any:
    """Return the styles of reports for answers alone, in the light of the notebook."""
    from markupsafe import Markup

    css = str(style())
    light, dark = (rule[1] for rule in list(re.finditer(r":root \{([^}]*)\}", css))[:2])
    themes = [f"{_under(_LIGHT)} {{{light}}}", f"{_under(_DARK)} {{{dark}}}"]
    own = [
        f".{SCOPE} {{ padding: 12px 16px; border-radius: 6px; max-width: 840px; }}",
        f".{SCOPE} .headline {{ margin: 4px 0 8px; font-size: 20px; font-weight: 650; overflow-wrap: anywhere; }}",
        f".{SCOPE} summary {{ margin: 14px 0 6px; font-size: 16px; font-weight: 600; }}",
        f".{SCOPE} .chart, .{SCOPE} .tiles {{ margin-top: 14px; }}",
        f".{SCOPE} .copy {{ display: none; }}",
        f".{SCOPE} .wide {{ display: block; }}",
        f".{SCOPE} .narrow {{ display: none; }}",
        f".{SCOPE} tr, .{SCOPE} tr:nth-child(odd), .{SCOPE} tr:hover {{ background: none; }}",
    ]
    return Markup("\n".join([scoped(css), *themes, *own]))  # ours


def _under(places: tuple[str, ...]) -> str:
    return ", ".join(f"{place} .{SCOPE}" for place in places)


def scoped(css: str) -> str:
    r"""Return styles of a page as those of what stands in an element of our class; what is of the page itself goes to that.

    >>> print(scoped("body { margin: 0; }\nh2, .tiles dt { color: red; }\n@media print {\n  :root { --ink: #000; }\n}"))
    .roofsim-answer { margin: 0; }
    .roofsim-answer h2, .roofsim-answer .tiles dt { color: red; }
    @media print {
    .roofsim-answer { --ink: #000; }
    }
    """
    lines = []
    for part in re.finditer(r"(?P<media>@media[^{]*\{)|(?P<select>[^{}]+)\{(?P<rules>[^{}]*)\}|(?P<end>\})", css):
        if part["media"] is not None:
            lines.append(part["media"].strip())
        elif part["end"] is not None:
            lines.append("}")
        else:
            selectors = ", ".join(dict.fromkeys(_selector(one.strip()) for one in part["select"].split(",")))
            lines.append(f"{selectors} {{{part['rules']}}}")
    return "\n".join(lines)


def _selector(selector: str) -> str:
    return f".{SCOPE}" if selector in (":root", "html", "body") else f".{SCOPE} {selector}"


# -- pictures -------------------------------------------------------------------------------------------------------


def figure_of(answer: Any, *, dark: bool = False, **options: Any) -> Any:
    """Return the picture of an answer, that of ``--plot``, as a figure of matplotlib.

    Raises
    ------
    SpecError
        For a result of many points at once, and for a picture that could not be read.
    """
    from roofsim.report.figure import look

    draw = next(_DRAWN[kind.__name__] for kind in type(answer).__mro__ if kind.__name__ in _DRAWN)
    with look(dark=dark):
        return draw(answer, **options)


def _run(answer: Any) -> Any:
    from roofsim.report.html.of_run import evaluation_of
    from roofsim.report.plot import draw_run

    if not is_scalar(answer.step_time):
        hint = "`roofsim.sweep` answers many points, and draws them."
        raise SpecError(Problem("a picture is of one point; this result has many", hint=hint))
    return draw_run([(evaluation_of(answer), answer)])


def _comparison(answer: Any) -> Any:
    from roofsim.report.comparison_plot import draw_comparison

    if not answer.results:
        raise SpecError(Problem("nothing to draw: no card can run the scenario"))
    return draw_comparison(answer)


def _ledger(answer: Any) -> Any:
    from roofsim.report.plot import draw_memory

    return draw_memory(answer.evaluation, answer.ledger)


def _collectives(answer: Any) -> Any:
    from roofsim.report.collective_plots import draw_collectives

    return draw_collectives(answer.rows)


def _drawn_by(module: str, name: str) -> Callable[..., Any]:
    """Return what draws an answer by a function of another module of this room."""

    def draw(answer: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"roofsim.report.{module}"), name)(answer, **options)

    return draw


_DRAWN: Final[dict[str, Callable[..., Any]]] = {
    "Result": _run,
    "Comparison": _comparison,
    "MemoryLedger": _ledger,
    "CollectivesView": _collectives,
    "SweepTable": _drawn_by("sweep_plot", "draw_sweep"),
    "Plan": _drawn_by("plan_plot", "draw_plan"),
    "Served": _drawn_by("serving_plot", "draw"),
    "ServedPasses": _drawn_by("serving_plot", "draw"),
    "Timeline": _drawn_by("timeline_plot", "draw_timeline"),
    "PowerCurve": _drawn_by("power_plot", "draw_power"),
}
