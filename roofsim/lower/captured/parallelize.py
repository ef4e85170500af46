"""Split the modules of a captured program over a tensor group as a plan says, with the collectives between them.

A module is entered and left as by the hooks of torch.distributed.tensor.parallel: what it reads is brought into the layout that
its style takes, what leaves it into the layout that it gives. Between modules each op passes on how its operands are split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from roofsim.errors import Problem, SpecError
from roofsim.importers.captured.form import CapturedOp, CapturedTensor
from roofsim.lower.captured.plan_modules import fail_plan, is_inside, layout_of, outermost_first, styles_of
from roofsim.lower.captured.rules import VIEWS
from roofsim.lower.captured.sharding import sharding_of
from roofsim.lower.captured.splits import MOST_PARTS, CannotSplitError, Split, reshaped, value
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.importers.captured.form import Capture, CapturedSize
    from roofsim.spec.model.module_plan import ModulePlan, ModuleStyle

#: Collectives by PyTorch's names, and what marks where a whole tensor enters a module that ranks share.
ENTER: Final = "roofsim.enter"
ALL_REDUCE: Final = "_c10d_functional.all_reduce"
ALL_GATHER: Final = "_c10d_functional.all_gather_into_tensor"
REDUCE_SCATTER: Final = "_c10d_functional.reduce_scatter_tensor"
#: Products by the operand that is the weight and by the dimension of its columns.
_WEIGHTS: Final = {"mm": (-1, 1), "addmm": (-1, 1), "matmul": (-1, 1), "linear": (1, 0), "embedding": (0, 1)}
_LINEAR: Final = ("ColwiseParallel", "RowwiseParallel")


@dataclass(frozen=True)
class ParallelProgram:
    """A program of one rank of a tensor group: its ops, how its tensors are split, and what the ranks must divide."""

    capture: Capture
    splits: dict[int, Split]
    divided: dict[tuple[CapturedSize, int], str] = field(default_factory=dict)


def parallelized(
    capture: Capture, chosen: Sequence[int], plan: ModulePlan, name: str
) -> tuple[ParallelProgram, list[int]]:
    """Return the program of a rank, and which of its ops run; `chosen` are those of the whole one, `name` stands in messages.

    Raises
    ------
    SpecError
        For modules that are not there, and for ops that cannot take what the plan splits.
    """
    walk = _Walk(capture, chosen, plan, name)
    return walk.run()


@dataclass
class _ModuleCall:
    """A call of a planned module: the ops from `start` to `stop`, what they make, and what stands for what they read."""

    module: str
    style: ModuleStyle
    start: int
    stop: int
    instead: dict[int, int] = field(default_factory=dict)
    makes: set[int] = field(default_factory=set)


class _Walk:
    def __init__(self, capture: Capture, chosen: Sequence[int], plan: ModulePlan, name: str) -> None:
        self.capture, self.plan, self.name = capture, plan, name
        self.old = [capture.ops[at] for at in chosen]
        self.tensors: list[CapturedTensor] = list(capture.tensors)
        self.ops: list[CapturedOp] = []
        self.splits: dict[int, Split] = {}
        self.whole: set[int] = set()
        self.partial: set[int] = set()
        self.instead: dict[int, int] = {}
        self.calls: list[_ModuleCall] = []
        self.divided: dict[tuple[CapturedSize, int], str] = {}
        self.makers = {number: op for op in self.old for number in op.makes}
        self.last_reader = {number: at for at, op in enumerate(self.old) for number in op.reads}
        beyond = [*capture.outputs, *([] if capture.loss is None else [capture.loss])]
        self.last_reader |= dict.fromkeys(beyond, len(self.old))
        self.styles = styles_of(plan, [op.module for op in self.old], name)

    def _fail_op(self, op: CapturedOp, message: str, hint: str = "") -> NoReturn:
        where = ", ".join(part for part in (op.module, op.line) if part)
        hint = hint or "Name the modules around it differently, or let one before it give output_layouts: Replicate."
        raise SpecError(
            Problem(f"{self.name}: {op.op} ({where}) {message}", path="model.parallelize.tensor", hint=hint)
        )

    # -- the walk ------------------------------------------------------------------------------------------------

    def run(self) -> tuple[ParallelProgram, list[int]]:
        """Go through all ops."""
        for at, op in enumerate(self.old):
            while self.calls and self.calls[-1].stop <= at:
                self._leave(self.calls.pop(), at)
            for module in outermost_first(op.module):
                if module in self.styles and all(call.module != module for call in self.calls):
                    self._enter(module, at)
            self._pass(op)
        while self.calls:
            self._leave(self.calls.pop(), len(self.old))
        outputs = tuple(self.instead.get(number, number) for number in self.capture.outputs)
        changed = {"ops": tuple(self.ops), "tensors": tuple(self.tensors), "outputs": outputs}
        program = ParallelProgram(self.capture.model_copy(update=changed), self.splits, self.divided)
        return program, list(range(len(self.ops)))

    def split(self, number: int) -> Split | None:
        """Return how a tensor is split; one that no op made is as what it shows."""
        if number not in self.splits and number not in self.whole:
            base = self.tensors[number].base
            own = None if base is None else self.split(base)
            if own is None or base is None:
                return None
            self.splits[number] = reshaped(own, self.tensors[base].shape, self.tensors[number].shape)
        return self.splits.get(number)

    def _pass(self, op: CapturedOp) -> None:
        """Hand an op on, with what stands for what it reads."""
        reads = tuple(self._now(number) for number in op.reads)
        for number in op.makes:
            base = self.tensors[number].base
            if base is not None and self._now(base) != base:
                self.tensors[number] = self.tensors[number].model_copy(update={"base": self._now(base)})
        new = op.model_copy(update={"reads": reads, "holds": tuple(self._now(number) for number in op.holds)})
        for call in self.calls:
            call.makes.update(op.makes)
        self._note_splits(new)
        self.ops.append(new)

    def _now(self, number: int) -> int:
        """Return what stands for a tensor in the modules that are being called."""
        number = self.instead.get(number, number)
        for call in self.calls:
            number = call.instead.get(number, number)
        return number

    def _note_splits(self, op: CapturedOp) -> None:
        self.whole.update(op.makes)
        if not self.partial.isdisjoint(op.reads):
            self._pass_partial(op)
            return
        seen = [(self.tensors[number].shape, self.split(number)) for number in op.reads]
        if all(split is None for _, split in seen):
            return
        if self._is_rowwise(op):
            self.partial.update(op.makes)
            return
        self._check_own_weights(op)
        if self._takes_split_classes(op):
            self._add_statistics(op)
            self._note(op, [split for _, split in seen[:1]])
            return
        rule = sharding_of(op.op)
        if rule is None:
            self._fail_op(op, "takes whole tensors, and the plan splits what it reads: it has no sharding rule")
        try:
            self._note(op, rule(op, seen, [self.tensors[number].shape for number in op.makes]))
        except CannotSplitError as error:
            self._fail_op(op, str(error))

    def _note(self, op: CapturedOp, splits: Sequence[Split | None]) -> None:
        for number, split in zip(op.makes, splits, strict=False):
            if split is not None:
                self.splits[number] = split
                self._must_divide(number, split, op.module)

    def _must_divide(self, number: int, split: Split, where: str) -> None:
        """Note that the ranks must divide a size; where samples stand before it, it was noted without them."""
        if not split.rows and split.outer < MOST_PARTS:
            self.divided.setdefault((self.tensors[number].shape[split.dim], int(split.outer)), where)

    def _pass_partial(self, op: CapturedOp) -> None:
        """Let parts of a sum pass through views, and take the module's own bias."""
        name = op.op.partition(".")[2].rstrip("_")
        own = all(number in self.partial or self._is_weight(number) for number in op.reads)
        if name not in VIEWS and not (name == "add" and own):
            self._fail_op(op, "reads parts of a sum inside of the module that makes them")
        self.partial.update(op.makes)

    def _takes_split_classes(self, op: CapturedOp) -> bool:
        """Tell whether an op is the logarithm of a softmax over classes that ranks share, and the plan lets it be."""
        if not self.plan.loss_parallel or "log_softmax" not in op.op:
            return False
        split, rank = self.split(op.reads[0]), len(self.tensors[op.reads[0]].shape)
        return split is not None and int(op.given.get("dim", -1)) % rank == split.dim

    def _is_weight(self, number: int) -> bool:
        tensor = self.tensors[number]
        while tensor.base is not None:
            tensor = self.tensors[tensor.base]
        return tensor.role in ("parameter", "buffer")

    def _check_own_weights(self, op: CapturedOp) -> None:
        """Refuse a weight that the plan splits, read by a module that it does not name (as tied weights are)."""
        inside = {call.module for call in self.calls if call.style.style in _LINEAR}
        for number in op.reads:
            if self.split(number) is not None and self._is_weight(number) and not inside:
                self._fail_op(
                    op,
                    "reads a weight that the plan splits for another module",
                    f"Name {op.module or 'this module'} in the plan as well: both read the same weight.",
                )

    # -- modules -------------------------------------------------------------------------------------------------

    def _enter(self, module: str, at: int) -> None:
        """Bring what a module reads into the layout that its style takes, and split its weights."""
        stop = at
        while stop < len(self.old) and is_inside(self.old[stop].module, module):
            stop += 1
        call = _ModuleCall(module, self.styles[module], at, stop)
        for number in self._read_from_outside(call):
            self._bring_in(call, number)
        if call.style.style in _LINEAR:
            self._split_weights(call)
        self.calls.append(call)

    def _read_from_outside(self, call: _ModuleCall) -> list[int]:
        """Return what the styled input of a module is: of one that is prepared, what planned layers inside of it read."""
        made: set[int] = set()
        own_inputs: dict[int, None] = {}
        prepares = call.style.style == "PrepareModuleInput"
        for op in self.old[call.start : call.stop]:
            if not prepares or any(self._is_linear(module) for module in outermost_first(op.module)):
                own_inputs.update(dict.fromkeys(self._now(number) for number in op.reads if number not in made))
            made.update(op.makes)
        return [number for number in own_inputs if not self._is_weight(number) and self._is_data(number)]

    def _is_linear(self, module: str) -> bool:
        return module in self.styles and self.styles[module].style in _LINEAR

    def _is_data(self, number: int) -> bool:
        return self.tensors[number].dtype.startswith(("float", "bfloat")) and self.tensors[number].shape != ()

    def _bring_in(self, call: _ModuleCall, number: int) -> None:
        split, style = self.split(number), call.style
        shape = self.tensors[number].shape
        came = layout_of(split, shape)
        if style.input_layouts is not None and came != style.input_layouts:
            self._fail_input(call, f"its input comes as {came}, not as {style.input_layouts}")
        if style.style == "SequenceParallel":
            if came != "Shard(1)":
                self._fail_input(call, f"its input comes as {came}: let what makes it give output_layouts: Shard(1)")
        elif style.style == "RowwiseParallel":
            if came != "Shard(-1)":
                self._fail_input(
                    call, f"its input comes as {came}: a RowwiseParallel module takes that of a ColwiseParallel one"
                )
        elif split is None:
            if not self._entered(number):
                call.instead[number] = self._add(ENTER, number, call.module, base=number)
        elif came == "Shard(1)":
            call.instead[number] = self._add(ALL_GATHER, number, call.module, dim=1)
        else:
            self._fail_input(call, f"its input comes as {came}: it takes whole rows")

    def _entered(self, number: int) -> bool:
        """Tell whether a module around this one brought a tensor in already (PrepareModuleInput)."""
        return any(number in call.instead.values() for call in self.calls)

    def _fail_input(self, call: _ModuleCall, message: str) -> NoReturn:
        fail_plan(self.name, call.module, f"{call.style.style}: {message}", "Change the style of the module before it.")

    def _split_weights(self, call: _ModuleCall) -> None:
        """Divide the weights of a linear layer or a table of embeddings."""
        columns = call.style.style == "ColwiseParallel"
        for op in self.old[call.start : call.stop]:
            name = op.op.partition(".")[2]
            if name not in _WEIGHTS:
                continue
            operand, dim = _WEIGHTS[name]
            number, turned = self._weight_of(op.reads[operand])
            if self.tensors[number].role != "parameter" or len(self.tensors[number].shape) != 2:
                continue
            dim = 1 - dim if turned else dim
            rows = name == "embedding" and not columns
            own = Split(dim if columns else 1 - dim, value(call.style.parts), self._shares_rows(number) or rows)
            if self.splits.setdefault(number, own) != own:
                fail_plan(
                    self.name,
                    call.module,
                    "another module splits the same weight in another way",
                    "Split it alike in both.",
                )
            self._must_divide(number, own, call.module)
            self._split_bias(op, name, own, columns=columns)
            return
        kinds = ", ".join(sorted({op.op for op in self.old[call.start : call.stop]}))
        fail_plan(
            self.name,
            call.module,
            f"{call.style.style} takes a linear layer or an embedding; this module runs {kinds[:200]}",
            "Name the modules inside of it.",
        )

    def _weight_of(self, number: int) -> tuple[int, bool]:
        """Return the tensor whose storage another shows, and whether it shows it with its two dimensions swapped."""
        turned = False
        while (base := self.tensors[number].base) is not None:
            maker = self.makers.get(number)
            name = "" if maker is None else maker.op.partition(".")[2]
            turned ^= VIEWS.get(name) == "transpose"
            number = base
        return number, turned

    def _shares_rows(self, number: int) -> bool:
        """Tell whether a weight is a table whose rows the plan splits."""
        return number in self.splits and self.splits[number].rows

    def _split_bias(self, op: CapturedOp, name: str, own: Split, *, columns: bool) -> None:
        """Divide a bias with the columns that it is added to."""
        bias = {"addmm": op.reads[:1], "linear": op.reads[2:3]}.get(name, ())
        for number in bias if columns else ():
            if self._is_weight(number):
                self.splits[number] = Split(0, own.outer)

    def _is_rowwise(self, op: CapturedOp) -> bool:
        """Tell whether an op is the product of a RowwiseParallel module, which each rank has a part of the sum of."""
        call = self.calls[-1] if self.calls else None
        if call is None or call.style.style != "RowwiseParallel":
            return False
        name = op.op.partition(".")[2]
        return name in _WEIGHTS and self.split(op.reads[_WEIGHTS[name][0]]) is not None

    def _leave(self, call: _ModuleCall, at: int) -> None:
        """Bring what leaves a module into the layout that its style gives."""
        wanted = call.style.output_layouts
        leaving = [number for number in sorted(call.makes) if self.last_reader.get(number, -1) >= at]
        for number in map(self._now, filter(self._is_data, leaving)):
            if number in self.partial:
                self._sum(call, number, wanted or "Replicate")
            elif wanted is not None:
                self._give(call, number, wanted)

    def _sum(self, call: _ModuleCall, number: int, wanted: str) -> None:
        if wanted == "Replicate":
            out = self._add(ALL_REDUCE, number, call.module, base=number)
        elif wanted == "Shard(1)" and len(self.tensors[number].shape) == 3:
            out = self._add(REDUCE_SCATTER, number, call.module, dim=1)
            self.splits[out] = Split(1)
        else:
            fail_plan(
                self.name, call.module, f"cannot leave as {wanted}", "Replicate, or Shard(1) of [batch, tokens, width]."
            )
        self.instead[number] = out

    def _give(self, call: _ModuleCall, number: int, wanted: str) -> None:
        split, shape = self.split(number), self.tensors[number].shape
        left = layout_of(split, shape)
        if left == wanted:
            return
        if wanted != "Replicate" or split is None:
            fail_plan(
                self.name,
                call.module,
                f"its result leaves it as {left}, not as {wanted}",
                f"Say output_layouts: {left}.",
            )
        self.instead[number] = self._add(ALL_GATHER, number, call.module, dim=split.dim)

    # -- what is added -------------------------------------------------------------------------------------------

    def _add(self, op: str, number: int, module: str, *, base: int | None = None, **given: Any) -> int:
        """Add an op between two tensors of one shape; return the number of the new one."""
        tensor = self.tensors[number]
        new = CapturedTensor(shape=tensor.shape, dtype=tensor.dtype, base=base)
        return self._add_op(op, number, new, module, **given)

    def _add_op(self, op: str, number: int, new: CapturedTensor, module: str, **given: Any) -> int:
        self.tensors.append(new)
        made = len(self.tensors) - 1
        self.whole.add(made)
        self.ops.append(CapturedOp(op=op, reads=(number,), makes=(made,), module=module, given=given))
        return made

    def _add_statistics(self, op: CapturedOp) -> None:
        """Exchange each row's maximum, sum and own logit before a softmax over classes that ranks share."""
        *rows, _ = self.tensors[op.reads[0]].shape
        self._add_op(ALL_REDUCE, op.reads[0], CapturedTensor(shape=(*rows, 3), dtype="float32"), op.module)
