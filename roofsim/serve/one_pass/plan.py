"""Put together what a server of one pass runs: the network, its largest batch, the requests; refuse what makes no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.analyze.intervals import interval
from roofsim.analyze.ledger import memory_of
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, replace
from roofsim.serve.problems import problem
from roofsim.serve.surface import Curve, mesh
from roofsim.spec import usual
from roofsim.spec.reading.spoken import INFERENCE
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.document import with_override
from roofsim.spec.scenario.serving import DynamicBatching, Serving
from roofsim.spec.scenario.workload import SERVING, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Array
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.workload import Workload

#: Settings of a server that say something of networks of one pass; all others are of servers that generate tokens.
OWN: Final = (*DynamicBatching.own(), "arrivals", "host_time_per_request")
#: The largest batch that is looked at where nobody states one.
_LARGEST: Final = 65536.0
#: Throughput that a batch twice as large must bring beyond a batch's, where nobody states the largest.
_WORTH: Final = 1.02


@dataclass(frozen=True, kw_only=True)
class OnePassPlan:
    """A server of a network that answers in one pass.

    Attributes
    ----------
    resolved
        The scenario of one replica, with a batch of one.
    concurrency, request_rate
        Of the whole server: closed loop, open loop; both None: always a full batch.
    most
        Requests of the largest batch of one replica.
    times
        Seconds of a batch on one replica.
    spread
        Factors on its times at the ends of their 80 % interval.
    full
        The largest batch, priced.
    memory
        What it takes.
    """

    resolved: Resolved
    serving: Serving
    concurrency: float | None
    request_rate: float | None
    most: float
    times: Curve
    spread: tuple[float, float]
    full: Evaluation
    memory: Memory
    assumed: tuple[str, ...] = ()

    @property
    def replicas(self) -> float:
        """Copies of the network behind one queue."""
        return float(self.resolved.parallel.data or 1)

    @property
    def gpus(self) -> int:
        """GPUs of the whole server."""
        return self.resolved.gpus

    @property
    def fits(self) -> bool:
        """Whether the largest batch fits."""
        return float(self.memory.device_total) <= float(self.memory.capacity)

    @property
    def percent(self) -> float:
        """The percentile of latencies that is bounded."""
        return self.serving.latency_percentile or float(usual.LATENCY_PERCENTILE)


def runs_one_pass(document: Document, resolve: Callable[[Document], Resolved]) -> bool:
    """Tell whether the model of a request answers in one pass; a model that is wrong is another's to refuse."""
    if not isinstance(document.data, dict) or "model" not in document.data:
        return False
    try:
        return not resolve(_alone(document)).model.generates
    except SpecError:
        return False


def _alone(document: Document) -> Document:
    """Return a request with nothing but its model."""
    alone = document
    for section, left in (("workload", {"phase": INFERENCE}), ("parallel", {}), ("hardware", {})):
        alone = alone.with_value((section,), left, document.place((section,)))
    return alone


def plan_of(document: Document, resolve: Callable[[Document], Resolved]) -> OnePassPlan:
    """Return the server that a request describes.

    Raises
    ------
    SpecError
        When the request is wrong, or the engine cannot run the network.
    """
    document, notes = _as_pass(document)
    workload = validate(Scenario, document).workload
    serving = workload.serving or Serving()
    _refuse_lengths(workload, document, resolve)
    _refuse(workload, serving, document)
    inner = document
    for key in SERVING:
        inner = with_override(inner, f"workload.{key}", None, "serve")
    resolved = resolve(with_override(inner, "workload.batch_size", 1, "serve"))
    sizes, evaluation = _priced(resolved, _LARGEST if serving.max_batch_size is None else float(serving.max_batch_size))
    seconds, room = np.broadcast_to(evaluation.step.step, sizes.shape), _fits(evaluation, sizes)
    most = serving.max_batch_size
    if most is None:
        chosen = _enough(sizes, seconds, room)
        notes.append(
            f"max_batch_size: {chosen:.0f} (twice as many bring less than {_WORTH - 1.0:.0%} more throughput, or do not fit)"
        )
        most = int(chosen)
    last = evaluate(_of_batch(resolved, float(most)))
    low, high = interval(last)
    step = float(last.step.step)
    plan = OnePassPlan(
        resolved=resolved,
        serving=serving,
        concurrency=None if workload.concurrency is None else float(workload.concurrency),
        request_rate=workload.request_rate,
        most=float(most),
        times=Curve(points=tuple(sizes.tolist()), seconds=tuple(seconds.tolist())),
        spread=(float(low) / step, float(high) / step),
        full=last,
        memory=memory_of(last),
        assumed=(*notes, *(note for note in resolved.assumed if not note.startswith("batch_size"))),
    )
    return _with_defaults(plan, document)


