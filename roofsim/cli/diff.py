"""Hold two versions of a scenario against each other: ``roofsim diff HEAD~1:gpt.yaml gpt.yaml --gpu h100,l4 --fail-over 3%``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roofsim.cli.complete import scenarios
from roofsim.cli.flags import Choice, Csv, Html, Json
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.words import Argument, Option

if TYPE_CHECKING:
    from roofsim.decide.diff import Diff

Versions = Annotated[
    list[str],
    Argument(
        metavar="OLD NEW",
        show_default=False,
        complete=scenarios,
        help="Two scenarios: files, names of the catalog, or files at a git revision, such as HEAD~1:gpt.yaml (staged: "
        "':gpt.yaml'). With --against one file or more.",
    ),
]
Against = Annotated[
    str | None,
    Option(
        "--against",
        metavar="REVISION",
        help="Compare each file with itself at this git revision; new files are skipped.",
    ),
]
Gpu = Annotated[
    str | None,
    Option("--gpu", metavar="NAME,NAME,...", help="Cards to compare on: h100,l4. [default: that of the scenarios]"),
]
FailOver = Annotated[
    str | None,
    Option(
        "--fail-over",
        metavar="SHARE",
        help="By what share time and cost for the same work, and memory, may grow: 3%, or time=3%,memory=10%. The exit code is "
        "then 0 for no worse, 3 for worse, 4 for undecided (inside the error bar), 5 for no verdict.",
    ),
]
Allow = Annotated[
    bool, Option("--allow-undecided", help="With --fail-over: exit with 0 where the error bar does not decide.")
]
By = Annotated[
    str,
    Choice("--by", ("op", "class", "layer", "phase"), "What the step is split into.", default="op", metavar="WHAT"),
]
Markdown = Annotated[
    Path | None, Option("--markdown", metavar="FILE.md", help="Write it as the comment of a pull request.")
]


@scenario_options(leave_out=("gpu",))
def diff(
    *,
    versions: Versions,
    against: Against = None,
    gpu: Gpu = None,
    fail_over: FailOver = None,
    allow_undecided: Allow = False,
    by: By = "op",
    markdown: Markdown = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> int:
    """Hold two versions of a scenario against each other: step, memory, cost and bytes, op by op, with a verdict for CI."""
    from roofsim.decide.diff import diff_pairs
    from roofsim.output import save_text

    checked_report(html)
    checked_path(markdown, ".md")
    pairs, skipped = _pairs(versions, against)
    answer = diff_pairs(
        pairs, lambda one: document_of(one, overrides), gpu=gpu, fail_over=fail_over, by=by, skipped=skipped
    )
    _write(answer, json=json, csv=csv)
    if markdown is not None:
        save_text(markdown, answer.to_markdown())
    write_report(html, answer, "diff", None, {"old": pairs[0][0], "new": pairs[0][1], "gpu": gpu} if pairs else {})
    return 0 if allow_undecided and answer.verdict == "undecided" else answer.exit_code


def _pairs(versions: list[str], against: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what to compare with what, and what has no older version."""
    from roofsim.errors import Problem, SpecError

    if against is None:
        if len(versions) != 2:
            hint = "OLD NEW, such as HEAD~1:gpt.yaml gpt.yaml; or --against HEAD~1 and one file or more."
            raise SpecError(Problem(f"expected two scenarios; got {len(versions)}", hint=hint))
        return [(versions[0], versions[1])], []
    from roofsim.decide.revisions import exists_at

    known = [name for name in versions if exists_at(against, name)]
    return [(f"{against}:./{name}", name) for name in known], [name for name in versions if name not in known]


def _write(answer: Diff, *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
