"""The same server, step by step: requests that arrive, wait, have their prompt run, decode and leave.

Needs simpy (``pip install 'roofsim[serve]'``), which is imported only here.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import NoDataError
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Generator

    from roofsim.serve.disaggregated import Workers
    from roofsim.serve.load import Load
    from roofsim.serve.request_log import RequestLog
    from roofsim.serve.timing import Timing

#: Requests that are measured, at least and for each that is under way; as many again warm the server up.
_LEAST: Final = 600
_EACH: Final = 12.0
#: Percentiles of latencies.
_PERCENTS: Final = (50.0, 90.0, 99.0)
#: Arrivals that are drawn at once.
_GAPS: Final = 20_000


@dataclass(slots=True)
class Request:
    """One request: what it asks, and when what happened to it."""

    sent: float
    tokens: float
    checks: int
    prompt: float
    left: float = 0.0
    first: float = 0.0
    last: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Means over the requests of a simulation; seconds and requests per second of one replica.

    Attributes
    ----------
    requests
        How many were measured.
    output_length
        Mean output tokens of these requests. They are a sample: with this length, not with the one asked for, their times
        add up.
    under_way
        Mean requests in the server, over time (Little's law holds it to rate and end-to-end time).
    first_token_range
        The middle 80 % of times to the first token.
    steady
        Whether requests left as fast as they came.
    percentiles
        Percent of the requests -> what their times to the first token, and per token, do not exceed.
    """

    requests: int
    time_to_first_token: float
    time_per_output_token: float | None
    end_to_end: float
    output_length: float
    request_rate: float
    in_flight: float
    first_token_range: tuple[float, float]
    steady: bool
    percentiles: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass
class _Replica:
    """A replica: its queue, the prompts that run, the requests that decode."""

    env: Any
    timing: Timing
    load: Load
    prompt: float
    waiting: deque[Request] = field(default_factory=deque)
    prompts: deque[Request] = field(default_factory=deque)
    decoding: list[tuple[int, int, Request]] = field(default_factory=list)
    steps: int = 0
    tokens: float = 0.0  # in the caches of those that decode
    arrival: Any = None
    serial: int = 0

    def send(self, request: Request) -> None:
        """Take a request."""
        self.waiting.append(request)
        if self.arrival is not None and not self.arrival.triggered:
            self.arrival.succeed()

    def run(self, leave: Any) -> Generator[Any]:
        """Run steps for as long as there is anything to do; `leave` is told of every finished request."""
        while True:
            while self.waiting and len(self.decoding) + len(self.prompts) < max(int(self.load.limit), 1):
                request = self.waiting.popleft()
                if request.left > 0.0:
                    self.prompts.append(request)
                else:  # its prompt ran elsewhere
                    request.first = request.last = self.env.now
                    self._begin(request)
            if not self.prompts and not self.decoding:
                self.arrival = self.env.event()
                yield self.arrival
                continue
            decodes = self.timing.mixed or not self.prompts
            pieces = self._pieces()
            tokens = sum(piece for _, piece in pieces)
            running = float(len(self.decoding)) if decodes else 0.0
            context = self.tokens / len(self.decoding) if self.decoding else 1.0
            yield self.env.timeout(self.timing.step(running, context, tokens, float(max(len(pieces), 1))))
            if decodes:
                self._decoded(leave)
            self._prompted(pieces, leave)

    def _pieces(self) -> list[tuple[Request, float]]:
        """Return the prompts of the next step and their tokens, in the order of arrival, as far as the budget reaches."""
        taken = len(self.decoding) * (1.0 + self.timing.draft_tokens) if self.timing.mixed else 0.0
        room = max(self.load.budget - taken, 0.0)
        pieces = []
        for request in self.prompts:
            piece = min(request.left, room)
            if piece <= 0.0:
                break
            pieces.append((request, piece))
            room -= piece
        return pieces

    def _decoded(self, leave: Any) -> None:
        self.steps += 1
        self.tokens += len(self.decoding) * self.timing.tokens_per_check
        while self.decoding and self.decoding[0][0] <= self.steps:
            _, _, request = heapq.heappop(self.decoding)
            self.tokens -= request.prompt + request.checks * self.timing.tokens_per_check
            request.last = self.env.now
            leave(request)

    def _prompted(self, pieces: list[tuple[Request, float]], leave: Any) -> None:
        for request, piece in pieces:
            request.left -= piece
            if request.left > 0.0:
                continue
            self.prompts.remove(request)
            request.first = request.last = self.env.now
            if request.checks < 1:
                leave(request)
            else:
                self._begin(request)

    def _begin(self, request: Request) -> None:
        self.serial += 1
        self.tokens += request.prompt
        heapq.heappush(self.decoding, (self.steps + request.checks, self.serial, request))


