"""Read requests of a real service from a file: how long their prompts and outputs are, and when they came."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim.spec.reading.source import read_text
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.numeric import Array
    from roofsim.serve.plan import ServerPlan
    from roofsim.spec.reading.source import Document

#: What a request must have, and what it may have.
NEEDED: Final = ("prompt", "output")
OPTIONAL: Final = ("arrival",)
#: Tokens of a prompt or an output at most, and the largest variations of outputs, and of prompts and gaps, that a server takes.
_MOST: Final = 10**9
_WIDEST: Final = 3.0
_WILDEST: Final = 10.0
#: Requests that are drawn.
_DRAWN: Final = 4096
_FORMS: Final = (
    "A CSV file has a head (prompt,output,arrival), a JSONL file an object per line; arrivals are in seconds."
)


@dataclass(frozen=True, kw_only=True)
class RequestLog:
    """Requests as they came.

    Attributes
    ----------
    prompts, outputs
        Tokens of each.
    gaps
        Seconds from each to the next, from the earliest on; None: nobody said when they came.
    """

    source: str
    prompts: tuple[float, ...]
    outputs: tuple[float, ...]
    gaps: tuple[float, ...] | None = None

    @property
    def rate(self) -> float | None:
        """Requests per second; None: not known."""
        return None if self.gaps is None else 1.0 / float(np.mean(self.gaps))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: how many, their means, and standard deviations as shares of these."""
        return {
            "source": self.source,
            "requests": len(self.prompts),
            "prompt_length": float(np.mean(self.prompts)),
            "prompt_variation": variation(self.prompts),
            "output_length": float(np.mean(self.outputs)),
            "output_variation": variation(self.outputs),
            "request_rate": self.rate,
            "arrival_variation": None if self.gaps is None else variation(self.gaps),
        }

    def on(self, document: Document) -> Document:
        """Return a scenario whose requests are as long as these in the mean, vary as much, and come as often.

        Raises
        ------
        SpecError
            Where the scenario states lengths of its own.
        """
        for key in ("prompt_length", "output_length"):
            if document.states("workload", key):
                message = f"{self.source} says how long prompts and outputs are, and so does the scenario"
                raise SpecError(Problem(message, document.place(("workload", key)), f"workload.{key}", "Leave it out."))
        serving = (document.data.get("workload") or {}).get("serving") or {}
        measured = {"length_variation": (self.outputs, _WIDEST), "prompt_variation": (self.prompts, _WILDEST)}
        if self.gaps is not None:
            measured["arrival_variation"] = (self.gaps, _WILDEST)
        spread = {key: round(min(variation(of), most), 6) for key, (of, most) in measured.items()} | dict(serving)
        values: dict[str, Any] = {
            "prompt_length": max(round(float(np.mean(self.prompts))), 1),
            "output_length": max(round(float(np.mean(self.outputs))), 1),
            "serving": spread,
        }
        loaded = document.states("workload", "request_rate") or document.states("workload", "concurrency")
        if self.rate is not None and not loaded:
            values["request_rate"] = self.rate
        for key, value in values.items():
            document = with_override(document, f"workload.{key}", value, self.source)
        return document

    def notes(self) -> tuple[str, ...]:
        """Return what the estimate takes these requests as, which a simulation runs as they are."""
        said = []
        if (spread := variation(self.prompts)) > 0.0:
            said.append(f"prompts vary by {spread:.0%} of their mean: the estimate takes them as log-normal")
        if self.gaps is not None:
            said.append(
                f"times between requests vary by {variation(self.gaps):.0%} of their mean (at random: 100%): the estimate takes "
                "each as independent of the one before; only a simulation has longer waves and bursts of a log"
            )
        return tuple(said)


def drawn(plan: ServerPlan) -> RequestLog | None:
    """Return requests whose lengths and gaps are log-normal, as a server's settings say; None where they say nothing of that."""
    serving = plan.serving
    if serving.prompt_variation is None and serving.arrival_variation is None:
        return None
    random = np.random.default_rng(1)
    prompts, outputs, gaps = (
        _log_normal(random, mean, spread)
        for mean, spread in (
            (plan.prompt, serving.prompt_variation or 0.0), (plan.output, plan.variation), (1.0, serving.arrival_variation or 0.0),
        )
    )  # fmt: skip
    return RequestLog(
        source="log-normal",
        prompts=tuple(np.maximum(np.round(prompts), 1.0).tolist()),
        outputs=tuple(np.maximum(np.round(outputs), 1.0).tolist()),
        gaps=None if serving.arrival_variation is None else tuple(gaps.tolist()),
    )


