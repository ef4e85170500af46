"""Refuse words of a scenario that a server has no use for, or that do not go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.serve.problems import problem
from roofsim.spec.scenario.serving import DynamicBatching, Serving

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Workload


def refuse_words(workload: Workload, serving: Serving, document: Document) -> None:
    """Refuse words that a server has no use for."""
    for key in ("batch_size", "micro_batch_size"):
        if getattr(workload, key) is not None:
            message = "a server's batch follows from its load"
            raise problem(document, key, message, "Use concurrency, request_rate or serving.max_num_seqs.")
    if workload.context_length:
        raise problem(document, "context_length", "a request has a prompt_length and an output_length", "Leave it out.")
    for key in DynamicBatching.own():
        if getattr(serving, key) is not None:
            message = "is a setting of servers of networks that answer in one pass; this model generates tokens"
            raise problem(document, f"serving.{key}", message, "Leave it out.")
    several = {"beam_width": "beam search", "num_return_sequences": "sampling of several answers"}
    for key, what in several.items():
        if (getattr(workload, key) or 1) > 1 and serving.speculative is not None:
            raise problem(document, key, f"{what} with speculative decoding is not modelled", "Leave one out.")
    _refuse_load(workload, serving, document)


def _refuse_load(workload: Workload, serving: Serving, document: Document) -> None:
    """Refuse words of a load that do not go together."""
    if workload.concurrency is not None and workload.request_rate is not None:
        message = "concurrency (a closed loop) and request_rate (an open loop) are different loads"
        raise problem(document, "request_rate", message, "Give one, or neither for as many requests as fit.")
    if serving.num_prompts is not None:
        _refuse_run(workload, serving, document)
    if serving.arrivals is not None and workload.request_rate is None:
        raise problem(document, "serving.arrivals", "goes with request_rate", "Leave it out.")


def _refuse_run(workload: Workload, serving: Serving, document: Document) -> None:
    """Refuse a run of so many requests where it has no beginning, or is not priced."""
    if workload.request_rate is not None:
        message = "num_prompts needs concurrency, or neither load to send all requests at once"
        raise problem(document, "serving.num_prompts", message, "Leave it out; request_rate describes a steady state.")
    if serving.disaggregated is not None:
        message = "num_prompts with disaggregated is not modelled"
        raise problem(document, "serving.num_prompts", message, "Leave it out for the steady state.")
    if (
        workload.concurrency is not None
        and serving.num_prompts is not None
        and serving.num_prompts < workload.concurrency
    ):
        message = f"{serving.num_prompts} requests in all, but {workload.concurrency} in flight"
        raise problem(document, "serving.num_prompts", message, f"At least {workload.concurrency}.")
