"""Walk a list of layers from what enters to what leaves, and note what is wrong, where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.errors import did_you_mean
from roofsim.records import dataclass, field
from roofsim.spec.model.base import Wrong
from roofsim.spec.model.layers.forms import Form, Sizes, WrongBlockError, widened
from roofsim.spec.model.layers.steps import TAKING, as_step
from roofsim.symbols import settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.spec.model.layers.forms import LayerBlock
    from roofsim.spec.model.layers.steps import Step

#: Steps that a list written out is stopped at: more are a slip of the finger.
MOST_STEPS = 20_000


def every_step(items: Any) -> Iterator[Step]:
    """Iterate over the steps of a list and those inside of them."""
    for item in items or ():
        step = as_step(item)
        yield step
        for inner in step.inner:
            yield from every_step(inner)


def every_block(items: Any) -> Iterator[tuple[str, LayerBlock]]:
    """Iterate over the blocks of a list, each with its key."""
    for step in every_step(items):
        if step.block is not None:
            yield step.kind, step.block


@dataclass
class Walk:
    """The check of a list: forms go from step to step, and what is wrong is noted with its path.

    `entering` are the forms that enter repeats, in order: the first is that of the stack; `shared` those that enter layers with
    shared weights.
    """

    sizes: Sizes
    wrong: list[Wrong] = field(default_factory=list)
    entering: list[Form] = field(default_factory=list)
    chain: bool = True
    shared: dict[str, Form] = field(default_factory=dict)

    def steps(self, items: Any, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        """Return what a list of layers hands on.

        Raises
        ------
        StopWalkError
            At the first step that is wrong, which is noted: what stands behind it cannot be judged.
        """
        for place, item in enumerate(items):
            here = (*path, place)
            step = as_step(item)
            if form.layout == "loss":
                raise self._stop(here, "nothing comes after the end of a model", "")
            start = form if step.source is None else self._kept(step.source, kept, (*here, "from"))
            made = self._step(step, start, here, kept)
            if step.kept is not None:
                kept[step.kept] = made
            form = made if step.aside is None else form
        return form

    def whole(self, items: Any, form: Form, inputs: dict[str, Form]) -> Form:
        """Return what a model hands on: the walk from what enters the first layer, with its other inputs by their names."""
        return self.steps(items, form, ("layers",), dict(inputs))

    def _stop(self, path: tuple[str | int, ...], message: str, hint: str) -> StopWalkError:
        self.wrong.append(Wrong(path, message, hint))
        return StopWalkError()

    def _kept(self, name: str, kept: dict[str, Form], path: tuple[str | int, ...]) -> Form:
        if name not in kept:
            hint = did_you_mean(name, list(kept)) if kept else "A step keeps its result with `as: NAME`."
            raise self._stop(path, f"no earlier step of this list keeps its result as {name!r}", hint)
        return kept[name]

    def _step(self, step: Step, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        kind = step.kind
        if step.weights is not None and self.shared.setdefault(step.weights, form) != form:
            first = self.shared[step.weights]
            raise self._stop((*path, "weights"), f"cannot share weights: the first takes {first}, this one {form}", "")
        if kind in ("repeat", "layers"):
            return self._repeat(step, form, path, kept)
        if kind == "aside":
            return self.steps(step.aside, form, (*path, "aside"), dict(kept))
        if kind == "residual":
            return self._residual(step, form, path, kept)
        if kind == "branches":
            return self._branches(step, form, path, kept)
        if kind in TAKING:
            return self._taking(step, form, (*path, kind), kept)
        try:
            return self._block(step, form, path, kept)
        except WrongBlockError as error:
            short = not hasattr(getattr(step, kind), "model_fields_set")
            below = (kind,) if short or not error.key else (kind, error.key)
            raise self._stop((*path, *below), error.message, error.hint) from None

    def _block(self, step: Step, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        block = step.block
        others = {key: self._kept(name, kept, (*path, step.kind)) for key, name in block.reads()}
        block.check_others(others, form, self.sizes)
        given: Form = block.gives(form, self.sizes)
        kept.update(block.keeps(form, self.sizes))
        return given

    def _repeat(self, step: Step, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        times = 1
        if step.repeat is not None:
            try:
                times = self.sizes.of(step.repeat, "repeat")
            except WrongBlockError as error:
                raise self._stop((*path, "repeat"), error.message, error.hint) from None
            self.entering.append(form)
        inner = dict(kept) if step.repeat is not None else kept
        out = self.steps(step.layers, form, (*path, "layers"), inner)
        for place, name in enumerate(step.carries or ()):
            before, after = (self._kept(name, known, (*path, "carries", place)) for known in (kept, inner))
            if before != after:
                raise self._stop((*path, "carries", place), f"repeats take {before} and hand on {after}", "")
        if times > 1 and out != form:
            raise self._stop(
                (*path, "layers"), f"what repeats takes {form} and hands on {out}; both must be the same", ""
            )
        if step.repeat is not None and out != form:
            self.chain = False
        return out

    def _residual(self, step: Step, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        out = self.steps(step.residual, form, (*path, "residual"), kept)
        other = self.steps(step.shortcut or (), form, (*path, "shortcut"), dict(kept))
        if out != other:
            hint = "A shortcut (a linear layer, a 1x1 conv) may change the other way." if step.shortcut is None else ""
            raise self._stop((*path, "residual"), f"cannot add {out} to {other}", hint)
        return out

    def _branches(self, step: Step, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        outs = [
            self.steps(branch, form, (*path, "branches", place), dict(kept))
            for place, branch in enumerate(step.branches or ())
        ]
        if len(outs) < 2:
            raise self._stop((*path, "branches"), f"{len(outs)} branches; expected two or more", "")
        return self._merged(outs, step.merge, (*path, "branches"))

    def _merged(self, forms: list[Form], merge: str, path: tuple[str | int, ...]) -> Form:
        first = forms[0]
        for form in forms[1:]:
            alike = form == first if merge != "concat" else widened(form, first.width) == first
            alike = alike and (merge != "append" or first.layout == "tokens")
            if not alike:
                raise self._stop(path, f"cannot {merge} {first} and {form}", "")
        return widened(first, sum(form.width for form in forms)) if merge == "concat" else first

    def _taking(self, step: Step, form: Form, path: tuple[str | int, ...], kept: dict[str, Form]) -> Form:
        given = getattr(step, step.kind)
        names = [given] if isinstance(given, str) else given
        return self._merged([form, *(self._kept(name, kept, path) for name in names)], step.kind, path)


class StopWalkError(Exception):
    """A step is wrong; what is behind it cannot be judged."""


def written_out(items: Any, sizes: Sizes) -> float:
    """Return the steps of a list whose inner repeats are written out."""
    total = 0.0
    for item in items or ():
        step = as_step(item)
        times = 1 if step.repeat is None else int(settled(sizes.of(step.repeat, "repeat")))
        total += 1.0 + times * sum(written_out(each, sizes) for each in step.inner)
    return total
