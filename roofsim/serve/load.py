"""What a load makes of a server: latencies and rates in the steady state, and what changes the least of them."""

from __future__ import annotations

from typing import Any

from roofsim.records import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Steady:
    """The steady state of one replica. Seconds, requests and tokens per second, means over requests.

    Attributes
    ----------
    time_to_first_token
        From sending a request to its first token, waiting included.
    time_per_output_token
        Between tokens of a request behind the first; None for requests of one token.
    end_to_end
        From sending a request to its last token.
    request_rate
        Requests that are finished per second.
    running, waiting
        Requests that decode, and that wait for room or for their prompt to be run.
    prompt_share
        Share of time that prompts add to steps, or take in passes of their own.
    first_token_low, first_token_high
        What the first token takes when nobody else has a prompt, and when many have one at once.
    """

    time_to_first_token: float
    time_per_output_token: float | None
    end_to_end: float
    request_rate: float
    running: float
    waiting: float
    prompt_share: float
    first_token_low: float
    first_token_high: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Load:
    """What requests ask of one replica; of a pipeline, of one of the batches in flight.

    Attributes
    ----------
    tokens
        Of each prompt that are computed.
    checks
        Decode steps of each request behind its first token.
    outputs
        Tokens of each request behind the first.
    context
        Mean tokens in the cache of a running request.
    budget
        Tokens of a step.
    limit
        Requests that may run at once.
    most_prompts
        Share of a server's time that passes of prompts are taken to fill at most, where these run first.
    request_time
        Seconds between client and scheduler and back.
    alike
        Whether all requests are equally long, so that those that begin together end together.
    variation
        Standard deviation of output lengths as a share of their mean.
    arrivals_squared, prompts_squared
        Squared coefficients of variation: of the times between requests (at random: 1), and of the tokens of prompts.
    in_step
        Replicas whose steps begin together, each as long as that of the one that has most to do.
    batches
        Batches in flight on a replica: engines keep as many as there are pipeline stages, and deal requests out to them.
    """

    tokens: float
    checks: float
    outputs: float
    context: float
    budget: float
    limit: float
    most_prompts: float
    request_time: float
    alike: bool
    variation: float = 0.0
    arrivals_squared: float = 1.0
    prompts_squared: float = 0.0
    in_step: float = 1.0
    batches: float = 1.0

    def most_requests(self, replicas: float) -> float:
        """Return the requests that run at once on the whole server."""
        return self.limit * self.batches * replicas
