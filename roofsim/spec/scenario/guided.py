"""Describe guided (structured) decoding: what computes the masks of allowed tokens, how long one takes, and for whom."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from roofsim.schema.base import Field
from roofsim.spec.reading.quantity import SecondsOrNone
from roofsim.spec.strict import Strict
from roofsim.units import parse

Backend = Literal["llguidance", "xgrammar", "outlines"]

#: Seconds of the host for the mask of one token, one thread: means over two million tokens of JSON of 10,163 schemas, with a
#: vocabulary of 128,000 (guidance-ai/jsonschemabench, maskbench/README.md, TBM avg: llguidance 0.6.7, xgrammar 0.1.10 as it
#: comes, outlines 0.1.13, on EPYC 7V13). Medians are 36, 8 and 118 us: a few masks take most of the time.
MASK_TIMES: Final[dict[Backend, float]] = {
    "llguidance": parse("47 us", "s"),
    "xgrammar": parse("292 us", "s"),
    "outlines": parse("59.42 ms", "s"),
}


class GuidedDecoding(Strict):
    """Masks that keep each token to a grammar or a JSON schema: the host computes one per sequence and step."""

    backend: Backend = Field(default="xgrammar", description="What computes the masks; says how long one takes.")
    mask_time: SecondsOrNone | None = Field(
        default=None,
        description="Host time of one mask. Default: the backend's mean over the JSON schemas of MaskBench; simple ones take less.",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="Threads of the host that compute masks of different sequences at once."
    )
    share: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0, description="Share of the sequences that are guided."
    )

    @property
    def seconds(self) -> float:
        """Seconds of the host for each sequence and token of a batch, in the mean.

        >>> from roofsim.units import humanize
        >>> humanize(GuidedDecoding(backend="llguidance", threads=4).seconds, "s", 4)
        '11.75 us'
        """
        each = MASK_TIMES[self.backend] if self.mask_time is None else self.mask_time
        return each * self.share / self.threads


def guided_of(given: Backend | GuidedDecoding | None) -> GuidedDecoding | None:
    """Return guided decoding, whichever way it was written; None: tokens are free."""
    return GuidedDecoding(backend=given) if isinstance(given, str) else given
