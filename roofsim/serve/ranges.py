"""Say how far the times of a server may be off: 80 % ranges from published measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from roofsim.serve.load import Steady
    from roofsim.spec.resolve import Resolved

#: Half widths (of the logarithm) of 80 % ranges of the time per token, from every third published row of fixed concurrency
#: (ai-dynamo/aiconfigurator, silicon_sample.csv: vLLM, TensorRT-LLM, SGLang on H100 and B200). Dense models, mixtures.
TOKEN_WIDTHS: Final = (0.15, 0.27)
#: By what factor the first token may take less than that of a server without other prompts, from the same rows: the tenth
#: part of them takes 0.98 (dense) and 1.06 (mixtures) of it; a pass over prompts may itself take 15 % less than predicted.
_LESS: Final = (1.2, 1.1)
#: The upper end is at most so many times the lower; the mean lies within.
_WIDEST: Final = 4.0
_MEAN_IN: Final = 2.5
_ABOVE_MEAN: Final = 1.5


def token_range(seconds: float, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of a time per token; half as wide again where nothing like it was measured."""
    width = TOKEN_WIDTHS[_has_experts(resolved)]
    if resolved.hardware_changed or not resolved.architecture.measured:
        width *= resolved.constants.physics["unmeasured_width"]
    return seconds * float(np.exp(-width)), seconds * float(np.exp(width))


def rate_range(rate: float, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of the most requests per second: as far as the time per token may be off, the other way round."""
    low, high = token_range(1.0, resolved)
    return rate / high, rate / low


def first_token_range(steady: Steady, resolved: Resolved) -> tuple[float, float]:
    """Return the range of the time to the first token, from a server without other prompts to one where they bunch."""
    mean = steady.time_to_first_token
    low = max(steady.first_token_low / _LESS[_has_experts(resolved)], mean / _MEAN_IN)
    return low, min(max(steady.first_token_high, _ABOVE_MEAN * mean), _WIDEST * low)


def _has_experts(resolved: Resolved) -> bool:
    return bool(resolved.model.traits().experts)
