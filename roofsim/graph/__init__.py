"""The one language that every stage speaks: tensors, ops, and the graph of them."""

from roofsim.graph.base import HEAVY_KINDS, AbstractOp, Block, Kind, Phase
from roofsim.graph.builder import Builder
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.tensor import Role, Tensor

__all__ = ["HEAVY_KINDS", "AbstractOp", "Block", "Builder", "Kind", "OpGraph", "Phase", "Role", "Tensor"]