def _with_defaults(plan: OnePassPlan, document: Document) -> OnePassPlan:
    """Return the plan with what else was assumed; refuse too few requests for its replicas."""
    serving, notes = plan.serving, list(plan.assumed)
    if serving.max_queue_delay is None and plan.most > 1.0:
        notes.append("max_queue_delay: 0, a batch takes what waits")
    if plan.request_rate is not None and serving.arrivals is None:
        notes.append("arrivals: poisson")
    if serving.latency_bound is not None and serving.latency_percentile is None:
        notes.append(f"latency_percentile: {plan.percent:g}")
    if plan.concurrency is not None and plan.concurrency < plan.replicas:
        message = f"{plan.concurrency:.0f} requests for {plan.replicas:.0f} replicas would leave some replicas idle"
        raise problem(document, "concurrency", message, f"Use at least {plan.replicas:.0f}, or fewer replicas.")
    return replace(plan, assumed=tuple(notes))


def _as_pass(document: Document) -> tuple[Document, list[str]]:
    """Return the document as one of a single pass, with an engine that runs such networks."""
    given = document.data.get("workload") if isinstance(document.data, dict) else None
    stated = given if isinstance(given, dict) else {}
    phase = stated.get("phase")
    if phase not in (None, "forward", INFERENCE):
        message = f"a server of a network that answers in one pass runs forward, not {phase}"
        raise problem(document, "phase", message, "Leave it out.")
    document = with_override(document, "workload.phase", "forward", "serve")
    if stated.get("engine") is not None:
        return document, []
    return with_override(document, "engine", usual.PASS_SERVER, "serve"), [f"engine: {usual.PASS_SERVER}"]


def _refuse_lengths(workload: Workload, document: Document, resolve: Callable[[Document], Resolved]) -> None:
    """Refuse lengths of models that generate; of tokens that are read, name the length that such a server takes."""
    for key in ("prompt_length", "output_length", "context_length"):
        if getattr(workload, key) is not None:
            message = "belongs to models that generate tokens; this one answers in one pass"
            reads = key != "output_length" and resolve(_alone(document)).model.sample_unit == "tokens"
            raise problem(
                document, key, message, "Use sequence_length (--sequence-length)." if reads else "Leave it out."
            )


def _refuse(workload: Workload, serving: Serving, document: Document) -> None:
    """Refuse words that such a server has no use for."""
    for key in ("batch_size", "micro_batch_size"):
        if getattr(workload, key) is not None:
            message = "a server's batch follows from its load"
            raise problem(document, key, message, "Use serving.max_batch_size, concurrency or request_rate.")
    if workload.concurrency is not None and workload.request_rate is not None:
        message = "concurrency (a closed loop) and request_rate (an open loop) are different loads"
        raise problem(document, "request_rate", message, "Give one, or neither for always full batches.")
    _refuse_settings(workload, serving, document)


def _refuse_settings(workload: Workload, serving: Serving, document: Document) -> None:
    """Refuse settings of other servers, and those that say nothing of this load."""
    for key in type(serving).model_fields:
        if key not in OWN and getattr(serving, key) != type(serving).model_fields[key].default:
            message = "is a setting of servers that generate tokens; this model answers in one pass"
            raise problem(document, f"serving.{key}", message, f"Settings here: {', '.join(OWN)}.")
    if serving.arrivals is not None and workload.request_rate is None and serving.latency_bound is None:
        raise problem(document, "serving.arrivals", "goes with request_rate or latency_bound", "Leave it out.")
    if serving.latency_percentile is not None and serving.latency_bound is None:
        raise problem(document, "serving.latency_percentile", "goes with latency_bound", "State latency_bound: 15 ms.")
    if serving.max_batch_size == 1 and serving.max_queue_delay:
        raise problem(document, "serving.max_queue_delay", "nobody joins a batch of one", "Leave it out.")


# -- batches ---------------------------------------------------------------------------------------------------------


def _of_batch(resolved: Resolved, batch: float | Array) -> Resolved:
    sizes = {"micro_batch_size": batch, "batch_size": batch}
    return replace(resolved, workload=resolved.workload.model_copy(update=sizes))


def _priced(resolved: Resolved, most: float) -> tuple[Array, Evaluation]:
    """Price batches from one to `most`."""
    sizes = mesh(most, exactly=(most,))
    return sizes, evaluate(_of_batch(resolved, sizes))


def _fits(evaluation: Evaluation, sizes: Array) -> Array:
    memory = memory_of(evaluation)
    fits: Array = np.broadcast_to(memory.device_total <= memory.capacity, sizes.shape)
    return fits


def _enough(sizes: Array, seconds: Array, room: Array) -> float:
    """Return the smallest batch, a power of two, beyond which twice as many bring little or do not fit; 1 where none fits."""
    powers = np.log2(sizes) % 1.0 == 0.0
    doubled, rates, fits = sizes[powers], (sizes / seconds)[powers], room[powers]
    for place in range(len(doubled) - 1):
        if not fits[place + 1] or rates[place + 1] < _WORTH * rates[place]:
            return float(doubled[place])
    return float(doubled[-1])
