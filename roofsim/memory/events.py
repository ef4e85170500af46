"""Write out what a program allocates and frees, in order: the food of the allocator's simulation."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from roofsim.memory.allocator import FREE, AllocatorResult, AllocatorSettings, Event, simulate
from roofsim.memory.numbering import Storages, numbered
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roofsim.graph.opgraph import OpGraph

#: Micro batches that are written out: the first finds no gradients to add to, the second stands for all others.
MICRO_BATCHES = 2
#: Steps that are written out: the first makes the optimizer's state, the second finds it there.
STEPS = 2


def reserved(
    graphs: Sequence[OpGraph], settings: AllocatorSettings | None = None, *, micro_batches: float | None = None
) -> AllocatorResult:
    """Simulate PyTorch's allocator over a training step (given its micro batches), or passes of inference.

    >>> from roofsim.graph.opgraph import OpGraph
    >>> reserved([OpGraph([])]).reserved_peak
    0.0
    """
    return simulate(inference(graphs) if micro_batches is None else training(graphs[0], micro_batches), settings)


def training(graph: OpGraph, micro_batches: float = 1.0, steps: int = STEPS) -> list[Event]:
    """Return what training allocates and frees from its start: parameters, then so many steps.

    The optimizer's state is made in the first step, when gradients are there already; gradients go before the next
    (`set_to_none`). Of more than two micro batches two are written out.
    """
    program = _Program(numbered(graph))
    events = [*program.start(), *program.hold(program.storages.caches)]
    for _ in range(steps):
        for micro_batch in range(int(min(micro_batches, MICRO_BATCHES))):
            events += program.batch(first=micro_batch == 0)
        events += program.update()
        events += program.forget_gradients()
    return events


def inference(graphs: Sequence[OpGraph], times: int = 2, *, networks: bool = False) -> list[Event]:
    """Return what passes allocate and free, each so often, one after the other.

    They run over one set of parameters, or, `networks`, each over its own, all of which are loaded first. The key-value
    cache is the last one's, at its last context, from the start.
    """
    keys = count()
    programs = [_Program(numbered(graph), keys) for graph in graphs]
    events = [event for program in programs[: len(programs) if networks else 1] for event in program.start()]
    events += programs[-1].hold(programs[-1].storages.caches)
    for program in programs:
        for _ in range(times):
            events += program.batch()
        events += program.drop_inputs()
    return events


@dataclass(frozen=True, slots=True)
class _Update:
    """What one optimizer step allocates: once and for all, and each time."""

    states: list[int]
    temporaries: list[list[int]]


class _Program:
    """One pass as events, with fresh keys for every run of it."""

    def __init__(self, storages: Storages, keys: Iterator[int] | None = None) -> None:
        self.storages = storages
        self.keys = count() if keys is None else keys
        self.held: dict[int, int] = {}
        self.inputs: list[int] = []
        self.gradients: list[int] = []
        self.updates = [_update_of(storages, index) for index in range(len(storages.updates))]
        self.has_state = False

    def start(self) -> Iterator[Event]:
        """Allocate what stands before the first pass."""
        yield from self.hold(self.storages.persistent)

    def hold(self, storages: list[int]) -> Iterator[Event]:
        """Allocate storages that stay."""
        for storage in storages:
            key = self.held[storage] = next(self.keys)
            yield key, self.storages.sizes[storage], 0

    def batch(self, *, first: bool = True) -> list[Event]:
        """Run one micro batch; the first of a step keeps its gradients, later ones add theirs to them."""
        storages, events = self.storages, list(self._next_inputs())
        sizes, adopted = storages.sizes, storages.adopted if first else set()
        stays = adopted | set(storages.replaced)
        keys: dict[int, int] = {}
        for born, dies in zip(storages.born, storages.dies, strict=True):
            for storage in born:
                key = keys[storage] = next(self.keys)
                events.append((key, sizes[storage], 0))
                if (old := storages.replaced.get(storage)) in self.held:
                    events.append((self.held[old], FREE, 0))
                    self.held[old] = key
            events += [(keys[storage], FREE, 0) for storage in dies if storage not in stays]
        self.gradients += [keys[storage] for storage in (*storages.kept, *adopted)]
        return events

    def drop_inputs(self) -> Iterator[Event]:
        """Free the last batch's inputs."""
        for key in self.inputs:
            yield key, FREE, 0
        self.inputs = []

    def _next_inputs(self) -> Iterator[Event]:
        """Allocate the next batch; the last one goes when its names are bound anew."""
        new = [(next(self.keys), self.storages.sizes[storage]) for storage in self.storages.inputs]
        for key, size in new:
            yield key, size, 0
        yield from self.drop_inputs()
        self.inputs = [key for key, _ in new]

    def update(self) -> Iterator[Event]:
        """Run the optimizer: its state where there is none yet, then what each update needs for itself."""
        for update in self.updates:
            if not self.has_state:
                for size in update.states:
                    yield next(self.keys), size, 0
            for group in update.temporaries:
                keys = [next(self.keys) for _ in group]
                for key, size in zip(keys, group, strict=True):
                    yield key, size, 0
                for key in keys:
                    yield key, FREE, 0
        self.has_state = True

    def forget_gradients(self) -> Iterator[Event]:
        """Set all gradients to None."""
        for key in self.gradients:
            yield key, FREE, 0
        self.gradients = []


def _update_of(storages: Storages, index: int) -> _Update:
    """Split an update's states and temporaries, which the graph sums over all parameters, into one a parameter."""
    op = storages.updates[index]
    assert op.stored is not None
    trained = storages.trained[op.stored]  # an average and an outer step update the same parameters once more
    elements = sum(trained)
    states = [_bytes(tensor.numel) / elements * tensor.dtype.itemsize for tensor in op.inputs]
    sizes = [math.ceil(numel * state) for numel in trained for state in states]
    if not op.outputs:
        return _Update(sizes, [])
    temporary = op.outputs[0]
    if op.implementation == "loop":  # two of the size of one parameter at a time
        width = temporary.dtype.itemsize
        return _Update(sizes, [[math.ceil(numel * width)] * 2 for numel in trained])
    width = _bytes(temporary.numel) / elements * temporary.dtype.itemsize
    return _Update(sizes, [[math.ceil(numel * width) for numel in trained]])


def _bytes(value: object) -> float:
    return float(np.ravel(value)[-1])  # type: ignore[call-overload]
