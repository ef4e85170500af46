"""Seconds of the passes of a server, as surfaces: one evaluation over an open mesh of sizes, then interpolation."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.evaluate import evaluate, unpriced_of
from roofsim.numeric import maximum, minimum
from roofsim.records import dataclass, replace
from roofsim.structures import pass_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.evaluate import Evaluation, Unpriced
    from roofsim.numeric import Array, Real
    from roofsim.passes.serving_adapters import ServeAdapters
    from roofsim.program import Program
    from roofsim.spec.resolve import Resolved

#: Points of a mesh for each doubling of a batch or of the tokens of a pass: products run in tiles, so that time has steps.
POINTS_PER_DOUBLING: Final = 2
#: Contexts at which decode steps are priced; between them time is linear but for the corner of a roofline.
CONTEXT_POINTS: Final = 9


@dataclass(frozen=True, kw_only=True)
class Surface:
    """Seconds of a pass over two sizes, both rising; one row of `seconds` for each of `rows`."""

    rows: tuple[float, ...]
    columns: tuple[float, ...]
    seconds: tuple[tuple[float, ...], ...]

    def at(self, row: float, column: float) -> float:
        """Return the seconds between the points of the mesh, linear in both sizes; beyond it the last slope goes on."""
        i, up = _between(self.rows, row)
        j, across = _between(self.columns, column)
        low, high = self.seconds[i], self.seconds[i + 1]
        first = low[j] + (low[j + 1] - low[j]) * across
        second = high[j] + (high[j + 1] - high[j]) * across
        return first + (second - first) * up


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Seconds of a pass over one size."""

    points: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, point: float) -> float:
        """Return the seconds between the points, linear; below the first its own, beyond the last its slope goes on."""
        i, share = _between(self.points, max(point, self.points[0]))
        return self.seconds[i] + (self.seconds[i + 1] - self.seconds[i]) * share


def _between(points: Sequence[float], value: float) -> tuple[int, float]:
    """Return the interval in which a value lies, and how far in it: from 0 to 1, outside of all points beyond that."""
    i = bisect_right(points, value, 1, len(points) - 1) - 1
    low = points[i]
    return i, (value - low) / (points[i + 1] - low)


def mesh(highest: float, lowest: float = 1.0, exactly: Iterable[float] = ()) -> Array:
    """Return numbers from `lowest` to `highest` (at least two of them), evenly spaced by their logarithm.

    >>> mesh(8.0, exactly=[5.0]).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
    """
    highest = max(highest, lowest + 1.0)
    count = int(np.ceil(np.log2(highest / lowest) * POINTS_PER_DOUBLING)) + 1
    spaced = np.round(np.geomspace(lowest, highest, max(count, 2)))
    kept = [value for value in exactly if lowest <= value <= highest]
    points: Array = np.unique(np.concatenate([spaced, kept]))
    return points


