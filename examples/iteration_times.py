"""An iteration-time predictor for a serving scheduler: how long a batch of prompts and running requests takes.

A scheduler with continuous batching decides before every iteration how many waiting prompt tokens to run beside the requests that
are generating. It needs the time of that iteration at once: so all times are asked for beforehand, on a grid, and looked up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import roofsim


class IterationTimes:
    """Seconds of an iteration, interpolated between prices of roofsim.

    Parameters
    ----------
    model, options
        As for `roofsim.predict_batch`: a model and its card, engine, degree of tensor parallelism.
    """

    def __init__(self, model: str, *, most_requests: int = 256, longest: int = 8192, **options: Any) -> None:
        self.requests = np.unique(np.geomspace(1, most_requests, 16).round().astype(int))
        self.contexts = np.unique(np.geomspace(64, longest, 16).round().astype(int))
        self.prompts = np.unique(np.geomspace(16, longest, 24).round().astype(int))
        batch, context = np.meshgrid(self.requests, self.contexts, indexing="ij")
        table = {"batch_size": batch.ravel(), "context_length": context.ravel()}
        self.decode = roofsim.predict_batch("decode", table, model, **options)["time"].reshape(batch.shape)
        table = {"batch_size": [1], "prompt_length": self.prompts}
        self.prefill = roofsim.predict_batch("prefill", table, model, **options)["time"]

    def of_decode(self, requests: int, context: float) -> float:
        """Return the seconds of one token for some requests of a mean context."""
        if not requests:
            return 0.0
        at_context = [np.interp(context, self.contexts, row) for row in self.decode]
        return float(np.interp(requests, self.requests, at_context))

    def of_prefill(self, tokens: int) -> float:
        """Return the seconds of a prompt, or a piece of one, of so many tokens."""
        return float(np.interp(tokens, self.prompts, self.prefill)) if tokens else 0.0

    def largest_piece(self, requests: int, context: float, bound: float) -> int:
        """Return the most prompt tokens that fit beside running requests in an iteration of `bound` seconds."""
        left = bound - self.of_decode(requests, context)
        return int(np.interp(left, self.prefill, self.prompts, left=0.0)) if left > 0.0 else 0