def _log_normal(random: np.random.Generator, mean: float, spread: float) -> Array:
    """Return log-normal numbers of a mean, with a standard deviation of so many times that."""
    square = math.log1p(spread * spread)
    values: Array = mean * np.exp(math.sqrt(square) * random.standard_normal(_DRAWN) - 0.5 * square)
    return values


def variation(values: tuple[float, ...]) -> float:
    """Return the standard deviation of numbers as a share of their mean.

    >>> variation((1.0, 3.0))
    0.5
    """
    mean = float(np.mean(values))
    return float(np.std(values)) / mean if mean > 0.0 else 0.0


def read_requests(path: str | Path, place: Place | None = None) -> RequestLog:
    """Read a CSV or JSONL file of requests.

    Raises
    ------
    SpecError
        For a file that is neither, a line without a length, a length or a time that is none; the message names file, line and key.
    """
    path = Path(path)
    readers = {".csv": _csv, ".jsonl": _jsonl}
    if path.suffix.lower() not in readers:
        message = f"expected a file of requests that ends in .csv or .jsonl; got {str(path)[:120]!r}"
        raise SpecError(Problem(message, place, hint=_FORMS))
    rows = list(readers[path.suffix.lower()](path))
    if len(rows) < 2:
        raise SpecError(Problem(f"expected two requests or more; got {len(rows)}", Place(str(path)), hint=_FORMS))
    times = [row[2] for row in rows]
    gaps = None
    if None not in times:
        order = np.sort(np.array(times, dtype=np.float64))
        gaps = tuple(np.diff(order).tolist())
        if not sum(gaps):
            raise SpecError(
                Problem("all requests come at one time", Place(str(path)), "arrival", "Leave the times out.")
            )
    return RequestLog(
        source=str(path), prompts=tuple(row[0] for row in rows), outputs=tuple(row[1] for row in rows), gaps=gaps
    )


_Row = tuple[float, float, float | None]


def _csv(path: Path) -> Iterator[_Row]:
    reader = csv.DictReader(io.StringIO(read_text(path, "table of requests")), skipinitialspace=True)
    heads = [head.strip() for head in reader.fieldnames or ()]
    _check_keys(heads, Place(str(path), 1))
    reader.fieldnames = heads
    timed = "arrival" in heads
    for row in reader:
        yield _request(row, Place(str(path), reader.line_num), timed=timed)


def _jsonl(path: Path) -> Iterator[_Row]:
    timed: bool | None = None
    for number, line in enumerate(read_text(path, "file of requests").splitlines(), 1):
        if not line.strip():
            continue
        place = Place(str(path), number)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise SpecError(Problem(f"expected an object; got {line[:60]!r}", place, hint=_FORMS))
        _check_keys(list(row), place)
        timed = "arrival" in row if timed is None else timed
        yield _request(row, place, timed=timed)


def _check_keys(keys: list[str], place: Place) -> None:
    for name in NEEDED:
        if name not in keys:
            close = did_you_mean(name, keys)
            raise SpecError(
                Problem(f"has no {name}; keys: {', '.join(keys)[:120] or 'none'}", place, name, close or _FORMS)
            )
    for key in keys:
        if key not in (*NEEDED, *OPTIONAL) and (hint := did_you_mean(key, OPTIONAL)):
            raise SpecError(Problem(f"unknown key {key!r}", place, key, hint))


def _request(row: dict[str, Any], place: Place, *, timed: bool) -> _Row:
    prompt, output = (_number(row.get(name), place, name, least=1.0) for name in NEEDED)
    if prompt is None or output is None:
        raise SpecError(
            Problem("expected a number of tokens; got nothing", place, "prompt" if prompt is None else "output")
        )
    arrival = _number(row.get("arrival"), place, "arrival", least=0.0)
    if timed and arrival is None:
        raise SpecError(
            Problem("expected seconds; got nothing", place, "arrival", "Give all requests a time, or none.")
        )
    return prompt, output, arrival


def _number(given: Any, place: Place, key: str, *, least: float) -> float | None:
    """Return a number of a request; tokens are whole numbers."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return None
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    tokens = key in NEEDED
    if not least <= value <= _MOST or (tokens and value != round(value)):
        expected = f"a whole number from 1 to {_MOST:,}" if tokens else "seconds, zero or more"
        raise SpecError(Problem(f"expected {expected}; got {str(given)[:60]!r}", place, key))
    return value
