"""Say how many models of each family were counted on a library's own code: of lists of layers, those of each kind."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from roofsim.analyze.kinds import kinds_of
from roofsim.spec import catalog
from roofsim_evidence.exactness.oracle import rows
from roofsim_evidence.markdown import table
from roofsim_evidence.places import checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Reference tables of tests/lower -> their columns of FLOPs and of bytes kept.
TABLES: Final = {
    "listed": ("products", "saved"),
    "layers": ("matmul_flops", ""),
    "decoder": ("forward_flops", "saved"),
    "hub": ("forward_flops", "saved"),
    "encoder": ("forward_flops", "saved"),
    "transformer": ("forward_flops", "saved"),
    "vision": ("forward_flops", "saved_bf16"),
}
#: Tables of evidence/measurements/oracle that count either.
ORACLES: Final = {"flops": "FLOPs", "activations": "bytes kept"}
#: What enters a model that is a list of layers, and is of no other kind -> its kind.
INPUTS: Final = {"tokens": "text", "images": "images", "volumes": "volumes", "features": "sound"}


def counted() -> dict[str, set[str]]:
    """Return the models whose FLOPs and whose bytes kept were counted."""
    models: dict[str, set[str]] = {"FLOPs": set(), "bytes kept": set()}
    for name, columns in TABLES.items():
        for row in _reference(name):
            for quantity, column in zip(models, columns, strict=True):
                if row.get(column):
                    models[quantity].add(row["model"].partition("/")[0])
    for name, quantity in ORACLES.items():
        models[quantity].update(
            catalog.load("model", alias).data["name"] for alias in {row["model"] for row in rows(name)}
        )
    return models


def _reference(name: str) -> Iterator[dict[str, str]]:
    path = checkout() / "tests" / "lower" / f"{name}_reference.csv"
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def family_of(name: str) -> str:
    """Return the family of a model of the catalog, with its kind where that is a list of layers."""
    data = catalog.load("model", name).data
    family: str = data["family"]
    return f"layers, {_kind(name, data)}" if family == "layers" else family


def _kind(name: str, data: dict[str, object]) -> str:
    kinds, more = kinds_of(name), data.get("more_inputs", {})
    for kind in ("gnn", "diffusion", "hybrid"):
        if kind in kinds:
            return {"gnn": "graphs"}.get(kind, kind)
    entering = str(data.get("inputs", "tokens"))
    return "images beside text" if entering == "tokens" and more else INPUTS.get(entering, entering)


def by_family(counts: Callable[[str], tuple[float, int | None]]) -> str:
    """Return the table in Markdown; `counts` gives the counted and the published parameters of a model."""
    totals, tallies = Counter[str](), defaultdict[str, Counter[str]](Counter)
    models = counted()
    for name in catalog.names("model"):
        family = family_of(name)
        totals[family] += 1
        here, published = counts(name)
        tallies["parameters"][family] += here == published
        for quantity, known in models.items():
            tallies[quantity][family] += name in known
    heads = ("family", "models", "parameters equal", "FLOPs counted", "bytes kept counted")
    columns = ("parameters", *models)
    lines = [(name, str(totals[name]), *(str(tallies[key][name]) for key in columns)) for name in sorted(totals)]
    return table(heads, lines)
