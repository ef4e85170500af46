"""Draw the rows of aiconfigurator-core that ship for some cards: ``evidence fit external-kernels --sample``.

The sample is the same at every run, spread over the logarithm of size, and small: it is there to be fitted, while the rows
that stay in the package (over 99 % of each card's) test the fit.
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.calibrate.kernels.classes import attends, silicon
from roofsim.calibrate.kernels.fit import class_of
from roofsim.calibrate.kernels.shapes import attention_shape, expert_shape, gemm_shape
from roofsim.calibrate.kernels.table import COLUMNS, SIZES, Group, KernelTable
from roofsim.cost.kernels.models.experts import active_experts
from roofsim.units import parse
from roofsim_evidence.external_kernels.reader import Counts, data_folder, read_chunks
from roofsim_evidence.external_kernels.scores import host_bound

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from roofsim.numeric import Array
    from roofsim_evidence.external_kernels.reader import Chunk

#: Cards of which every table in `DRAWN` is drawn from.
SAMPLED: Final = ("b300-sxm-288gb", "gb200", "gb300", "h200-sxm-141gb", "l40s", "rtx-pro-6000-blackwell-server")
#: Tables that are drawn from: the ones that the shipped rows of other cards come from.
DRAWN: Final = ("context_attention_perf", "gemm_perf", "generation_attention_perf", "moe_perf")
#: The table that is drawn from for these cards too, and they.
LATENT_TABLE: Final = "generation_mla_perf"
LATENT: Final = (*SAMPLED, "a100-sxm4-80gb", "b200-sxm-180gb", "h100-sxm5-80gb")
#: Rows of a card and table, shared evenly by its formats and engines, and most rows of one of these.
ROWS: Final = 400
MOST: Final = 60
#: Above these multiples of peak and bandwidth (the latter where the cache cannot help) a time is taken for an error.
PEAK: Final = 1.02
BANDWIDTH: Final = 1.1
CACHED: Final = 4.0
#: What the names of kernels have that engines fall back on for shapes that theirs do not take.
FALLBACK: Final = "triton"
MICROSECOND: Final = parse("1 us", "s")


def sampled(chunks: Iterable[Chunk]) -> list[dict[str, str]]:
    """Return rows for evidence/measurements/kernels.csv.gz: of the newest version of each engine in each table."""
    newest: dict[tuple[str, str], dict[Group, tuple[tuple[int, ...], str, KernelTable]]] = defaultdict(dict)
    for chunk in chunks:
        if not _drawn(chunk.gpu, chunk.name):
            continue
        version = chunk.path.parent.name
        for i, group in enumerate(chunk.table.groups):
            if host_bound(chunk.table, i):
                continue
            mine = chunk.table.select((chunk.table.group == i) & possible(chunk.table) & ~fallback(chunk.table))
            known = newest[chunk.gpu, chunk.name]
            if len(mine) and (group not in known or known[group][0] < _order(version)):
                known[group] = _order(version), version, mine
    rows = []
    for place in sorted(newest):
        groups = newest[place]
        share = min(MOST, round(ROWS / len(groups)))
        for group in sorted(groups):
            _, version, table = groups[group]
            rows += _rows(table.select(spread(table, share)), group, version)
    return rows


def _drawn(gpu: str, table: str) -> bool:
    return (gpu in SAMPLED and table in DRAWN) or (gpu in LATENT and table == LATENT_TABLE)


def _order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version.

    >>> _order("1.3.0rc20") > _order("1.3.0rc10") > _order("1.0.0")
    True
    """
    digits = "".join(sign if sign.isdigit() else " " for sign in version)
    return tuple(int(number) for number in digits.split())


def spread(table: KernelTable, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return places of about `rows` rows: one of each equal step in the logarithm of size, by a hash of its sizes."""
    size = np.log(class_of(table.groups[0].op).work(table))
    edges = np.linspace(size.min(), size.max(), rows + 1)
    step = np.clip(np.searchsorted(edges, size, side="right") - 1, 0, rows - 1)
    lot = np.array([zlib.crc32(_key(table, i).encode()) for i in range(len(table))])
    return np.array([_first(np.flatnonzero(step == i), lot) for i in np.unique(step)], dtype=np.int64)


def _first(places: np.ndarray[Any, Any], lot: np.ndarray[Any, Any]) -> int:
    return int(places[np.argmin(lot[places])])


def _key(table: KernelTable, row: int) -> str:
    return json.dumps([[float(column[row]) for column in table.sizes.values()], table.other[row]], sort_keys=True)


def fallback(table: KernelTable) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which calls of attention an engine left to Triton's kernels, which its own share no constants with."""
    attention = attends(table.groups[0].op)
    return np.array([attention and FALLBACK in row.get("ks", "") for row in table.other], dtype=bool)


def possible(table: KernelTable) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which times the card's peak and bandwidth allow."""
    flops, traffic = _ideal(table)
    card = silicon(table)
    streamed = (traffic > CACHED * card.cache) & (traffic / card.bandwidth > BANDWIDTH * table.seconds)
    return np.asarray((flops / card.peak <= PEAK * table.seconds) & ~streamed)


def _ideal(table: KernelTable) -> tuple[Array, Array]:
    """Return FLOPs and bytes of rows of one operation."""
    op = table.groups[0].op
    if op == "moe_gemm":
        layer = expert_shape(table)
        waken = active_experts(layer.tokens, layer.experts, layer.chosen, layer.local)
        # A power law wakes fewer experts than chance, by a share that nobody states.
        return layer.flops(), layer.weight_bytes(np.where(layer.skew > 0.0, 0.0, waken))
    if attends(op):
        call = attention_shape(table)
        scores = call.batch * call.heads * call.query * call.mean_keys()
        return 2.0 * scores * (call.head_dim + call.value_dim), call.cached_bytes() + call.query_bytes()
    product = gemm_shape(table)
    return 2.0 * product.m * product.n * product.k * product.batch, product.traffic()


def _rows(table: KernelTable, group: Group, version: str) -> list[dict[str, str]]:
    rows = []
    for i in range(len(table)):
        row = dict.fromkeys(COLUMNS, "")
        row |= {name: f"{table.sizes[name][i]:.0f}" for name in SIZES if _stated(group.op, name)}
        other = {"fw": group.engine, **{name: _whole(value) for name, value in table.other[i].items()}}
        row |= {
            "source": f"aiconfigurator:{group.engine}-{version}",
            "gpu": group.gpu,
            "op": group.op,
            "other": json.dumps(other, separators=(",", ":")),
            "dtype": group.dtype,
            "time_us": f"{round(float(table.seconds[i] / MICROSECOND), 3):.3f}".rstrip("0").rstrip("."),
        }
        rows.append(row)
    return rows


def _whole(value: Any) -> Any:
    """Return whole numbers as such."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _stated(op: str, size: str) -> bool:
    if attends(op):
        return size in ("batch", "heads", "kv_heads", "head_dim", "q_len", "kv_len")
    return size in ("m", "n", "k")


def as_csv(folder: Path | None = None) -> str:
    """Return the sample as CSV, without a head; of the installed package's tables, or of a folder like them."""
    text = io.StringIO()
    rows = sampled(read_chunks(data_folder(folder), Counts()))
    csv.DictWriter(text, COLUMNS, lineterminator="\n").writerows(rows)
    return text.getvalue()
