"""Answer for a server of any model: of one that generates tokens, or of one that answers in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.serve.one_pass.plan import runs_one_pass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.one_pass.served import ServedPasses
    from roofsim.serve.served import Served
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved


def serve_any(
    document: Document, resolve: Callable[[Document], Resolved], *, simulated: bool = False
) -> Served | ServedPasses:
    """Answer a request with the server that its model runs in."""
    if runs_one_pass(document, resolve):
        from roofsim.serve.one_pass.answer import serve_one_pass

        return serve_one_pass(document, resolve, simulated=simulated)
    from roofsim.serve.answer import serve_document

    return serve_document(document, resolve, simulated=simulated)