@dataclass
class _Split:
    """Workers that run prompts, taken from one queue, and replicas that decode, each request on the emptiest."""

    env: Any
    timing: Timing
    load: Load
    workers: Workers
    replicas: list[_Replica]
    queue: deque[Request] = field(default_factory=deque)
    arrivals: list[Any] = field(default_factory=list)

    def send(self, request: Request) -> None:
        """Take a request."""
        self.queue.append(request)
        for event in self.arrivals:
            if not event.triggered:
                event.succeed()
        self.arrivals.clear()

    def prefill(self, leave: Any) -> Generator[Any]:
        """Run passes over as many waiting prompts as fit in one; a long prompt takes several."""
        while True:
            if not self.queue:
                event = self.env.event()
                self.arrivals.append(event)
                yield event
                continue
            taken = [self.queue.popleft()]
            room = self.load.budget - taken[0].tokens
            while self.queue and self.queue[0].tokens <= room:
                taken.append(self.queue.popleft())
                room -= taken[-1].tokens
            tokens = sum(request.tokens for request in taken)
            pieces = max(tokens / self.load.budget, 1.0)
            yield self.env.timeout(pieces * self.timing.prompt_pass(tokens / pieces, float(len(taken))))
            for request in taken:
                self.env.process(self._hand_over(request, leave))

    def _hand_over(self, request: Request, leave: Any) -> Generator[Any]:
        yield self.env.timeout(self.workers.transfer)
        request.left = 0.0
        if request.checks < 1:
            request.first = request.last = self.env.now
            leave(request)
        else:
            min(self.replicas, key=lambda one: len(one.decoding) + len(one.waiting)).send(request)


@dataclass
class _Traffic:
    """Who sends requests, and what became of them."""

    env: Any
    replica: _Replica | _Split
    load: Load
    random: np.random.Generator
    variation: float
    prompt: float
    requests: RequestLog | None = None
    sent: int = 0
    done: list[Request] = field(default_factory=list)

    def request(self) -> Request:
        """Return a request with an output length of its own (gamma-distributed), whose steps are rounded at random.

        Of a log, requests follow one another in its order, and again from its first.
        """
        self.sent += 1
        mean, spread, prompt, tokens = self.load.checks, self.variation, self.prompt, self.load.tokens
        steps = mean
        if self.requests is not None:
            place = (self.sent - 1) % len(self.requests.prompts)
            prompt = self.requests.prompts[place]
            tokens = max(prompt - (self.prompt - tokens), 1.0)
            steps = mean = mean / max(self.load.outputs, 1.0) * (self.requests.outputs[place] - 1.0)
        elif spread > 0.0 and mean > 0.0:
            steps = float(self.random.gamma(1.0 / spread**2, mean * spread**2))
        whole = int(steps + self.random.random()) if mean > 0.0 else 0
        checks = max(whole, 1 if mean > 0.0 else 0)
        return Request(sent=self.env.now, tokens=tokens, checks=checks, prompt=prompt, left=tokens)

    def travel(self, request: Request) -> Generator[Any]:
        """Bring a request from the client to the scheduler; nobody takes equally long for that."""
        if self.load.request_time > 0.0:
            yield self.env.timeout(float(self.random.exponential(self.load.request_time)))
        self.replica.send(request)

    def again(self, request: Request) -> None:
        """Send the next request of a client that got its answer."""
        self.done.append(request)
        self.env.process(self.travel(self.request()))

    def arrivals(self, rate: float, *, poisson: bool) -> Generator[Any]:
        """Send requests at a rate; those of a log with its own times between them, as far apart in the mean as the rate says."""
        logged = None if self.requests is None else self.requests.gaps
        while logged is not None:
            mean = sum(logged) / len(logged)
            for gap in logged:
                yield self.env.timeout(gap / mean / rate)
                self.env.process(self.travel(self.request()))
        while True:
            gaps = np.full(_GAPS, 1.0 / rate)
            if poisson:  # as many in the mean as asked for: close to the highest rate a difference of a percent shows
                gaps = self.random.exponential(1.0, _GAPS)
                gaps *= _GAPS / rate / gaps.sum()
            for gap in gaps:
                yield self.env.timeout(float(gap))
                self.env.process(self.travel(self.request()))


