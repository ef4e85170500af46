"""Compute what a trainer measures of a micro batch when its backward pass is done, as trainers do."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Phase
from roofsim.graph.component import Purpose
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class MetricsLast:
    """Move the ops of metrics behind the backward pass: what they read lives until then, the activations are gone.

    mosaicml/composer, trainer.py: `_train_microbatch` calls `_eval_train_metrics` after ``backward()``.
    """

    name: ClassVar[str] = "metrics_last"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with its metrics at the end of the micro batch."""
        last = [op for op in graph.ops if op.within(Purpose.METRICS)]
        if not last:
            return graph
        moved = set(last)
        others = [op for op in graph.ops if op not in moved]
        return graph.replaced([*others, *(replace(op, phase=Phase.BACKWARD) for op in last)])
