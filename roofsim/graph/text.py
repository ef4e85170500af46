"""Print a graph as a stable listing, one op a line: golden files, bug reports and `roofsim ops` read the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import size_text

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


def listing(graph: OpGraph) -> str:
    """Return the aligned listing: phase, name, class, repeat count, output, FLOPs, bytes."""
    rows: list[tuple[str, ...]] = [("phase", "op", "class", "count", "output", "flops", "read", "written")]
    rows += [_row(op) for op in graph]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:5], widths[:5], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[5:], widths[5:], strict=True)]
        lines.append("  ".join(left + right).rstrip())
    return "\n".join(lines) + "\n"


def _row(op: AbstractOp) -> tuple[str, ...]:
    out = op.outputs[0] if op.outputs else None
    shape = "" if out is None else f"{out.dtype}[{','.join(size_text(size) for size in out.shape)}]"
    return (
        str(op.phase),
        op.name,
        class_text(op),
        size_text(op.count),
        shape,
        _amount(op.flops()),
        _amount(op.bytes_read()),
        _amount(op.bytes_written()),
    )


def class_text(op: AbstractOp) -> str:
    """Return the class of an op with what it does: ``elementwise(add)``, ``convolution'``."""
    detail = getattr(op, "function", None) or getattr(op, "method", None) or getattr(op, "kernel", None)
    name = type(op).__name__.lower()
    backward = "'" if getattr(op, "backward", False) else ""
    return f"{name}{backward}({detail})" if detail else f"{name}{backward}"


def _amount(value: Real) -> str:
    return size_text(value) if type(value) is float else f"[{size_text(value)}]"
