"""Replace ops of a captured program by others that make the same tensors."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.importers.captured.form import Capture, CapturedOp, CapturedTensor


class ProgramEdit:
    """A captured program while ops of it are replaced: who makes and who reads each tensor, and what takes which op's place."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.ops: list[CapturedOp] = list(capture.ops)
        self.tensors: list[CapturedTensor] = list(capture.tensors)
        self.maker: dict[int, int] = {number: at for at, op in enumerate(self.ops) for number in op.makes}
        self.readers: dict[int, list[int]] = defaultdict(list)
        for at, op in enumerate(self.ops):
            for number in dict.fromkeys(op.reads):
                self.readers[number].append(at)
        self._changed = False

    def of_kind(self, op: str) -> list[int]:
        """Return the places of ops of a kind."""
        return [at for at, each in enumerate(self.ops) if each.op == op]

    def made_by(self, number: int) -> int | None:
        """Return the place of the op that makes a tensor."""
        return self.maker.get(number)

    def only_result(self, at: int) -> int | None:
        """Return the tensor that an op makes, if it is one."""
        return self.ops[at].makes[0] if len(self.ops[at].makes) == 1 else None

    def only_reader(self, number: int) -> int | None:
        """Return the op that reads a tensor, if it is one and the program does not give the tensor out."""
        readers = self.readers[number]
        return readers[0] if len(readers) == 1 and number not in self.capture.outputs else None

    def is_weight(self, number: int) -> bool:
        """Tell whether a tensor is a parameter or a buffer, or shows one."""
        tensor = self.tensors[number]
        while tensor.base is not None:
            tensor = self.tensors[tensor.base]
        return tensor.role in ("parameter", "buffer")

    def show(self, number: int, base: int, shape: Sequence[Any] | None = None) -> None:
        """Let a tensor that was a copy show the storage of what it was copied from, in another order of axes if one is given."""
        update: dict[str, Any] = {"base": base} | ({} if shape is None else {"shape": tuple(shape)})
        self.tensors[number] = self.tensors[number].model_copy(update=update)
        self._changed = True

    def replace(self, at: int, op: str, reads: Sequence[int], makes: Sequence[int], **given: Any) -> None:
        """Let an op stand in the place of another one; what nobody reads any more is left out by `done`."""
        self.ops[at] = self.ops[at].model_copy(
            update={"op": op, "reads": tuple(reads), "makes": tuple(makes), "given": given}
        )
        for number in dict.fromkeys(reads):
            self.readers[number].append(at)
        self.maker.update(dict.fromkeys(makes, at))
        self._changed = True

    def done(self) -> Capture:
        """Return the program, without the ops whose results nobody reads."""
        if not self._changed:
            return self.capture
        wanted, kept = set(self.capture.outputs), []
        for op in reversed(self.ops):
            if wanted.isdisjoint(op.makes) and op.makes:
                continue
            kept.append(op)
            wanted.update(op.reads)
            bases = (self.tensors[number].base for number in (*op.reads, *op.makes))
            wanted.update(base for base in bases if base is not None)
        return self.capture.model_copy(update={"ops": tuple(kept[::-1]), "tensors": tuple(self.tensors)})
