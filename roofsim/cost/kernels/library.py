"""Say whose kernels an engine runs: what differs between engines, and never between training, prefill and decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass, field
from roofsim.spec.engine.schema import Engine, unnamed

if TYPE_CHECKING:
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class KernelLibrary:
    """An engine's kernels on a GPU architecture.

    Attributes
    ----------
    engine
        Whose they are.
    architecture
        Name of the GPU's architecture, on which the generation of attention kernels may depend.
    data_share
        Share of what is read from memory that is data, and not check bits.
    narrow_stream_limit
        Bytes per second that kernels for packed weights draw at most; None: as those for wide ones.
    slot_rate
        Issue slots per second of the card; None: what expanding weights takes is in ``weight_only.compute``.
    """

    engine: Engine = field(default_factory=unnamed)
    architecture: str = ""
    data_share: float = 1.0
    narrow_stream_limit: Real | None = None
    slot_rate: Real | None = None

    @property
    def attention(self) -> str | None:
        """Generation of fused attention kernels for many queries; None: not stated."""
        return self.engine.attention_on(self.architecture)

    @property
    def decode_attention(self) -> str | None:
        """Generation of fused attention kernels for one query a sequence; None: not stated."""
        return self.engine.attention_on(self.architecture, decodes=True)

    @property
    def half_accumulation(self) -> bool:
        """Whether products of 16 bits are added up in fp16."""
        return self.engine.matmul.accumulation == "fp16"

    @property
    def stream_share(self) -> float | None:
        """What products draw of the memory bandwidth as data; None: as measured library kernels do."""
        share = self.engine.matmul.stream_share
        return None if share is None else share * self.data_share
