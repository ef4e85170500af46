"""Find in a program what an engine recognises as one kernel although it is written op by op: attention, norms, activations.

Compilers of graphs (ONNX Runtime's optimizer, TensorRT's builder) replace such patterns when they load a file; its fact
`fusion.patterns` says which. A forward pass only: in training the ops are differentiated as they are written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from roofsim.lower.captured.attention_pattern import AttentionPattern
from roofsim.lower.captured.program_edit import ProgramEdit

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.captured.form import Capture
    from roofsim.lower.call import Call

#: What stands between the anchor of a pattern and its ends.
_ARITHMETIC: Final = frozenset(
    f"aten.{name}"
    for name in ("add", "sub", "rsub", "mul", "div", "pow", "square", "sqrt", "rsqrt", "reciprocal", "_to_copy", "view")
)
#: Pattern -> its anchor, the most ops that it has, and the op that stands for it.
_ACTIVATIONS: Final = {
    "gelu": (("aten.erf", 5, "aten.gelu"), ("aten.tanh", 8, "aten.gelu")),
    "silu": (("aten.sigmoid", 2, "aten.silu"),),
}
#: The most ops of a norm that is written out: conversions, mean, difference, square, mean, root, quotient, weight and bias.
_NORM_OPS: Final = 12


def with_patterns(capture: Capture, call: Call) -> Capture:
    """Return the program as the engine of a call runs it: patterns that it recognises are the op that they stand for."""
    known = call.flavour.engine.fusion.patterns
    if call.trains or not known:
        return capture
    edit = ProgramEdit(capture)
    for pattern in known:
        for anchor, most, op in _ACTIVATIONS.get(pattern, ()):
            for at in edit.of_kind(anchor):
                _replace_region(edit, at, most, op)
        for anchor in _ANCHORS.get(pattern, ()):
            for at in edit.of_kind(anchor):
                _REPLACES[pattern](edit, at)
    return edit.done()


def _take_bias(edit: ProgramEdit, at: int) -> None:
    """Let a product with a weight add the bias that is added to its result."""
    out, (left, right) = edit.only_result(at), edit.ops[at].reads[:2]
    after = None if out is None else edit.only_reader(out)
    if out is None or after is None or edit.ops[after].op != "aten.add" or not edit.is_weight(right):
        return
    bias = [number for number in edit.ops[after].reads if number != out]
    if len(bias) == 1 and edit.is_weight(bias[0]) and len(edit.tensors[bias[0]].shape) == 1:
        edit.replace(after, "aten.addmm", (bias[0], left, right), edit.ops[after].makes)


class _Region:
    """Ops around an anchor that compute one tensor of one other (and of parameters)."""

    def __init__(self, edit: ProgramEdit, anchor: int, most: int, *, norm: bool) -> None:
        self.edit = edit
        self.most = most
        self.norm = norm
        self.best: tuple[frozenset[int], int, int] | None = None
        ops, out = {anchor}, edit.only_result(anchor)
        while out is not None:
            inside = self._closed(ops)
            if inside is not None:
                self.best = (inside[0], inside[1], out)
            after = edit.only_reader(out) if len(ops) < most else None
            if after is None or not self._may(after):
                return
            ops = {*ops, after}
            out = edit.only_result(after)

    def _may(self, at: int) -> bool:
        return self.edit.ops[at].op in _ARITHMETIC or (self.norm and self.edit.ops[at].op == "aten.mean")

    def _closed(self, ops: set[int]) -> tuple[frozenset[int], int] | None:
        """Return the ops with those that lead to them from one tensor, and that tensor; None: there is no such one."""
        edit, inside = self.edit, set(ops)
        while True:
            outer = {number for at in inside for number in edit.ops[at].reads} - {
                number for at in inside for number in edit.ops[at].makes
            }
            plain = {number for number in outer if not edit.is_weight(number)}
            if len(plain) == 1:
                return frozenset(inside), plain.pop()
            before = [edit.maker.get(number) for number in sorted(plain, reverse=True)]
            usable = next((at for at in before if at is not None and self._may(at)), None)
            if usable is None or len(inside) >= self.most or not plain:
                return None
            inside.add(usable)


def _replace_region(edit: ProgramEdit, anchor: int, most: int, op: str) -> None:
    best = _Region(edit, anchor, most, norm=False).best
    if best is None or len(best[0]) < 2:
        return
    inside, source, out = best
    if edit.capture.tensors[source].shape == edit.capture.tensors[out].shape:
        edit.replace(max(inside), op, (source,), (out,))


def _replace_norm(edit: ProgramEdit, anchor: int, *, centred: bool) -> None:
    """Replace a norm that is written out, of what was centred or not; its anchor is the mean of squares."""
    squared = edit.made_by(edit.ops[anchor].reads[0])
    if squared is None or edit.ops[squared].op not in ("aten.pow", "aten.square", "aten.mul"):
        return
    best = _Region(edit, anchor, _NORM_OPS, norm=True).best
    if best is None:
        return
    inside, source, out = best
    kinds = {edit.ops[at].op for at in inside}
    if centred != ("aten.sub" in kinds):
        return
    roots = {"aten.sqrt", "aten.rsqrt", "aten.pow"}
    if not kinds & roots or edit.capture.tensors[source].shape != edit.capture.tensors[out].shape:
        return
    weights = [number for at in sorted(inside) for number in edit.ops[at].reads if edit.is_weight(number)]
    op = "aten.native_layer_norm" if centred else "aten._fused_rms_norm"
    edit.replace(max(inside), op, (source, *weights[:2]), (out,))


def _replace_attention(edit: ProgramEdit, at: int) -> None:
    AttentionPattern(edit, at).replace()


#: Pattern -> the ops that may be the anchor of one, and what replaces it.
_ANCHORS: Final = {
    "bias": ("aten.matmul", "aten.mm"),
    "layer_norm": ("aten.mean",),
    "rms_norm": ("aten.mean",),
    "attention": ("aten._softmax",),
}
_REPLACES: Final[dict[str, Callable[[ProgramEdit, int], None]]] = {
    "bias": _take_bias,
    "layer_norm": partial(_replace_norm, centred=True),
    "rms_norm": partial(_replace_norm, centred=False),
    "attention": _replace_attention,
}
