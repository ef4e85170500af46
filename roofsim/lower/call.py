"""Say how a model is called: phase, sizes of the batch, and the flavour of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import BF16, DType
from roofsim.lower.flavour import Flavour
from roofsim.lower.shares import Shares, one
from roofsim.numeric import minimum
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.spec.engine.running import CacheFacts


@dataclass(frozen=True, kw_only=True)
class Call:
    """One pass over a batch, as lowering needs it. Sizes are floats or arrays, the rest is structure.

    Attributes
    ----------
    phase
        ``train`` (with loss), ``forward``, ``prefill`` (fills a cache, logits of the last token), ``decode`` (one
        token per sequence against `context_length` cached ones).
    batch
        Sequences or images in the pass.
    length
        Tokens per sequence, or the side of an image in pixels; None: the model's own.
    target_length
        Tokens per sequence in the decoder of an encoder-decoder.
    packed_length
        Tokens per sample where several are packed into a sequence; None: a sequence is one sample.
    context_length
        Tokens that the cache holds after this pass.
    cached_batches
        Batches like this one whose caches lie beside one another: those of the other micro batches of a pipeline.
    beams, samples
        Rows of a decode step that belong to one request, of which `batch` counts them all: beams of a search, or answers that are
        sampled beside one another.
    shared_context
        Tokens of a request's context that all of its rows have in common.
    guided
        Share of the rows of a decode step whose tokens a grammar allows or not; None: all tokens are free.
    chunked
        Whether a prefill runs in pieces of `length`: keys of the pieces before are in the cache.
    """

    phase: str = "train"
    batch: Real = 1.0
    length: Real | None = None
    target_length: Real | None = None
    packed_length: Real | None = None
    context_length: Real = 0.0
    beams: Real = 1.0
    samples: Real = 1.0
    shared_context: Real = 0.0
    guided: Real | None = None
    chunked: bool = False
    compute: DType = BF16
    autocast: bool = False
    flavour: Flavour = field(default_factory=Flavour)
    cached_batches: Real = 1.0
    shares: Shares = field(default_factory=Shares)

    @property
    def trains(self) -> bool:
        """Whether the pass ends in a loss."""
        return self.phase == "train"

    @property
    def cache(self) -> CacheFacts:
        """How the engine keeps keys and values."""
        return self.flavour.engine.cache

    @property
    def searches(self) -> bool:
        """Whether a step finds the best continuations of several beams."""
        return self.phase == "decode" and not one(self.beams)

    @property
    def shares_context(self) -> bool:
        """Whether the rows of a request read what they began from in one place, each through a table of its own."""
        if self.phase != "decode":
            return False
        return (
            self.cache.beams == "shared" if self.searches else not one(self.samples) and self.cache.samples == "shared"
        )

    def held(self, tokens: Real) -> Real:
        """Return the tokens that the cache of one row holds, where those of a request share what they began from."""
        if not self.shares_context:
            return tokens
        shared = minimum(self.shared_context, tokens)
        return tokens - shared + shared / (self.beams * self.samples)

    @property
    def cached(self) -> bool:
        """Whether keys and values are kept for later tokens."""
        return self.phase in ("prefill", "decode")
