"""Which names that people ask for have an answer: ``python -m tests.spec.names_asked --write`` writes docs/reference/names.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from roofsim.errors import RoofsimError
from roofsim.spec.catalog import Kind, resolve_name, why_not
from roofsim.spec.engine.find import without_facts

PAGE = Path(__file__).parents[2] / "docs/reference/names.md"
MEASUREMENTS = Path(__file__).parents[2] / "evidence" / "measurements"
ASKED: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
HEAD = """# Names

Which names of models, cards, nodes and engines that people ask for have an answer. The names were chosen by hand in November 2026
from hubs, benchmarks, price lists and threads; some entries and spellings were added because of this list, so what is asked
for next is answered less often. `python -m tests.spec.names_asked --write` makes this page.

A name that is known is not a run that can be said: of {total} rates and latencies of MLPerf Inference, {unsaid} ({share}) are of no
scenario, each with [its reason](../mlperf-inference.md#what-no-scenario-can-say).

| asked for in | kind | names | answered |
| --- | --- | --- | --- |
"""
WITHOUT = """
Without an answer:

| name | why |
| --- | --- |
"""


def answered(kind: Kind, name: str) -> bool:
    """Tell whether the catalog knows a name."""
    try:
        resolve_name(kind, name)
    except RoofsimError:
        return False
    return True


def reason(kind: Kind, name: str) -> str | None:
    """Return why a name has no answer, as a run says it too; None where nothing does."""
    if kind != "engine":
        return why_not(kind, name)
    known = without_facts(name)
    return None if known is None else known[0]


def rows_of_mlperf() -> tuple[int, int]:
    """Return how many rows of MLPerf Inference were read, and how many no scenario can say."""
    said, unsaid = (
        len((MEASUREMENTS / name).read_text(encoding="utf-8").splitlines())
        for name in ("mlperf-inference.jsonl", "mlperf-inference-unsaid.csv")
    )
    return said + unsaid - 1, unsaid - 1  # the CSV file has a line of heads


def page() -> str:
    """Return the page."""
    rows, without = [], []
    for group in ASKED["asked"]:
        missing = [name for name in group["names"] if not answered(group["kind"], name)]
        known, whole = len(group["names"]) - len(missing), len(group["names"])
        rows.append(f"| {group['where']} | {group['kind']} | {whole} | {known} ({100 * known / whole:.0f} %) |\n")
        without += [f"| `{name}` | {reason(group['kind'], name)} |\n" for name in missing]
    total, unsaid = rows_of_mlperf()
    head = HEAD.format(total=total, unsaid=unsaid, share=f"{100 * unsaid / total:.0f} %")
    return head + "".join(rows) + WITHOUT + "".join(without)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
