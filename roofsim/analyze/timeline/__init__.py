"""Say when things happen in a step: on which stream of which ranks, and what of the communication shows."""

from roofsim.analyze.timeline.build import timeline
from roofsim.analyze.timeline.spans import COMPUTE, STREAMS, WAITS, Beside, Lane, Span, Timeline

__all__ = ["COMPUTE", "STREAMS", "WAITS", "Beside", "Lane", "Span", "Timeline", "timeline"]
