"""Say what the allocator reserves beyond what is allocated: freed blocks that the next phase cannot use.

The simulation (`schedule.events`) follows every block; this is the closed form for `run` and for sweeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.base import Phase
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Cast
from roofsim.memory.profile import peaks_of_streams

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


def stranded(graph: OpGraph) -> Real:
    """Return the bytes of narrow logits that a loss in fp32 leaves behind: too small a block for what comes next."""
    for op in graph:
        if isinstance(op, Cast) and op.within(Purpose.LOSS) and op.phase is Phase.FORWARD:
            source, out = op.inputs[0], op.outputs[0]
            if source.dtype.itemsize < out.dtype.itemsize:
                return source.numel * source.dtype.itemsize
    return 0.0


def apart(graph: OpGraph) -> Real:
    """Return the bytes that streams of their own cost: each keeps its largest need, whenever that is."""
    together, *alone = peaks_of_streams(graph)
    total: Real = 0.0
    for peak in alone:
        total = total + peak
    return total - together