def simulate(
    timing: Timing,
    load: Load,
    prompt: float,
    *,
    workers: Workers | None = None,
    concurrency: float | None = None,
    rate: float | None = None,
    poisson: bool = True,
    variation: float = 0.0,
    requests: int | None = None,
    seed: int = 1,
    log: RequestLog | None = None,
) -> Simulated:
    """Run one replica, or all `workers` where prompts and decode are apart, until enough requests are done.

    With a `log`, requests have its lengths, and, where they come at a rate, its bursts.

    Raises
    ------
    NoDataError
        When simpy is not installed.
    """
    try:
        import simpy
    except ImportError:
        raise NoDataError("the simulation needs simpy, which is not installed: pip install 'roofsim[serve]'") from None
    env = simpy.Environment()
    count = 1 if workers is None else int(workers.decode)
    replicas = [_Replica(env, timing, load, prompt) for _ in range(count)]
    server = replicas[0] if workers is None else _Split(env, timing, load, workers, replicas)
    traffic = _Traffic(env, server, load, np.random.default_rng(seed), variation, prompt, log)
    leave = traffic.done.append if concurrency is None else traffic.again
    for replica in replicas:
        env.process(replica.run(leave))
    if isinstance(server, _Split) and workers is not None:
        for _ in range(int(workers.prefill)):
            env.process(server.prefill(leave))
    if concurrency is not None:
        for _ in range(max(round(concurrency), 1)):
            env.process(traffic.travel(traffic.request()))
        wanted = max(_LEAST, int(_EACH * concurrency)) if requests is None else requests
    else:
        assert rate is not None
        env.process(traffic.arrivals(rate, poisson=poisson))
        wanted = 5 * _LEAST if requests is None else requests
    warm = wanted // 2
    while len(traffic.done) < warm:
        env.step()
    begun, before = env.now, traffic.sent - len(traffic.done)
    while len(traffic.done) < warm + wanted:
        env.step()
    after = traffic.sent - len(traffic.done)
    return _means(traffic.done[warm:], env.now - begun, before, after, timing)


def _means(done: list[Request], seconds: float, before: int, after: int, timing: Timing) -> Simulated:
    first = np.array([request.first - request.sent for request in done])
    whole = np.array([request.last - request.sent for request in done])
    decode = np.array([request.last - request.first for request in done])
    outputs = np.array([request.checks * timing.tokens_per_check for request in done])
    low, high = np.quantile(first, [0.1, 0.9])
    each = (decode / np.maximum(outputs, 1.0))[outputs > 0.0]
    rate = len(done) / seconds
    return Simulated(
        requests=len(done),
        time_to_first_token=float(first.mean()),
        time_per_output_token=float(decode.sum() / outputs.sum()) if outputs.any() else None,
        end_to_end=float(whole.mean()),
        output_length=1.0 + float(outputs.mean()),
        request_rate=rate,
        in_flight=float(whole.sum() / seconds),
        first_token_range=(float(low), float(high)),
        steady=after - before <= 0.2 * len(done) + 10.0,
        percentiles={
            f"{percent:g}": {
                "time_to_first_token": float(np.percentile(first, percent)),
                "time_per_output_token": float(np.percentile(each, percent)) if len(each) else None,
            }
            for percent in _PERCENTS
        },
    )
