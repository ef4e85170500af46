"""Print what PyTorch's allocator would reserve, and a measured snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.allocation import Allocation, Measured


def print_allocation(console: Console, allocation: Allocation) -> None:
    """Print the simulation in two lines."""
    native, expandable, within = allocation.native, allocation.expandable, allocation.within
    console.print(
        f"PyTorch's allocator would reserve {words.gibibytes(native.reserved_peak)} in separate segments, "
        f"{words.gibibytes(expandable.reserved_peak)} in expandable ones (simulated)"
        + ("; this engine uses these" if allocation.kind == "expandable" else "")
    )
    if within.out_of_memory is not None:
        console.print("on this GPU: out of memory, even after the cache is released")
    elif within.retries:
        console.print(f"on this GPU: the allocator must release its cache {within.retries} times, and wait each time")


def print_snapshot(console: Console, measured: Measured) -> None:
    """Print what was measured beside what was predicted, the pools, the largest blocks and what to know."""
    snapshot, rows = measured.snapshot, measured.comparison
    console.print(Text(f"snapshot {snapshot.source}, device {snapshot.device}", style="bold"))
    predicted = any(row["predicted"] is not None for row in rows)
    heads = ["", "predicted", "measured", "difference"] if predicted else ["", "measured"]
    console.print(_table(heads, [_cells(row, predicted=predicted) for row in rows]))
    pools = [
        [
            use.pool + (", expandable" if use.expandable else ""),
            f"{use.stream:#x}" if use.stream else "default",
            str(use.segments),
            words.gibibytes(use.reserved),
            words.gibibytes(use.allocated),
        ]
        for use in snapshot.pools
    ]
    if pools:
        console.print(_table(["pool", "stream", "segments", "reserved", "allocated"], pools, left=2))
    if snapshot.largest:
        blocks = [[words.gibibytes(block.size), block.where or "not recorded"] for block in snapshot.largest]
        console.print(_table(["largest blocks", "made by"], blocks, left=0, last_left=True))
    for note in measured.notes:
        console.print(f"Note: {note}.", style="dim", highlight=False)


def _cells(row: dict[str, Any], *, predicted: bool) -> list[str]:
    measured = words.gibibytes(row["measured"])
    if not predicted:
        return [row["name"], measured]
    given = "-" if row["predicted"] is None else words.gibibytes(row["predicted"])
    difference = "-" if row["difference"] is None else f"{100.0 * row['difference']:+.1f} %"
    return [row["name"], given, measured, difference]


def _table(heads: list[str], rows: list[list[str]], *, left: int = 1, last_left: bool = False) -> Grid:
    named = [place < left or (last_left and place == len(heads) - 1) for place in range(len(heads))]
    columns = [text(head) if name else number(head) for head, name in zip(heads, named, strict=True)]
    return Grid(columns, [list(row) for row in rows])
