"""Keep for the backward pass what a compiler keeps: what ops are made of, a minimum cut, and the step that follows."""

from roofsim.passes.partition.partition import Partition

__all__ = ["Partition"]
