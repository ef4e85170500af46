"""Put the data-parallel passes into a training step's list: where gradients travel, and what each rank keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from roofsim.graph.tensor import DTYPES, DType
from roofsim.numeric import same
from roofsim.passes.accumulate import AccumulateGradients
from roofsim.passes.optimizer.step import AddOptimizerStep
from roofsim.passes.ranks.shard import FullyShard, ReduceGradients, ShardOptimizer
from roofsim.passes.ranks.whole_gradients import CopyIntoBuckets, KeepWholeGradients
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.passes.manager import Pass
    from roofsim.passes.ranks.replicas import Replicas
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.precision.roles import Precision

Level = Literal["none", "optimizer", "gradients", "full"]


@dataclass(frozen=True, kw_only=True)
class DataParallel:
    """How the replicas of a model share its state.

    Attributes
    ----------
    replicas
        How many ranks hold the same parameters, and how many share one set of shards.
    level
        What is sharded: nothing, the optimizer's state (ZeRO-1), gradients too (ZeRO-2), parameters too (ZeRO-3, FSDP).
    pipelined
        Whether the model is cut into stages, each of which runs several micro batches between two updates.
    """

    replicas: Replicas
    level: Level = "none"
    pipelined: bool = False

    def into(self, passes: list[Pass], precision: Precision, engine: Engine, num_micro_batches: Real) -> list[Pass]:
        """Return the passes with those of the layout among them."""
        if same(self.replicas.all, 1.0) and same(self.replicas.experts, 1.0):
            return passes
        wire = _wire(precision, engine)
        at = _place(passes)
        # Gathered once a step and reduced once: what a rank keeps and moves between updates is that of ZeRO-1.
        keeps = self.level == "full" and self.pipelined and engine.data_parallel.pipelined_shards == "kept"
        if self.level == "full" and not keeps:
            return self._fully_sharded(passes, at, precision, engine, num_micro_batches)
        share = 1.0 / num_micro_batches
        reduce = ReduceGradients(
            replicas=self.replicas,
            share=share,
            travels_in=wire,
            scatters=keeps or self.level == "optimizer",
            keeps_shard=self.level == "gradients",
        )
        if self.level == "gradients":
            # Shards are summed, so the reduction comes first and runs for every micro batch.
            front = [*passes[:at], replace(reduce, share=1.0), *_over_shards(passes[at:], num_micro_batches)]
            return [*front, *self._sharded_update(passes)]
        behind = _behind_accumulation(passes, at)
        sums = [reduce] if self.level == "none" else self._in_groups(reduce)
        result = [*passes[:behind], *sums, *passes[behind:]]
        if self.level == "none" and engine.data_parallel.gradient_buckets == "copied":
            result.insert(behind + 1, CopyIntoBuckets(ranks=self.replicas.all))
        return [*result, *self._sharded_update(passes)] if keeps or self.level == "optimizer" else result

    def _in_groups(self, reduce: ReduceGradients) -> list[Pass]:
        """Return the reduction within the ranks that share one copy, and the sum of each rank's part across such groups."""
        if same(self.replicas.shards, self.replicas.all):
            return [reduce]
        within, across = self.replicas.within(), self.replicas.across()
        second = replace(reduce, replicas=across, group="replica", scatters=False, scattered=self.replicas.shards)
        return [replace(reduce, replicas=within), second]

    def _sharded_update(self, passes: list[Pass]) -> list[Pass]:
        """Return the pass that deals the update out, where there is one (``optimizer: none``: gradients alone)."""
        updates = any("optimizer" in one.ensures for one in passes)
        return [ShardOptimizer(replicas=self.replicas.within())] if updates else []

    def _fully_sharded(
        self, passes: list[Pass], at: int, precision: Precision, engine: Engine, num_micro_batches: Real
    ) -> list[Pass]:
        wire, together = _wire(precision, engine), engine.data_parallel.rest_units == "one"
        stored = DTYPES[precision.master_parameters or precision.parameters]
        within = self.replicas.within()
        reduce = ReduceGradients(
            replicas=within,
            travels_in=wire,
            keeps_shard=True,
            kept_in=stored,
            rest_together=together,
            copies=engine.data_parallel.reduction_copies,
        )
        shard = FullyShard(
            replicas=within, stored=stored, rest_together=together, copies=engine.data_parallel.gather_copies
        )
        result: list[Pass] = [*passes[:at], shard, reduce]
        if engine.data_parallel.sharded_accumulation == "whole" and not same(num_micro_batches, 1.0):
            result[-1] = replace(reduce, share=1.0 / num_micro_batches)
            result.append(KeepWholeGradients(share=1.0 - 1.0 / num_micro_batches))
        if not same(self.replicas.shards, self.replicas.all):
            result.append(ReduceGradients(replicas=self.replicas.across(), group="replica"))
        return [*result, *_over_shards(passes[at:], num_micro_batches, whole_master=True)]


def _wire(precision: Precision, engine: Engine) -> DType | None:
    """Return the type in which gradients travel; None: that in which they are kept."""
    if engine.data_parallel.reduction_type == "gradients":
        return None
    types = {"main_gradients": precision.gradients, "parameters": precision.parameters, "fp32": "fp32"}
    return DTYPES[types[engine.data_parallel.reduction_type]]


def _place(passes: list[Pass]) -> int:
    """Return the place behind autograd and recomputation."""
    return 1 + max(at for at, one in enumerate(passes) if one.ensures & {"backward", "recomputed"})


def _behind_accumulation(passes: list[Pass], at: int) -> int:
    return at + 1 if at < len(passes) and isinstance(passes[at], AccumulateGradients) else at


def _over_shards(passes: list[Pass], num_micro_batches: Real, *, whole_master: bool = False) -> list[Pass]:
    """Return the rest of the passes over shards: they are summed in their own type, which is the master's."""
    result: list[Pass] = []
    for one in passes:
        if isinstance(one, AccumulateGradients):
            if same(num_micro_batches, 1.0):
                continue
            result.append(replace(one, buffer_type=None, fused=False))
        elif isinstance(one, AddOptimizerStep) and whole_master:
            result.append(replace(one, master_type=None))
        else:
            result.append(one)
    return result
