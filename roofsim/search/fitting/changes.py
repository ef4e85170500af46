"""Find the changes that make a scenario fit: alone, else in pairs, else three together; by what they cost in time."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.search.fitting.bench import REFUSALS, beyond_reach, reach
from roofsim.search.fitting.candidates import MULTIPLES, Change, candidates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.search.fitting.bench import Attempt, Changes, Workbench

#: Combinations of each size that are priced; those that should fit at the least cost in time come first.
MOST_TRIED: Final = 24
#: How many changes are made together at most.
MOST_TOGETHER: Final = 3


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Changes made together, and the scenario with them."""

    changes: tuple[Change, ...]
    attempt: Attempt
    slowdown: float
    """Time per sample over that of the scenario as it is, less one."""

    @property
    def name(self) -> str:
        """What is changed."""
        return " + ".join(change.name for change in self.changes)

    @property
    def hardware(self) -> bool:
        """Whether it takes other or more hardware."""
        return any(change.hardware for change in self.changes)

    def flags(self) -> str:
        """Return the options of the command line that make the changes."""
        return flags_of(self.attempt.changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "flags": self.flags(),
            "other_hardware": self.hardware,
            "slowdown": self.slowdown,
            **self.attempt.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What makes it fit on the same hardware, and on other or more; by time per sample.

    Attributes
    ----------
    singles
        Every change on its own, whether it is enough or not.
    closest
        What comes closest on the same hardware where nothing is enough.
    refused
        Combinations that the model, the engine or the layout does not allow.
    """

    same: tuple[Remedy, ...]
    other: tuple[Remedy, ...]
    singles: tuple[Remedy, ...]
    closest: Remedy | None
    tried: int
    refused: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "same_hardware": [remedy.to_dict() for remedy in self.same],
            "other_hardware": [remedy.to_dict() for remedy in self.other],
            "singles": [remedy.to_dict() for remedy in self.singles],
            "closest_on_the_same_hardware": None if self.closest is None else self.closest.to_dict(),
            "tried": self.tried,
            "refused": self.refused,
            "notes": list(self.notes),
        }


def remedies(bench: Workbench, base: Attempt, batch: int | None = None) -> Remedies:
    """Search changes that make the scenario fit; `batch` is the largest micro batch that does, if any."""
    return _RemedySearch(bench, base, batch).run()


def flags_of(changes: Changes) -> str:
    """Return changes as options of the command line.

    >>> flags_of({"workload.recompute": "full", "parallel.offload.optimizer_state": "host", "parallel.data": None})
    '--recompute full --set parallel.offload.optimizer_state=host'
    >>> flags_of({"workload.precision": {"compute": "fp8", "attention": "fp8"}})
    "--precision '{compute: fp8, attention: fp8}'"
    """
    return " ".join(_flag(path, value) for path, value in changes.items() if value is not None)


def _flag(path: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, dict):
        text = f"'{{{', '.join(f'{role}: {name}' for role, name in value.items())}}}'"
    head, *rest = path.split(".")
    if len(rest) == 1 and head in ("workload", "parallel", "hardware"):
        return f"--{rest[0].replace('_', '-')} {text}"
    return f"--set {path}={text}"


class _RemedySearch:
    def __init__(self, bench: Workbench, base: Attempt, batch: int | None) -> None:
        self.bench = bench
        self.base = base
        self.batch = batch
        self.tried = 0
        self.refused = 0
        self.notes: list[str] = []

    def run(self) -> Remedies:
        resolved = self.bench.resolved({})
        if MULTIPLES[-1] * resolved.gpus > (reach(resolved) or MULTIPLES[-1] * resolved.gpus):
            self.notes.append(beyond_reach(resolved))
        singles = [
            remedy for change in candidates(self.bench, self.base, self.batch) if (remedy := self._made((change,)))
        ]
        same, other = self._on_this_hardware(singles), self._on_other_hardware(singles)
        on_this = [one for one in same if not one.attempt.fits]
        fits = [one for one in same if one.attempt.fits]
        closest = None if fits else min(on_this, key=lambda one: one.attempt.memory, default=None)
        return Remedies(
            same=_by_time(_least(fits)),
            other=_by_time(_least([one for one in other if one.attempt.fits])),
            singles=_by_time(singles),
            closest=closest,
            tried=self.tried,
            refused=self.refused,
            notes=(*dict.fromkeys(self.notes), *self.bench.unknown()),
        )

    def _made(self, changes: tuple[Change, ...]) -> Remedy | None:
        merged: Changes = {}
        for change in changes:
            merged |= change.changes
        self.tried += 1
        try:
            attempt = self.bench.attempt(merged)
        except REFUSALS as error:
            self.refused += 1
            if any(change.group.startswith("offload") for change in changes) and "not priced" in str(error):
                self.notes.append("offload is not priced by this version")
            return None
        slowdown = attempt.seconds_per_unit / self.base.seconds_per_unit - 1.0
        return Remedy(changes=changes, attempt=attempt, slowdown=slowdown)

    def _on_this_hardware(self, singles: list[Remedy]) -> list[Remedy]:
        """Return single changes and pairs of those that are not enough; three together where neither fits."""
        own = [one for one in singles if not one.hardware]
        enough = [one for one in own if one.attempt.fits]
        pool = [one for one in own if not one.attempt.fits]
        if enough:
            return [*enough, *self._made_of(pool, 2, hardware=False)]
        everything = self._everything(pool)
        if any(one.attempt.fits for one in everything):
            return [*everything, *self._together(pool, 2, hardware=False)]
        return [*pool, *everything]

    def _on_other_hardware(self, singles: list[Remedy]) -> list[Remedy]:
        """Return the same with one change of hardware, which others may spare a part of."""
        enough = [one for one in singles if one.hardware and one.attempt.fits]
        pool = [one for one in singles if not one.attempt.fits]
        paired = self._made_of(pool, 2, hardware=True)
        if enough or any(one.attempt.fits for one in paired):
            return [*enough, *paired]
        return self._together(pool, 3, hardware=True)

    def _together(self, pool: list[Remedy], least: int, *, hardware: bool) -> list[Remedy]:
        tried: list[Remedy] = []
        for number in range(least, MOST_TOGETHER + 1):
            tried += self._made_of(pool, number, hardware=hardware)
            if any(one.attempt.fits for one in tried):
                break
        return tried

    def _made_of(self, pool: list[Remedy], number: int, *, hardware: bool) -> list[Remedy]:
        return [made for some in self._chosen(pool, number, hardware=hardware) if (made := self._made(some))]

    def _everything(self, singles: list[Remedy]) -> list[Remedy]:
        """Try the leanest change of every group at once: where that does not fit, no combination does."""
        leanest: dict[str, Remedy] = {}
        for one in singles:
            group = one.changes[0].group
            if group not in leanest or one.attempt.memory < leanest[group].attempt.memory:
                leanest[group] = one
        chosen = tuple(one.changes[0] for one in leanest.values())
        while len(chosen) > 1:
            made = self._made(chosen)
            if made is not None:
                return [made]
            chosen = chosen[:-1]
        return []

    def _chosen(self, pool: list[Remedy], together: int, *, hardware: bool) -> list[tuple[Change, ...]]:
        """Return the most promising combinations of changes of different groups; what keeps the work, if there is any.

        A shorter length stands for itself, and in the combination of everything.
        """
        pool = [one for one in pool if one.changes[0].group != "length"] or pool
        sets = []
        for some in combinations(pool, together):
            groups = {one.changes[0].group for one in some}
            needs = sum(one.hardware for one in some)
            if len(groups) == together and (needs == 1 if hardware else needs == 0):
                sets.append(some)
        sets.sort(key=self._promise)
        return [tuple(one.changes[0] for one in some) for some in sets[:MOST_TRIED]]

    def _promise(self, some: tuple[Remedy, ...]) -> tuple[float, float]:
        """Return how far beyond the capacity a combination should be, as if savings were added, then its time."""
        saved = sum(self.base.memory - one.attempt.memory for one in some)
        capacity = max(one.attempt.capacity for one in some)
        beyond = max(self.base.memory - saved - capacity, 0.0)
        slower = 1.0
        for one in some:
            slower *= 1.0 + one.slowdown
        return beyond, slower


def _least(remedies: list[Remedy]) -> list[Remedy]:
    """Leave out what changes more than another that fits."""
    sets = [frozenset(change.name for change in one.changes) for one in remedies]
    return [one for one, own in zip(remedies, sets, strict=True) if not any(other < own for other in sets)]


def _by_time(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    return tuple(sorted(remedies, key=lambda one: (one.attempt.seconds_per_unit, one.attempt.memory, one.name)))
