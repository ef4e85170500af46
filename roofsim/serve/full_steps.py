"""Room for prompts in the steps of an engine that mixes: decode takes its tokens first, prompts have the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roofsim.serve.load import Load
    from roofsim.serve.timing import Timing

#: Of a prompt, what is not worth a step.
_ROUNDING: Final = 2.0**-24


def most_decoding(timing: Timing, load: Load) -> float:
    """Return the requests that decode at most in the long run: those beside which as many prompts find room as end.

    ``r (1 + guesses) + r tokens / checks = budget``: each step ends ``r / checks`` requests, whose places others take with a
    prompt each.
    """
    if load.checks <= 0.0:
        return 0.0
    return load.budget / (1.0 + timing.draft_tokens + load.tokens / load.checks)


def room_in_step(timing: Timing, load: Load, running: float) -> float:
    """Return the tokens of a step that are left for prompts beside so many requests under way."""
    if not timing.mixed:
        return load.budget
    return load.budget - min(running, most_decoding(timing, load)) * (1.0 + timing.draft_tokens)


def full_rate(timing: Timing, load: Load) -> float:
    """Return the requests per second of a replica whose steps are all full.

    Where prompts run first, nothing is left for decode then: only requests without decode reach it.
    """
    running = most_decoding(timing, load) if timing.mixed else 0.0
    room = room_in_step(timing, load, running)
    return room / load.tokens / timing.step(running, load.context, room, room / load.tokens)


def alone(timing: Timing, load: Load, running: float, room: float) -> float:
    """Return the seconds of the steps that one prompt takes: full ones, and one with what is left."""
    whole = float(int(load.tokens / room * (1.0 + _ROUNDING)))
    rest = load.tokens - whole * room
    seconds = whole * timing.step(running, load.context, room) if whole else 0.0
    return seconds + (timing.step(running, load.context, rest) if rest > _ROUNDING * load.tokens else 0.0)
