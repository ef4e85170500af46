"""Say when things happen in a step: on which stream of which ranks, and what of the communication shows."""

from roofsim.analyze.timeline.build import timeline
from roofsim.analyze.timeline.spans import COMPUTE, Lane, Span, Timeline

__all__ = ["COMPUTE", "Lane", "Span", "Timeline", "timeline"]
