"""Find attention that is written as product, scale, mask, softmax and product, and put one op in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofsim.lower.captured.program_edit import ProgramEdit

_PRODUCTS: Final = ("aten.matmul", "aten.bmm")
#: Between the scores and their softmax: scale, mask, conversions.
_SCALES: Final = frozenset(
    f"aten.{name}" for name in ("mul", "div", "add", "sub", "where", "masked_fill", "_to_copy", "view", "clamp")
)
#: Between softmax and the second product.
_PASSES: Final = frozenset({"aten._to_copy", "aten.view", "aten.where", "aten.masked_fill", "aten.dropout"})
#: Ops that put axes into another order.
_TURNS: Final = ("aten.permute", "aten.transpose")
#: Ops that only say where elements lie, or that take a part of them.
_LAYOUTS: Final = frozenset(
    {*_TURNS, *(f"aten.{name}" for name in ("view", "slice", "select", "split", "squeeze", "unsqueeze"))}
)
#: Ops in a row that lead to or from a product.
_LONGEST: Final = 6


class AttentionPattern:
    """Attention around a softmax."""

    def __init__(self, edit: ProgramEdit, softmax: int) -> None:
        self.edit = edit
        self.softmax = softmax

    def replace(self) -> None:
        """Put one op in its place, if it is attention."""
        edit = self.edit
        masks: list[int] = []
        first = self._scores(edit.ops[self.softmax].reads[0], masks)
        second = self._weighted()
        if first is None or second is None:
            return
        query, turned = edit.ops[first].reads[:2]
        value = edit.ops[second].reads[1]
        out = edit.ops[second].makes[0]
        shapes = [edit.tensors[number].shape for number in (query, turned, value, out)]
        if {len(shape) for shape in shapes} != {4} or shapes[0][1] != shapes[1][1]:
            return
        batch, heads, size, length = shapes[1]
        key = self._key(turned, (batch, heads, length, size))
        if key is None:
            return
        reads = (self._unscaled(query), key, self._in_place(value), *masks[:1])
        edit.replace(second, "aten._scaled_dot_product_flash_attention", reads, (out,))
        self._give_out(out)

    def _scores(self, number: int, masks: list[int]) -> int | None:
        """Return the product that gives the scores, and note what is added to them or chosen by."""
        edit = self.edit
        for _ in range(_LONGEST):
            at = edit.made_by(number)
            if at is None:
                return None
            op = edit.ops[at]
            if op.op in _PRODUCTS:
                return at
            if op.op not in _SCALES or not op.reads:
                return None
            whole = edit.tensors[op.makes[0]].shape
            inner = [each for each in op.reads if edit.tensors[each].shape == whole and self._leads_to_product(each)]
            if not inner:
                return None
            masks += [each for each in op.reads if each != inner[0]]
            number = inner[0]
        return None

    def _leads_to_product(self, number: int) -> bool:
        edit = self.edit
        for _ in range(_LONGEST):
            at = edit.made_by(number)
            if at is None:
                return False
            op = edit.ops[at]
            if op.op in _PRODUCTS:
                return True
            if op.op not in _SCALES or not op.reads:
                return False
            whole = edit.tensors[op.makes[0]].shape
            number = next((each for each in op.reads if edit.tensors[each].shape == whole), op.reads[0])
        return False

    def _weighted(self) -> int | None:
        """Return the product of the weights with values."""
        edit, number = self.edit, self.edit.ops[self.softmax].makes[0]
        for _ in range(_LONGEST):
            readers = [at for at in edit.readers[number] if edit.ops[at].op in _PRODUCTS or edit.ops[at].op in _PASSES]
            if not readers:
                return None
            at = readers[-1]
            if edit.ops[at].op in _PRODUCTS:
                return at if edit.ops[at].reads[0] == number else None
            number = edit.ops[at].makes[0]
        return None

    def _unscaled(self, number: int) -> int:
        """Return what queries or keys are before they are multiplied by a number, in the storage that a product wrote."""
        at = self.edit.made_by(number)
        if at is not None and self.edit.ops[at].op in ("aten.mul", "aten.div") and len(self.edit.ops[at].reads) == 1:
            number = self.edit.ops[at].reads[0]
        return self._in_place(number)

    def _in_place(self, number: int) -> int:
        """Let what only puts axes into another order be read where it lies: the kernel takes strides."""
        edit, shown = self.edit, number
        for _ in range(_LONGEST):
            at = edit.made_by(shown)
            if at is None or edit.ops[at].op not in _LAYOUTS:
                break
            for made in edit.ops[at].makes:
                if edit.tensors[made].base is None:
                    edit.show(made, edit.ops[at].reads[0])
            shown = edit.ops[at].reads[0]
        return number

    def _key(self, turned: int, shape: tuple[Any, ...]) -> int | None:
        """Return the keys ``[batch, heads, length, size]`` of what the product reads with the last two axes swapped."""
        edit, number = self.edit, turned
        for _ in range(_LONGEST):
            at = edit.made_by(number)
            if at is None:
                return None
            op = edit.ops[at]
            if op.op in _TURNS:
                source = op.reads[0]
                if edit.tensors[source].shape == shape:
                    return self._unscaled(source)
                if len(edit.readers[number]) > 1:
                    return None
                edit.show(number, self._in_place(source), shape)
                return number
            if op.op not in ("aten.mul", "aten.div", "aten.view", "aten._to_copy") or not op.reads:
                return None
            number = op.reads[0]
        return None

    def _give_out(self, out: int) -> None:
        """Let heads be put beside one another by the kernel, which writes them so."""
        for at in self.edit.readers[out]:
            if self.edit.ops[at].op in _TURNS:
                self._in_place(self.edit.ops[at].makes[0])
