"""Answer for a server of any model: of one that generates tokens, or of one that answers in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.serve.one_pass.plan import runs_one_pass
from roofsim.serve.problems import problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.one_pass.served import ServedPasses
    from roofsim.serve.request_log import RequestLog
    from roofsim.serve.served import Served
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved


def serve_any(
    document: Document,
    resolve: Callable[[Document], Resolved],
    *,
    simulated: bool = False,
    target: LatencyTarget | None = None,
    requests: RequestLog | None = None,
) -> Served | ServedPasses:
    """Answer a request with the server that its model runs in; with a target, for the server that keeps it.

    `requests` of a file say how long prompts and outputs are, and how often they come.

    Raises
    ------
    SpecError
        When the request is wrong; for a target of a model that generates no tokens.
    """
    if runs_one_pass(document, resolve):
        if requests is not None:
            message = "this model answers in one pass: its requests have no tokens"
            raise problem(document, "request_rate", message, "Leave the file of requests out.")
        if target is not None:
            message = "this model answers in one pass: it has no first token, and no time per token"
            raise problem(document, "serving.latency_bound", message, "State serving.latency_bound: 15 ms instead.")
        from roofsim.serve.one_pass.answer import serve_one_pass

        return serve_one_pass(document, resolve, simulated=simulated)
    document = document if requests is None else requests.on(document)
    if target is not None:
        from roofsim.serve.sized import serve_to_target

        return serve_to_target(document, resolve, target, simulated=simulated, requests=requests)
    from roofsim.serve.answer import serve_document

    return serve_document(document, resolve, simulated=simulated, requests=requests)
