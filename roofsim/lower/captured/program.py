"""Build the forward graph of a captured program: its ops by the table of rules, its repeated layers as blocks."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.graph.component import Component, Purpose
from roofsim.graph.ops import View
from roofsim.importers.programs import program_of
from roofsim.lower.captured import heavy
from roofsim.lower.captured.context import CapturedGraph
from roofsim.lower.captured.fold import Repeat, repeats
from roofsim.lower.captured.parallelize import ParallelProgram, parallelized
from roofsim.lower.captured.patterns import with_patterns
from roofsim.lower.captured.rules import rule_of
from roofsim.lower.shares import one
from roofsim.numeric import ceil, same
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.graph.opgraph import OpGraph
    from roofsim.importers.captured.form import Capture
    from roofsim.lower.call import Call
    from roofsim.spec.model.captured import CapturedProgram


def lower_captured(model: CapturedProgram, call: Call) -> OpGraph:
    """Build one pass of a captured program.

    Raises
    ------
    SpecError
        For a size beside those captured where nothing says how the program follows it, for training of a program without a
        loss, and for ops without a rule: which, how many, and on what lines.
    """
    capture = with_patterns(program_of(model), call)
    chosen = _chosen(capture, model, call)
    program = ParallelProgram(capture, {})
    if not one(call.shares.tensor) and model.parallelize.tensor:
        program, chosen = parallelized(capture, chosen, model.parallelize, model.name)
    at = CapturedGraph(model, program.capture, call, program.splits)
    _check_divided(at, program)
    _check_rules(at, chosen)
    return _Lowering(at, chosen).build()


def _chosen(capture: Capture, model: CapturedProgram, call: Call) -> list[int]:
    """Return the ops of the pass: up to the loss in training, what its outputs need otherwise."""
    if call.trains:
        if capture.loss is None:
            raise SpecError(
                Problem(
                    f"{model.name} was captured without a loss: there is nothing to train on",
                    path="workload.phase",
                    hint="Ask for --phase forward, or capture the module with a step() that returns the loss.",
                )
            )
        end = next(at for at, op in enumerate(capture.ops) if capture.loss in op.makes)
        return list(range(end + 1))
    if capture.loss is None or not capture.outputs:
        return list(range(len(capture.ops)))
    return _needed(capture, set(capture.outputs))


def _needed(capture: Capture, wanted: set[int]) -> list[int]:
    """Return the ops that some tensors need, what is written into their storage included."""
    chosen = []
    for at in reversed(range(len(capture.ops))):
        op = capture.ops[at]
        if not wanted.isdisjoint(op.makes):
            chosen.append(at)
            wanted.update(op.reads)
            bases = (capture.tensors[number].base for number in op.makes)
            wanted.update(base for base in bases if base is not None)
    return chosen[::-1]


def _check_divided(at: CapturedGraph, program: ParallelProgram) -> None:
    """Raise for a size that the plan splits and the tensor group does not divide."""
    ranks = at.call.shares.tensor
    for (size, parts), where in program.divided.items():
        each = at.size(size) / float(parts)
        if not same(ceil(each / ranks) * ranks, each):
            what = f"{parts} times {each / 1.0:g}" if parts > 1 else f"{each:g}"
            raise SpecError(
                Problem(
                    f"{at.model.name}: tensor {ranks:g} does not divide {what}, which the plan splits in {where or 'the model'}",
                    path="parallel.tensor",
                    hint=f"Use a divisor of {each:g}, or leave the modules around it out of the plan.",
                )
            )


def _check_rules(at: CapturedGraph, chosen: Sequence[int]) -> None:
    """Raise for ops that no rule knows and nobody states the cost of."""
    unknown: Counter[str] = Counter()
    lines: dict[str, str] = {}
    for place in chosen:
        op = at.capture.ops[place]
        if rule_of(op.op) is None and op.op not in at.model.costs:
            unknown[op.op] += 1
            lines.setdefault(op.op, op.line or op.module or "?")
    if unknown:
        listed = "; ".join(f"{name} ({times} times, {lines[name]})" for name, times in unknown.most_common(20))
        first = next(iter(unknown))
        raise SpecError(
            Problem(
                f"{at.model.name} has ops that roofsim has no rule for: {listed}",
                path="model",
                hint=f"State what a call of each takes, --cost {first}=FLOPS,BYTES (such as 2e9,3e6), or a plug-in's family.",
                code="op-without-rule",
            )
        )


@dataclass(frozen=True)
class _Lowering:
    at: CapturedGraph
    chosen: Sequence[int]

    @property
    def capture(self) -> Capture:
        return self.at.capture

    def build(self) -> OpGraph:
        """Return the graph of the pass; of a program of one rank among several, asked for as a whole, that of all of them."""
        ranks = int(self.at.model.ranks) if one(self.at.call.shares.tensor) else 1
        for _ in range(ranks):
            self.at.env.clear()
            self._emit_all()
        return self.at.b.graph()

    def _emit_all(self) -> None:
        starts = {repeat.start: repeat for repeat in repeats(self.capture, self.chosen, self.at.splits)}
        at = 0
        while at < len(self.chosen):
            repeat = starts.get(at)
            if repeat is None:
                self._emit_op(self.chosen[at])
                at += 1
            else:
                self._emit_block(repeat, self.chosen)
                at = repeat.stop

    # -- ops -----------------------------------------------------------------------------------------------------

    @cached_property
    def loss_from(self) -> int:
        """The first op of the loss: in training what runs behind the last submodule; beyond the end where there is no loss."""
        ops = self.capture.ops
        if not self.at.call.trains:
            return len(ops)
        return 1 + max((at for at, op in enumerate(ops) if op.module), default=len(ops))

    @cached_property
    def loss(self) -> Component:
        """The component of the loss."""
        return Component(str(Purpose.LOSS), Purpose.LOSS)

    @cached_property
    def made_at(self) -> dict[int, int]:
        """The place of the op that makes each tensor."""
        return {number: at for at, op in enumerate(self.capture.ops) for number in op.makes}

    def _emit_op(self, at: int, first: int = 0) -> None:
        self.at.op = self.capture.ops[at]
        self.at.b.component = self.loss if at >= self.loss_from else self.at.component(self.at.op.module)
        stated = self.at.model.costs.get(self.at.op.op)
        rule = rule_of(self.at.op.op)
        if stated is not None:
            heavy.stated(self.at, *stated)
        else:
            assert rule is not None
            rule(self.at)
        self._hold(first)

    def _hold(self, first: int) -> None:
        """Keep up to here what the program's code holds, of what was made from op `first` on: no iteration holds another's."""
        held = [
            number for number in self.at.op.holds if number in self.at.env and self.made_at.get(number, -1) >= first
        ]
        if held and self.at.b.ops:
            self.at.b.emit(View, "release", holds=tuple(self.at.env[number] for number in held), function="release")

    def _emit_block(self, repeat: Repeat, chosen: Sequence[int]) -> None:
        with self.at.b.repeat(repeat.name, float(repeat.count)):
            for at in range(repeat.start, repeat.start + repeat.period):
                self._emit_op(chosen[at], chosen[repeat.start])
            for entering, leaving in repeat.carries.items():
                self.at.b.carry(self.at.tensor(entering), self.at.tensor(leaving))
        self.at.b.component = None
        for mine, own in repeat.last.items():
            if own in self.at.env:
                self.at.env[mine] = self.at.env[own]
