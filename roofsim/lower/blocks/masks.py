"""Build what guided decoding adds to a step: a bit per token comes from the host, and tokens without it lose their logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Elementwise, HostTransfer
from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.numeric import ceil

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call

#: Tokens of the vocabulary in a word of a mask (xgrammar, matcher.py: allocate_token_bitmask; llguidance has the same form).
BITS: Final = 32.0
_WORD: Final = DType("mask", 4.0, floating=False)


def masked(layers: Layers, call: Call, logits: Tensor) -> None:
    """Take from each guided row the tokens that its grammar does not allow (xgrammar, ``apply_token_bitmask_inplace``).

    Parameters
    ----------
    logits
        ``[rows, 1, vocabulary]``.
    """
    assert call.guided is not None
    b, (rows, _, vocabulary) = layers.b, logits.shape
    guided = rows * call.guided
    with b.scope("guided"):
        arrived = Tensor(b.name("mask"), (guided, ceil(vocabulary / BITS)), _WORD, Role.TEMPORARY)
        b.emit(HostTransfer, "copy", inputs=(), outputs=(arrived,), direction="from_host", place="host")
        out = b.tensor("masked", guided, 1.0, vocabulary, dtype=logits.dtype, base=logits)
        b.emit(Elementwise, "apply", inputs=(arrived,), outputs=(out,), function="mask")