@dataclass(frozen=True)
class Passes:
    """The passes of a model in a server, without what its host does between them."""

    resolved: Resolved
    adapters: ServeAdapters | None = None
    in_flight: float = 1.0
    """Batches on the stages of a pipeline at once."""

    def decode_surface(self, most: float, longest: float, exactly: Iterable[float] = ()) -> Surface:
        """Price steps of one to `most` sequences with contexts up to `longest`."""
        batches = mesh(most, exactly=exactly)
        contexts: Array = np.unique(np.round(np.linspace(1.0, max(longest, 2.0), CONTEXT_POINTS)))
        few = batches <= self._graphed
        parts = [
            np.broadcast_to(
                self.decode(some[:, np.newaxis], contexts[np.newaxis, :]).step.step, (len(some), len(contexts))
            )
            for some in (batches[few], batches[~few])
            if len(some)
        ]
        seconds: Array = np.concatenate(parts)
        return Surface(
            rows=tuple(batches.tolist()), columns=tuple(contexts.tolist()), seconds=tuple(map(tuple, seconds.tolist()))
        )

    def prompt_curve(self, prompt: float, cached: float, most: float) -> Curve:
        """Price passes of up to `most` tokens of prompts of `prompt` tokens each, of which `cached` are in the cache."""
        tokens = mesh(most, exactly=(prompt - cached,))
        evaluation = self.prompts(tokens, prompt, cached)
        seconds = np.broadcast_to(evaluation.step.step, tokens.shape)
        return Curve(points=tuple(tokens.tolist()), seconds=tuple(seconds.tolist()))

    def adapter_surface(self, most: float, requests: float) -> Surface:
        """Price what adapters add to passes of up to `most` rows, of so many requests."""
        rows, asking = mesh(most), mesh(requests)
        plain = Passes(self.resolved, None, self.in_flight).decode(rows[:, np.newaxis], 1.0)
        adapted = self.decode(rows[:, np.newaxis], 1.0, asking[np.newaxis, :])
        more = np.maximum(adapted.step.step - plain.step.step, 0.0)
        seconds = np.broadcast_to(more, (len(rows), len(asking)))
        return Surface(
            rows=tuple(rows.tolist()), columns=tuple(asking.tolist()), seconds=tuple(map(tuple, seconds.tolist()))
        )

    @property
    def _graphed(self) -> float:
        """Requests of a decode step up to which it is launched as a graph, where graphs launch any."""
        facts = self.resolved.engine.server
        return float("inf") if facts is None or facts.decode_graph_rows is None else float(facts.decode_graph_rows)

    def decode(self, batch: Real, context: Real, requests: Real | None = None) -> Evaluation:
        """Price a step that adds a token to `batch` sequences; `context` tokens are then in the cache of each.

        Adapters are those of so many `requests`, left out: of as many as sequences.
        """
        resolved, program = self._built("decode", batch, 1.0, context, batch if requests is None else requests)
        return evaluate(resolved, program=program)

    def prompts(self, tokens: Real, prompt: float, cached: float) -> Evaluation:
        """Price a pass over so many tokens of prompts: a piece of one, or several whole ones.

        A piece sees the tokens before it; which piece of its prompt it is differs from pass to pass, and attention is
        linear in what it sees, so that the mean is taken.
        """
        resolved, program = self._of_prompts(tokens, prompt, cached)
        return evaluate(resolved, program=program)

    def held_in_decode(self, batch: Real, context: Real) -> Unpriced:
        """Return what a decode step holds: `decode` without its price."""
        resolved, program = self._built("decode", batch, 1.0, context, batch)
        return unpriced_of(resolved, program=program)

    def held_in_prompts(self, tokens: Real, prompt: float, cached: float) -> Unpriced:
        """Return what a pass over prompts holds: `prompts` without its price."""
        resolved, program = self._of_prompts(tokens, prompt, cached)
        return unpriced_of(resolved, program=program)

    def _of_prompts(self, tokens: Real, prompt: float, cached: float) -> tuple[Resolved, Program]:
        new = prompt - cached
        length = minimum(tokens, new)
        batch = maximum(tokens / new, 1.0)
        return self._built("prefill", batch, length, (cached + length + prompt) / 2.0, batch)

    def _built(self, phase: str, batch: Real, length: Real, context: Real, requests: Real) -> tuple[Resolved, Program]:
        engine = self.resolved.engine
        silent: dict[str, Any] = {"host_time_per_step": 0.0, "host_time_per_sequence": 0.0}
        if phase == "decode" and float(np.max(batch)) > self._graphed:
            silent |= {"decode_launch": engine.launch.mode, "decode_launch_on": {}}
        resolved = replace(self.resolved, engine=engine.changed(**silent))
        sizes = {"batch": batch, "length": length, "context": context, "in_flight": self.in_flight}
        return resolved, pass_of(resolved, phase, sizes, requests, self.adapters)
