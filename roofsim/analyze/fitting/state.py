"""Say what a model needs whatever it runs on: bytes for each parameter by role, and activations of one sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofsim.analyze.fitting.layouts import Space
from roofsim.analyze.work import parameters_of
from roofsim.evaluate import evaluate

if TYPE_CHECKING:
    from roofsim.analyze.fitting.bench import Bench
    from roofsim.schedule.memory import MemoryProfile


@dataclass(frozen=True, kw_only=True)
class State:
    """Bytes that the whole model takes, undivided.

    Attributes
    ----------
    roles
        Parameters, gradients and optimizer state (master parameters included) when the update runs; of inference
        parameters and the cache.
    saved_per_sample
        What the forward pass of one sample keeps for the backward pass.
    """

    parameters: float
    roles: dict[str, float]
    saved_per_sample: float

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
            "saved_activations_per_sample": self.saved_per_sample,
        }


def state_of(bench: Bench) -> State | None:
    """Return the state of the whole model on one GPU; None where the scenario does not run on one."""
    space = Space(bench, None)
    evaluation = evaluate(bench.resolved(space.alone()))
    profile = evaluation.profiles[-1]
    trains = space.trains
    names = ("parameters", "gradients", "optimizer_state") if trains else ("parameters", "key_value_cache")
    fullest = _at_update(profile) if trains else profile.components
    return State(
        parameters=float(parameters_of(evaluation)["total"]),
        roles={name: _last(fullest[name]) for name in names},
        saved_per_sample=_last(profile.saved_activations) / space.micro,
    )


def _at_update(profile: MemoryProfile) -> dict[str, Any]:
    """Return what is alive when the update runs, or at the peak if there is none."""
    return profile.phase_live.get("optimizer", profile.components)


def _last(amount: Any) -> float:
    return float(amount) if isinstance(amount, float) else float(amount[..., -1])
