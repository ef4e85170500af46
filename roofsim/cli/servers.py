"""Search servers that keep bounds on latencies, and print them: for `roofsim serve` and `roofsim plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.cli.request import as_rows, console, write_text

if TYPE_CHECKING:
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document


def chosen(
    document: Document,
    axes: dict[str, list[Any]],
    target: LatencyTarget,
    *,
    top: int,
    cuts: bool,
    json: bool,
    csv: bool,
) -> None:
    """Search, with a progress bar, and print the answer as it is asked for."""
    from roofsim.api import resolve_document
    from roofsim.cli.progress import tracked
    from roofsim.search.serving.search import search_servers

    answer = search_servers(
        document, axes, target, resolve_document, k=top, cuts=cuts, progress=lambda places: tracked(places, "pricing")
    )
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
