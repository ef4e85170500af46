"""Write out the ops inside the passes of pipeline stages: of the first micro batches, stage by stage and chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.shares import made_of
from roofsim.analyze.timeline.passes import WRITTEN, Writer, run_of
from roofsim.analyze.timeline.spans import COMPUTE, Span
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, KINDS, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.analyze.timeline.exposure import GroupTime
    from roofsim.cost.pricing import PassCost
    from roofsim.evaluate import Evaluation
    from roofsim.schedule.overlap import Exposed

#: Phases of ops that run in each kind of a schedule's work.
_PHASES = {KINDS[FORWARD]: ("forward",), KINDS[BACKWARD]: ("backward", "recompute")}


def ops_of_passes(
    evaluation: Evaluation,
    pieces: list[Span],
    kinds: list[int],
    groups: list[list[GroupTime]],
    costs: list[PassCost],
    shown: list[Exposed],
) -> list[list[Span]]:
    """Return the ops inside each pass of the first micro batches, in the order in which they run.

    A pass lasts as long as its stage takes; its ops stand in it as far apart as its waits for collectives and launches are long.
    Of interleaved stages a chunk has its own layers. Where a schedule splits the backward pass, its ops are not told apart and are
    left out.

    Parameters
    ----------
    pieces
        Passes of a schedule that has run; the lane of each is its stage.
    kinds
        Place of each lane's graph in the program.
    """
    split = any(piece.kind == KINDS[WEIGHTS] for piece in pieces)
    passes = [piece for piece in pieces if piece.kind in _PHASES and piece.stream == COMPUTE]
    passes = [piece for piece in passes if piece.facts.get("micro_batch", WRITTEN) < WRITTEN]
    chunks = 1 + max((piece.facts["chunk"] for piece in passes), default=0)
    alone: dict[int, list[Span]] = {}
    written = []
    for piece in passes:
        if split and piece.kind == KINDS[BACKWARD]:
            continue
        place = kinds[piece.lane]
        if place not in alone:
            alone[place] = _alone(evaluation, place, groups[place], costs[place], shown[place])
        own = [span for span in alone[place] if span.kind in _PHASES[piece.kind]]
        written.append(list(_inside(piece, _of_chunk(own, piece, chunks))))
    return [ops for ops in written if ops]


def _alone(evaluation: Evaluation, place: int, groups: list[GroupTime], cost: PassCost, shown: Exposed) -> list[Span]:
    """Return the ops of a micro batch on one stage, as if it ran alone."""
    (part,) = made_of(evaluation, evaluation.program.stages[place].name).parts
    writer = Writer(evaluation)
    writer.one_pass(run_of(part, cost, shown, float(evaluation.own_step(place).pace)), groups)
    return [span for span in writer.spans if span.stream == COMPUTE]


def _of_chunk(ops: list[Span], piece: Span, chunks: int) -> list[Span]:
    """Return the ops of a chunk: an even share of the layers that repeat; what comes before and after belongs to the ends."""
    if chunks == 1 or not ops:
        return ops
    repeats = [span.facts["repeat"] for span in ops]
    many = 1 + max((repeat for repeat in repeats if repeat is not None), default=0)
    first = next((place for place, repeat in enumerate(repeats) if repeat is not None), len(ops))
    turns = [
        (0 if place < first else chunks - 1) if repeat is None else min(repeat * chunks // many, chunks - 1)
        for place, repeat in enumerate(repeats)
    ]
    wanted = piece.facts["chunk"] if piece.kind == KINDS[FORWARD] else chunks - 1 - piece.facts["chunk"]
    return [span for span, turn in zip(ops, turns, strict=True) if turn == wanted]


def _inside(piece: Span, ops: list[Span]) -> Iterator[Span]:
    """Move ops into a pass: their ends apart or together, so that the last ends with it; what they take stays, or shrinks."""
    if not ops:
        return
    begin, end = ops[0].start, ops[-1].start + ops[-1].seconds
    pace = piece.seconds / (end - begin) if end > begin else 1.0
    for op in ops:
        seconds = op.seconds * min(pace, 1.0)
        start = piece.start + (op.start + op.seconds - begin) * pace - seconds
        facts = op.facts | {key: piece.facts[key] for key in ("micro_batch", "chunk")}
        yield Span(piece.lane, COMPUTE, op.name, op.kind, start, seconds, facts)
