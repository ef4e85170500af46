"""Search servers that keep bounds on latencies, and print them: for `roofsim serve` and `roofsim plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.request import as_rows, console, write_text
from roofsim.cli.words import Option

if TYPE_CHECKING:
    from roofsim.search.serving.answer import ServerChoices
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document

Ttft = Annotated[
    str | None,
    Option(
        "--ttft",
        metavar="TIME",
        panel="Target",
        help="Size the server so that the first token comes within this time: 500ms. The answer is the largest rate that keeps it, "
        "and the replicas that --request-rate needs.",
    ),
]
Tpot = Annotated[
    str | None,
    Option("--tpot", metavar="TIME", panel="Target", help="Size it so that tokens come within this time each: 50ms."),
]
Percentile = Annotated[
    str | None,
    Option(
        "--percentile",
        metavar="N",
        panel="Target",
        help="Percent of the requests for which each bound must hold. [default: 90]",
        show_default=False,
    ),
]


def of_one_server(given: dict[str, Any]) -> None:
    """Refuse options that a table of servers has no use for.

    Raises
    ------
    SpecError
        When one is given.
    """
    flags = [flag for flag, value in given.items() if value]
    if flags:
        from roofsim.errors import Place, Problem, SpecError

        hint = "Leave it out; `roofsim serve` answers for a single server of the table."
        raise SpecError(Problem("goes with no search for servers that keep bounds", Place(flags[0]), hint=hint))


def chosen(
    document: Document,
    axes: dict[str, list[Any]],
    target: LatencyTarget,
    *,
    top: int,
    cuts: bool,
    json: bool,
    csv: bool,
) -> ServerChoices:
    """Search, with a progress bar, print the answer as it is asked for, and return it."""
    from roofsim.api import resolve_document
    from roofsim.cli.progress import tracked
    from roofsim.search.serving.search import search_servers

    answer = search_servers(
        document, axes, target, resolve_document, k=top, cuts=cuts, progress=lambda places: tracked(places, "pricing")
    )
    print_choices(answer, json=json, csv=csv)
    return answer


def print_choices(answer: ServerChoices, *, json: bool, csv: bool) -> None:
    """Print the servers as they are asked for."""
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
