"""Walk the list of layers of a model and build each: blocks, what repeats, residuals, branches, results that are kept."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from roofsim.graph.builder import Builder
from roofsim.graph.tensor import AUTO, FP32, INT64, Tensor
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.listed import streams
from roofsim.lower.listed.context import Context
from roofsim.lower.listed.table import BUILDERS
from roofsim.numeric import exactly, real, same
from roofsim.records import dataclass, replace
from roofsim.spec.model.layers.steps import TAKING, as_step
from roofsim.spec.model.layers.walk import every_block, every_step
from roofsim.symbols import settled

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.layers.model import LayersModel
    from roofsim.spec.model.layers.steps import Step


def lower_layers(model: LayersModel, call: Call) -> OpGraph:
    """Build one pass of a model that is written as a list of layers."""
    b = Builder()
    if call.length is None and call.phase != "decode":
        images = model.counted_in == "images"
        call = replace(call, length=real(model.image_size if images else model.max_sequence_length))
    layers = VisionLayers(b, call.flavour, call.shares)
    context = Context(model, call, layers, {name: real(size) for name, size in model.named.items()})
    _Net(context).build()
    return b.graph()


@dataclass
class _Net:
    """The walk: `context` is what builders of blocks ask."""

    context: Context

    def build(self) -> Tensor:
        """Return what the last layer makes."""
        layers, idle = self.context.model.layers, real(self.context.model.idle_parameters)
        if not exactly(idle, 0.0):
            b = self.context.layers.b
            self.context.layers.release(b.parameter("idle", idle, trained=False))
        if self.context.call.phase == "decode":
            self._hold()
            layers = [item for item in layers if not over_prompts(item)]
        x = self._input()
        return self._run(layers, x, {self.context.model.inputs: x} | self._more_inputs())

    def _more_inputs(self) -> dict[str, Tensor]:
        """Return what enters beside the first input, by its name."""
        context, more = self.context, {}
        for name, given in context.model.more_inputs.items():
            count = context.call.batch * context.size(given.per_sample)
            if given.kind == "images":
                side = context.size(given.image_size)
                more[name] = context.layers.b.input(name, count, context.size(given.channels), side, side)
                continue
            shape = [context.size(size) for size in (given.length, given.width) if size is not None]
            dtype = INT64 if given.kind == "tokens" else AUTO
            more[name] = context.layers.b.input(name, count, *shape, dtype=dtype)
        return more

    def _hold(self) -> None:
        """Hold the weights of layers that run over prompts alone, in steps of generation."""
        steps = [step for item in self.context.model.layers if over_prompts(step := as_step(item))]
        steps = [step for step in steps if step.kind != "place"]
        if not steps:
            return
        own, aside = self.context.layers, Builder()
        call = replace(self.context.call, phase="forward")
        beside = replace(self.context, call=call, layers=VisionLayers(aside, own.flavour, own.shares), shared={})
        net = _Net(beside)
        kept = net._more_inputs()
        net._run(steps, next(iter(kept.values())), kept)
        weights = aside.graph().parameters()
        with own.b.scope("over_prompts"):
            total = sum(weight.numel * times for weight, times in weights.items())
            own.release(own.b.parameter("weights", total, trained=False))

    def _input(self) -> Tensor:
        context, call, model = self.context, self.context.call, self.context.model
        b, batch = context.layers.b, call.batch
        if model.inputs == "tokens" and call.phase == "decode":
            return b.input("input_ids", batch, 1.0, dtype=INT64)
        if model.inputs == "nodes":
            return context.nodes_of(batch)
        assert call.length is not None
        if model.inputs == "tokens":
            return b.input("input_ids", batch, call.length / call.shares.context, dtype=INT64)
        if model.inputs in ("images", "volumes"):
            usual = (call.length,) * (2 if model.inputs == "images" else 3)
            sides = usual if model.sides is None else tuple(map(context.size, model.sides))
            return b.input("images", batch, context.size(model.in_channels), *sides)
        return b.input("features", batch, call.length, context.size(model.in_features))

    # -- lists --------------------------------------------------------------------------------------------------

    def _run(self, items: Any, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        """Build the layers of a list, one after the other."""
        names: Counter[str] = Counter()
        for item in items:
            step = as_step(item)
            name = step.name or step.kind
            names[name] += 1
            leaf = name if names[name] == 1 else f"{name}{names[name]}"
            if step.when in ("training", "inference") and (step.when == "training") != self.context.call.trains:
                continue
            made = self._weighed(step, leaf, x if step.source is None else kept[step.source], kept)
            if step.kept is not None:
                kept[step.kept] = made
            x = made if step.aside is None else x
        return x

    def _weighed(self, step: Step, leaf: str, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        """Build a step whose weights others may have made, or that are not trained."""
        b = self.context.layers.b
        shared = nullcontext() if step.weights is None else b.sharing(step.weights)
        with shared, b.freezing() if step.frozen else nullcontext():
            return self._step(step, leaf, x, kept)

    def _step(self, step: Step, leaf: str, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        self._share(step, x, kept)
        kind, b = step.kind, self.context.layers.b
        if kind == "repeat":
            return self._repeat(step, leaf, x, kept)
        if kind in TAKING:
            return self._taking(step, x, kept)
        if step.block is not None:
            builder = BUILDERS[kind]
            with self.context.scope(leaf, own=builder.own_scope):
                return builder.build(self.context, step.block, x, kept)
        with b.scope(leaf):
            if kind == "layers":
                return self._run(step.layers, x, kept)
            if kind == "aside":
                return self._run(step.aside, x, dict(kept))
            return self._residual(step, x, kept) if kind == "residual" else self._branches(step, x, kept)

    def _share(self, step: Step, x: Tensor, kept: dict[str, Tensor]) -> None:
        """Make what all attention of these tokens reads before the first block that has some."""
        context = self.context
        if context.layers.b.block is not None or context.is_ids(x) or len(x.shape) != 3:
            return
        held: list[tuple[str, Any]] = list(every_block([step]))
        attention = {id(block) for kind, block in held if kind == "attention"}
        if not attention <= context.made_shared:
            for stream in _streams(context.model.layers):
                if not attention.isdisjoint(map(id, stream)):
                    context.share(stream, x)
        joint = [block for kind, block in held if kind == "joint_attention" and block.rotary]
        if joint:
            # A stream beside the tokens is what the step carries.
            beside = sum(kept[name].shape[1] for name in step.carries or ())
            streams.tables_of(context, joint[0], x, x.shape[1] + beside)

    # -- what holds several layers ------------------------------------------------------------------------------

    def _repeat(self, step: Step, leaf: str, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        """Repeat layers in a block; where repeats stand inside of each other, whichever way writes fewer layers out."""
        context, b = self.context, self.context.layers.b
        times = context.size(step.repeat)
        if b.block is None and not self._writes_out(step):
            with b.repeat(leaf, times):
                inner = dict(kept)
                out = self._run(step.layers, x, inner)
                for name in step.carries or ():
                    kept[name] = b.carry(kept[name], inner[name])
                alike = len(out.shape) == len(x.shape) and all(map(same, out.shape, x.shape))
                return b.carry(x, out) if alike or not exactly(times, 1.0) else out
        for place in range(int(settled(times))):
            number, inner = f"{leaf}.{place + 1}", dict(kept)
            if b.block is None:
                x = self._run(_numbered(step.layers, number), x, inner)
            else:
                with b.scope(number):
                    x = self._run(step.layers, x, inner)
            kept |= {name: inner[name] for name in step.carries or ()}
        return x

    def _writes_out(self, step: Step) -> bool:
        """Tell whether an outermost repeat is written out, and the repeats in it become blocks."""
        inner = [each for each in every_step(step.layers) if each.repeat is not None]
        if not inner or not all(as_step(item).repeat is not None for item in step.layers or ()):
            return False
        as_blocks = self.context.count(step.repeat) * len(list(every_step(step.layers)))
        as_one = sum(self._written(item) for item in step.layers or ())
        return as_blocks < as_one

    def _written(self, item: Any) -> float:
        step = as_step(item)
        times = 1.0 if step.repeat is None else self.context.count(step.repeat)
        return 1.0 + times * sum(self._written(each) for items in step.inner for each in items or ())

    def _residual(self, step: Step, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        layers = self.context.layers
        out = self._run(step.residual, x, kept)
        with layers.b.scope("shortcut"):
            other = self._run(step.shortcut or (), x, dict(kept))
        inplace = len(x.shape) > 3 if step.inplace is None else step.inplace
        if other.dtype is FP32 and not inplace:  # The sum has the wider type of both: that of its first part.
            out, other = other, out
        return layers.add(out, other, inplace=inplace)

    def _branches(self, step: Step, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        outs = []
        for place, branch in enumerate(step.branches or (), 1):
            with self.context.layers.b.scope(f"branch{place}"):
                outs.append(self._run(branch, x, dict(kept)))
        return self._merged(outs, step.merge)

    def _taking(self, step: Step, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
        given = getattr(step, step.kind)
        names = [given] if isinstance(given, str) else given
        return self._merged([x, *(kept[name] for name in names)], step.kind)

    def _merged(self, parts: list[Tensor], merge: str) -> Tensor:
        layers = self.context.layers
        self._check_extents(parts)
        if merge == "append":
            return layers.concat(tuple(parts), 1)
        if merge == "concat":
            return layers.concat(tuple(parts), 1 if self.context.is_map(parts[0]) else -1)
        total = parts[0]
        for part in parts[1:]:
            total = layers.add(total, part) if merge == "add" else layers.mul(total, part)
        return total

    def _check_extents(self, parts: list[Tensor]) -> None:
        """Refuse maps that have become of different extents on their ways, as sides do that no stage divides."""
        first = parts[0]
        for part in parts[1:]:
            if self.context.is_map(first) and not all(map(same, first.shape[2:], part.shape[2:])):
                raise self.context.wrong_size(f"{first} and {part} come together")


def _streams(items: Any) -> list[list[Any]]:
    """Return the attention blocks of each stream of tokens: those of a list, and those of each step beside it (``from``)."""
    own, others = [], []
    for step in map(as_step, items or ()):
        if step.kind == "attention":
            own.append(step.block)
        for inner in step.inner:
            first, *more = _streams(inner)
            others += more
            if step.source is None:
                own += first
            else:
                others.append(first)
    return [own, *others]


def over_prompts(item: Any) -> bool:
    """Tell whether a layer runs over prompts and not for each token that is generated."""
    return as_step(item).when == "prompt"


def _numbered(items: Any, number: str) -> list[Step]:
    """Return the steps of a list that is written out, named by its iteration."""
    steps = [as_step(item) for item in items]
    return [step.model_copy(update={"name": f"{number}.{step.name or step.kind}"}) for step in steps]
