"""Say what a model needs whatever it runs on: bytes of each parameter by role, what each sample adds, and what none does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.work import parameters_of
from roofsim.evaluate import unpriced_of
from roofsim.records import dataclass
from roofsim.search.fitting.layouts import LayoutSpace

if TYPE_CHECKING:
    from roofsim.evaluate import Unpriced
    from roofsim.memory.profile import MemoryProfile
    from roofsim.search.fitting.bench import Workbench


@dataclass(frozen=True, kw_only=True)
class PerSample:
    """Bytes that grow with the batch: `each` more sample adds as many, `constant` are there whatever the batch."""

    each: float = 0.0
    constant: float = 0.0

    def of(self, samples: float) -> float:
        """Return the bytes of so many samples.

        >>> PerSample(each=3.0, constant=4.0).of(2.0)
        10.0
        """
        return self.constant + self.each * samples


@dataclass(frozen=True, kw_only=True)
class State:
    """Bytes that the whole model takes, undivided.

    Attributes
    ----------
    roles
        Parameters, gradients and optimizer state (master parameters included) when the update runs; of inference
        parameters and the cache of the whole batch.
    saved
        What the forward pass keeps for the backward pass. Autocast's copies of weights are the constant.
    cache
        Keys and values of inference.
    samples
        Sequences or images of a micro batch.
    """

    parameters: float
    roles: dict[str, float]
    saved: PerSample
    cache: PerSample
    samples: int

    @property
    def total(self) -> float:
        """Bytes of all roles."""
        return sum(self.roles.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "parameters": self.parameters,
            "bytes": self.roles,
            "bytes_per_parameter": {name: amount / self.parameters for name, amount in self.roles.items()},
            "total": self.total,
            "total_per_parameter": self.total / self.parameters,
            "saved_activations_per_sample": self.saved.each,
            "saved_activations_constant": self.saved.constant,
            "key_value_cache_per_sample": self.cache.each,
            "key_value_cache_constant": self.cache.constant,
            "samples": self.samples,
        }


def state_of(bench: Workbench) -> State:
    """Return the state of the whole model on one GPU."""
    space = LayoutSpace(bench, None)
    alone = space.alone()
    evaluation = unpriced_of(bench.resolved(alone))
    twice = unpriced_of(bench.resolved(alone | bench.with_batch(2 * space.micro)))
    profile = evaluation.profiles[-1]
    names = ("parameters", "gradients", "optimizer_state") if space.trains else ("parameters", "key_value_cache")
    fullest = _at_update(profile) if space.trains else profile.components
    return State(
        parameters=float(parameters_of(evaluation)["total"]),
        roles={name: _last(fullest[name]) for name in names},
        saved=_per_sample(_saved(evaluation), _saved(twice), space.micro),
        cache=_per_sample(_cached(evaluation), _cached(twice), space.micro),
        samples=space.micro,
    )


def _per_sample(one: float, twice: float, samples: int) -> PerSample:
    """Return what each sample adds, from the bytes of some samples and of twice as many."""
    added = twice - one
    return PerSample(each=added / samples, constant=max(one - added, 0.0))


def _saved(evaluation: Unpriced) -> float:
    return _last(evaluation.profiles[-1].saved_activations)


def _cached(evaluation: Unpriced) -> float:
    return _last(evaluation.profiles[-1].components["key_value_cache"])


def _at_update(profile: MemoryProfile) -> dict[str, Any]:
    """Return what is alive when the update runs, or at the peak if there is none."""
    return profile.phase_live.get("optimizer", profile.components)


def _last(amount: Any) -> float:
    return float(amount) if isinstance(amount, float) else float(amount[..., -1])
