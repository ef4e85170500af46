"""Write fitted constants of links, and score them: ``evidence fit collectives --write``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.output import save_text
from roofsim.records import replace
from roofsim.spec.constants.links import shipped_links
from roofsim.units import humanize, parse
from roofsim_evidence.collectives.fit import fit
from roofsim_evidence.collectives.measured import Score, measured, predict, report, scores
from roofsim_evidence.collectives.start import RANGES, SOURCES
from roofsim_evidence.places import checkout, constants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.schema.base import BaseModel
    from roofsim.spec.constants.links import Links
    from roofsim_evidence.collectives.measured import Collectives

COMMAND: Final = "evidence fit collectives --write"
HEADER: Final = f"""\
# What links and networks achieve in collectives; `{COMMAND}` wrote it from
# evidence/measurements/collectives.csv.gz. The meaning of each number is in roofsim/spec/constants/links.py.
schema: 1
"""
#: Fields in seconds, bytes per second and bytes; `ramp` of a link is a bandwidth, of a network a share.
SECONDS: Final = (
    "launch", "step", "handshake", "handshake_step", "fill", "fill_step", "exchange_step", "exchange_handshake", "point",
    "latency", "launch_one", "launch_two",
)  # fmt: skip
RATES: Final = ("small", "exchange_small")
#: Systems whose rows may be fitted, to be left out one at a time.
LEFT_OUT: Final = (
    "dgx-a100", "dgx-h100", "dgx-b200", "azure-nc96ads-a100-v4", "server-4x-h100-pcie-nvlink", "server-8x-arc-b60",
    "server-8x-gtx1080ti", "server-8x-p100-pcie",
)  # fmt: skip
#: Messages from here on are moved rather than waited for.
LARGE: Final = parse("16 MiB", "B")
PAGE: Final = "docs/collectives-accuracy.md"


def text_of(links: Links, fitted: dict[str, str]) -> str:
    """Return constants as YAML."""
    lines = ["shared: " + _flow(links.shared)]
    for section in ("links", "switches", "networks"):
        lines.append(f"{section}:")
        lines += [f"  {name}: {_flow(value, section)}" for name, value in getattr(links, section).items()]
    lines.append("custom:")
    for engine, kinds in links.custom.items():
        lines.append(f"  {engine}:")
        lines += [f"    {name}: {_flow(value)}" for name, value in kinds.items()]
    lines.append(f"host: {_flow(links.host)}")
    for section, texts in (("ranges", RANGES), ("sources", SOURCES), ("fitted", fitted)):
        lines.append(f"{section}:")
        lines += [f'  "{name}": "{text}"' for name, text in texts.items()]
    return HEADER + "\n".join(lines) + "\n"


def _flow(part: BaseModel, section: str = "") -> str:
    pairs = ((name, getattr(part, name)) for name in type(part).model_fields)
    return "{" + ", ".join(f"{name}: {_quantity(name, value, section)}" for name, value in pairs) + "}"


def _quantity(name: str, value: Any, section: str) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_quantity(key, number, section)}" for key, number in value.items()) + "}"
    if name in SECONDS:
        return humanize(value, "s", 4)
    if name in RATES or (name == "ramp" and section == "links"):
        return humanize(value, "B/s", 4)
    if name == "limit":
        return humanize(value, "B", 4, binary=True)
    return np.format_float_positional(value, precision=4, fractional=False, trim="-")


def left_out(table: Collectives, known: Links) -> list[Score]:
    """Return the errors on each system with all of its rows left out of the fit, engines' own kernels apart."""
    found = []
    for system in LEFT_OUT:
        mine = table.of(system=system)
        links = fit(table, table.fitted & ~mine, known)
        rows = table.only(mine & ~table.unfit & (table.per_node == table.ranks))
        large = np.where(rows.size >= LARGE, " from 16 MiB", " below 16 MiB")
        rows = replace(rows, parts=np.char.add(rows.parts, large))
        found += scores(rows, predict(rows, links))
    return found


def page(table: Collectives, links: Links, transferred: Sequence[Score]) -> str:
    """Return the document with the scores of constants."""
    held = table.only(~table.fitted)
    found = scores(held, predict(held, links))
    counts = f"{len(table):,} measured collectives, {int(table.fitted.sum()):,} of them fitted"
    parts = {
        "Held-out rows": [score for score in found if not score.part.startswith("log ") and _clean(score)],
        "Published logs, never fitted": [score for score in found if score.part.startswith("log ")],
        "Systems held out of the fit": list(transferred),
        "Small messages timed on the host (not fitted)": [score for score in found if not _clean(score)],
    }
    lines = [INTRODUCTION.format(counts=counts)]
    for title, rows in parts.items():
        lines += [f"\n## {title}\n", *report(rows)]
    return "\n".join([*lines, NOTES]) + "\n"


def _clean(score: Score) -> bool:
    return not score.part.endswith("host clock")


INTRODUCTION: Final = """\
# Accuracy of collectives

`evidence page collectives` writes this page. {counts}: every third row, when sorted by source,
system, operation, ranks and size, except published logs. Errors are |predicted / measured - 1|. Sources of the data:
[measurements/README.md](../measurements/README.md); how the time is computed:
[concepts/collectives.md](concepts/collectives.md)."""
NOTES: Final = """
## Known errors

- With a system held out, its short messages are 15-45 % off: the launch of a collective takes 8.3, 4.9 and 7.3 us on A100,
  H100 and B200, which no neighboring system would predict. Long messages are 4-20 % off.
- NCCL 2.23 to 2.29 differ among themselves by 1-9 % (median over sizes) on one H100 node; oneCCL 2021.15 and 2021.17 by 45 %
  on large messages of the Arc Pro B60: one constant cannot fit both.
- Between 1 and 8 MiB, each library changes protocol and algorithm at its own sizes: single points are 20-30 % off there.
- `aws-p6-b200` inside a node: nccl-tests without CUDA graphs; each call takes about 20 us more than inside a graph.
- `azure-nd-a100-v4 infiniband-staged`: a network without GPUDirect RDMA that gains nothing beyond four GPUs per node.
- `(vidur)` times are whole microseconds of host time. Below 4 MiB, all-reduces of neighboring sizes jump between 10 and 60 us."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Score the shipped constants, or fit, and write constants or the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="fit, and write hardware/constants/links.yaml")
    parser.add_argument("--transfer", action="store_true", help="also leave every system out of the fit once")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE} (with systems left out)")
    options = parser.parse_args(arguments)
    table = measured()
    links = fit(table, table.fitted) if options.write else shipped_links()
    held = table.only(~table.fitted)
    sys.stdout.write("\n".join(["not fitted", *report(scores(held, predict(held, links)))]) + "\n")
    if options.write:
        facts = {"command": COMMAND, "rows": f"{int(table.fitted.sum())} of {len(table)}, every third"}
        path = constants() / "links.yaml"
        save_text(path, text_of(links, facts))
    if options.transfer or options.page:
        transferred = left_out(table, links)
        sys.stdout.write("\n".join(["left out", *report(transferred)]) + "\n")
        if options.page:
            save_text(checkout() / PAGE, page(table, links, transferred))


if __name__ == "__main__":
    main()
