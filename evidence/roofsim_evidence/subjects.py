"""Name the subjects: what each measures, and the functions that score it, fit it, fill its page, or switch parts of it off."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, did_you_mean
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

VERBS: Final = ("score", "fit", "page", "ablate")


@dataclass(frozen=True, kw_only=True)
class MeasuredSubject:
    """Something that was measured.

    Attributes
    ----------
    about
        What it is, in a line.
    home
        Module whose functions ``score``, ``fit``, ``page`` and ``ablate`` do what the verbs say; it has those that make sense.
        Their keyword arguments are the verbs' options.
    verbs
        The verbs that it has.
    measurements
        Its file in ``evidence/measurements``.
    document
        Its page; empty if it has none.
    constants
        Files of ``hardware/constants`` that a fit writes.
    repeats
        Subjects whose pages the page repeats parts of, so that it is written after them.
    sets
        Sets of its rows that are predicted out of fold: ``fit --transfer`` fits without each source, card and family, and stores
        the predictions.
    foreign
        Whether it needs a package that is not part of the project's environment.
    """

    about: str
    home: str
    verbs: tuple[str, ...]
    measurements: str
    document: str = ""
    constants: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    foreign: bool = False

    def function(self, verb: str) -> Callable[..., Any]:
        """Return what a verb calls."""
        called: Callable[..., Any] = getattr(importlib.import_module(self.home), verb)
        return called

    def options(self, verb: str) -> list[str]:
        """Return the options that a verb takes for this subject."""
        return list(inspect.signature(self.function(verb)).parameters)


SUBJECTS: Final = {
    "steps": MeasuredSubject(
        about="training steps and forward passes on one GPU",
        home="roofsim_evidence.steps.verbs",
        verbs=("score", "fit", "page"),
        measurements="steps.jsonl",
        document="docs/accuracy.md",
        constants=("steps.yaml",),
        sets=("steps",),
        repeats=("inference",),
    ),
    "folds": MeasuredSubject(
        about="every set, predicted without each source, each card and each family of models in turn",
        home="roofsim_evidence.left_out.verbs",
        verbs=("fit", "page"),
        measurements="out_of_fold",
        document="docs/out-of-fold.md",
    ),
    "intervals": MeasuredSubject(
        about="how far predictions out of fold are off, by what makes a run unlike the measured ones",
        home="roofsim_evidence.intervals.verbs",
        verbs=("score", "fit"),
        measurements="out_of_fold",
        constants=("intervals.yaml",),
    ),
    "kernels": MeasuredSubject(
        about="single kernels",
        home="roofsim_evidence.kernels.verbs",
        verbs=("score", "fit"),
        measurements="kernels.csv.gz",
        constants=("kernels.yaml", "kernel_models.yaml"),
    ),
    "collectives": MeasuredSubject(
        about="all-reduces, all-to-alls and messages over links and networks",
        home="roofsim_evidence.collectives.verbs",
        verbs=("score", "fit", "page"),
        measurements="collectives.csv.gz",
        document="docs/collectives-accuracy.md",
        constants=("links.yaml",),
    ),
    "multi-gpu": MeasuredSubject(
        about="training steps on several GPUs",
        home="roofsim_evidence.multi_gpu.verbs",
        verbs=("score", "page", "ablate"),
        measurements="multi-gpu.jsonl",
        document="docs/multi-gpu-accuracy.md",
        sets=("multi-gpu",),
    ),
    "power": MeasuredSubject(
        about="the energy of long products (hardware/architectures), in steps that run at the limit of their cards",
        home="roofsim_evidence.multi_gpu.power_verbs",
        verbs=("fit",),
        measurements="multi-gpu.jsonl",
    ),
    "mlperf-training": MeasuredSubject(
        about="training steps of MLPerf submissions that nothing was, or may be, fitted to",
        home="roofsim_evidence.mlperf_training.verbs",
        verbs=("score", "page"),
        measurements="mlperf-training.jsonl",
        document="docs/mlperf-training.md",
    ),
    "mlperf-inference": MeasuredSubject(
        about="rates and latencies of MLPerf Inference submissions that nothing was, or may be, fitted to",
        home="roofsim_evidence.mlperf_inference.verbs",
        verbs=("score", "page"),
        measurements="mlperf-inference.jsonl",
        document="docs/mlperf-inference.md",
    ),
    "mechanisms": MeasuredSubject(
        about="the same steps, with one mechanism at a time switched off",
        home="roofsim_evidence.multi_gpu.mechanism_verbs",
        verbs=("page",),
        measurements="multi-gpu.jsonl",
        document="docs/mechanisms/evidence.md",
    ),
    "inference": MeasuredSubject(
        about="decode steps, prefills, generation, diffusion and servers",
        home="roofsim_evidence.inference.verbs",
        verbs=("score", "page"),
        measurements="inference.jsonl",
        document="docs/inference-accuracy.md",
        sets=("inference", "servers"),
    ),
    "engines": MeasuredSubject(
        about="constants of inference engines (hardware/engines) that measured passes decide",
        home="roofsim_evidence.inference.engine_verbs",
        verbs=("fit",),
        measurements="inference.jsonl",
    ),
    "external-inference": MeasuredSubject(
        about="measurements of inference that nothing was, or may be, fitted to",
        home="roofsim_evidence.inference.external_verbs",
        verbs=("score", "page"),
        measurements="external-inference.jsonl",
        document="docs/external-inference.md",
    ),
    "external-training": MeasuredSubject(
        about="measurements of training that nothing was, or may be, fitted to",
        home="roofsim_evidence.multi_gpu.external_verbs",
        verbs=("score", "page"),
        measurements="external-training.jsonl",
        document="docs/external-training.md",
    ),
    "external-kernels": MeasuredSubject(
        about="kernels of the installed aiconfigurator-core, or of a folder like its tables",
        home="roofsim_evidence.external_kernels.verbs",
        verbs=("score", "fit", "page"),
        measurements="",
        document="docs/external-kernels.md",
        foreign=True,
    ),
    "memory": MeasuredSubject(
        about="peaks of memory on one device",
        home="roofsim_evidence.memory.verbs",
        verbs=("score", "page"),
        measurements="memory.jsonl",
        document="docs/memory-accuracy.md",
        sets=("memory",),
    ),
    "pairs": MeasuredSubject(
        about="ratios of measured pairs: one run on two cards, one card with two batches",
        home="roofsim_evidence.pairs.verbs",
        verbs=("score", "page"),
        measurements="out_of_fold",
        document="docs/pairs.md",
    ),
    "captures": MeasuredSubject(
        about="captured models, beside what PyTorch counts of them and roofsim's own families",
        home="roofsim_evidence.captures.verbs",
        verbs=("score", "page"),
        measurements="captures",
        document="docs/captures.md",
    ),
    "exports": MeasuredSubject(
        about="exported programs, beside independent counts of them and roofsim's own families",
        home="roofsim_evidence.exports.verbs",
        verbs=("score", "page"),
        measurements="exports",
        document="docs/exports.md",
    ),
    "exactness": MeasuredSubject(
        about="parameters, FLOPs, bytes and peaks beside what PyTorch computes",
        home="roofsim_evidence.exactness.verbs",
        verbs=("score", "page"),
        measurements="oracle",
        document="docs/exactness.md",
    ),
    "record": MeasuredSubject(
        about="the scores of all sets, release by release (`evidence record` writes them)",
        home="roofsim_evidence.record.verbs",
        verbs=("page",),
        measurements="",
        document="docs/track-record.md",
    ),
    "forecasts": MeasuredSubject(
        about="sealed predictions of announced cards and of benchmark rounds to come (`evidence seal` writes them)",
        home="roofsim_evidence.forecasts.verbs",
        verbs=("score", "page"),
        measurements="",
        document="docs/forecasts.md",
    ),
}


#: The order of fits that write constants: each takes what those before it wrote as given. Kernels come first, from their own
#: micro-benchmarks; shares of whole steps with the kernels' constants held; the energy of long products with both; steps once
#: more with that energy; what each fold's constants predict, and the widths of intervals last.
ORDER: Final = ("kernels", "steps", "power", "steps", "folds", "intervals")


def subject(name: str, verb: str) -> MeasuredSubject:
    """Return a subject that has a verb.

    Raises
    ------
    UnknownNameError
        If there is no such subject: with near matches.
    SpecError
        If the subject lacks the verb: with those that have it.
    """
    if name not in SUBJECTS:
        hint = did_you_mean(name, tuple(SUBJECTS))
        raise UnknownNameError(Problem(f"unknown subject {name[:80]!r}. {hint}", Place("SUBJECT")))
    chosen = SUBJECTS[name]
    if verb not in chosen.verbs:
        able = ", ".join(other for other, one in SUBJECTS.items() if verb in one.verbs)
        message = f"{name} has no {verb!r}. Subjects with it: {able}"
        raise SpecError(Problem(message, hint=f"{name} has: {', '.join(chosen.verbs)}."))
    return chosen


def call(name: str, verb: str, options: dict[str, Any]) -> Any:
    """Call what a verb does for a subject, with the options that were given.

    Raises
    ------
    SpecError
        For an option that the subject's verb does not take: with the subjects whose verb does.
    """
    given = {option: value for option, value in options.items() if value not in (None, False, (), [])}
    if verb == "fit" and name in SUBJECTS and SUBJECTS[name].sets and given.keys() == {"transfer"}:
        written: str = importlib.import_module("roofsim_evidence.left_out.verbs").transfer(SUBJECTS[name].sets)
        return written
    chosen = subject(name, verb)
    known = chosen.options(verb)
    for option in given:
        if option not in known:
            able = [other for other, one in SUBJECTS.items() if verb in one.verbs and option in one.options(verb)]
            raise SpecError(Problem(f"`evidence {verb} {name}` has no --{option}. Subjects with it: {', '.join(able)}"))
    return chosen.function(verb)(**given)
