"""Make the page of what takes memory: what is alive over the step, and the rows of what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.ledger import memory_of
from roofsim.report import room
from roofsim.report.html import memories, of_any
from roofsim.report.html.blocks import ReportPage, Section
from roofsim.report.html.of_run import evaluation_of_scenario

if TYPE_CHECKING:
    from roofsim.report.html.asked import AskedReport


def page(answer: Any, asked: AskedReport) -> ReportPage:
    """Return the page of a ledger, or of a view of the memory of a scenario."""
    made = of_any.page(answer, asked)
    evaluation = asked.evaluation or getattr(answer, "evaluation", None)
    if evaluation is None and asked.scenario is not None:
        evaluation = evaluation_of_scenario(asked.scenario)
    curve = None if evaluation is None else memories.memory_data(evaluation)
    if curve is None:
        return made
    assert evaluation is not None
    capacity = float(evaluation.device.capacity)
    drawn = memories.memory_curve(curve, capacity, ("charts", "memory"))
    in_full, *rows = made.sections
    own = {
        "sections": (
            Section(title="Memory over the step", blocks=(drawn,)),
            *(Section(title="At the peak", blocks=one.blocks) for one in rows),
            Section(title="In full", blocks=in_full.blocks),
        ),
        "data": made.data | {"charts": {"memory": curve}},
        "verdict": (f"Memory: {room.room(memory_of(evaluation))}.",),
    }
    return ReportPage(**{**made.__dict__, **own})
