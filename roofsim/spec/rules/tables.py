"""Refuse embedding tables that ranks cannot share as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.model.registry import families_that
from roofsim.spec.rules.rule import Rule, ScenarioCase
from roofsim.spec.scenario.layout import divisors

if TYPE_CHECKING:
    from roofsim.spec.model.base import ModelSpec


def _deals(schema: type[ModelSpec] | ModelSpec) -> bool:
    return schema.deals_tables


def _dealt(case: ScenarioCase) -> bool:
    return case.parallel.tables != "copied"


def _columns_uneven(case: ScenarioCase) -> Any:
    width = case.traits.table_width
    if case.parallel.tables != "column" or width is None:
        return False
    return (case.point.replicas > 1) & (width % case.point.replicas != 0)


def copies_part(case: ScenarioCase) -> list[str]:
    """Say, of training, that copies of tables on several ranks go different ways; nothing where they do not."""
    sparse = case.model.deals_tables and case.traits.sparse_tables and case.workload.phase == "train"
    if not sparse or _dealt(case) or not case.point.replicas > 1:
        return []
    said = f"each of {case.point.replicas} ranks updates a copy of the tables of its own, and nothing brings these together"
    return [f"{said}: parallel.tables (row, column, table) deals them out"]


TABLES: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "tables-of-family",
        "parallel.tables",
        lambda case: _dealt(case) and not case.model.deals_tables,
        lambda case: (
            f"{case.model.family} models have no embedding tables that are dealt out over ranks",
            f"Families that have: {', '.join(families_that(_deals))}. Leave tables out.",
        ),
    ),
    Rule(
        "tables-of-dense-updates",
        "parallel.tables",
        lambda case: _dealt(case) and case.workload.phase == "train" and not case.traits.sparse_tables,
        lambda _: (
            "tables that are dealt out are updated row by row; those of sparse_updates: false have dense gradients of all ranks",
            "Set model.sparse_updates: true, or tables: copied.",
        ),
    ),
    Rule(
        "tables-and-sharding",
        "parallel.tables",
        lambda case: _dealt(case) and case.parallel.shards_fully,
        lambda case: (
            f"tables by {case.parallel.tables} and sharding of all parameters: both would split the tables",
            "Leave one of them out: sharding: none, optimizer or gradients goes with tables.",
        ),
    ),
    Rule(
        "columns-divide-tables",
        "parallel.tables",
        _columns_uneven,
        lambda case: (
            f"{case.point.replicas} ranks do not divide the {case.traits.table_width} columns of a table",
            f"Use one of {divisors(case.traits.table_width)} ranks, or tables: row.",
        ),
    ),
)
