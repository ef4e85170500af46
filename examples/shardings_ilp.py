"""An integer program over shardings: which card and degree of tensor parallelism each of several models gets of a cluster.

Every model may run on every card with every degree; roofsim prices all of these at once. The program then chooses one of them for
each model, so that the cluster's cards suffice and the weighted time is least.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

import roofsim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def options_of(
    models: Sequence[str], cards: Sequence[str], degrees: Sequence[int], **options: Any
) -> list[dict[str, Any]]:
    """Return every way to run every model that fits in memory, with its seconds per token."""
    rows = [
        {"model": model, "gpu": card, "gpus": degree, "tensor": degree}
        for model, card, degree in product(models, cards, degrees)
    ]
    priced = roofsim.predict_batch("decode", rows, **options)
    answers = zip(rows, priced["time"].tolist(), priced["fits"].tolist(), strict=True)
    return [row | {"time": time} for row, time, fits in answers if fits and not math.isnan(time)]


def assigned(
    ways: Sequence[Mapping[str, Any]], cluster: Mapping[str, int], weights: Mapping[str, float]
) -> list[Mapping[str, Any]]:
    """Return one way for each model: the least sum of weight times seconds that the cards of a cluster allow.

    Raises
    ------
    ValueError
        Where the cluster is too small for all of them.
    """
    cost = np.array([weights[way["model"]] * way["time"] for way in ways])
    once = np.array([[float(way["model"] == model) for way in ways] for model in weights])
    used = np.array([[float(way["gpus"]) * (way["gpu"] == card) for way in ways] for card in cluster])
    constraints = [
        LinearConstraint(once, 1.0, 1.0),
        LinearConstraint(used, 0.0, np.array(list(cluster.values()), dtype=float)),
    ]
    answer = milp(cost, integrality=np.ones(len(ways)), bounds=Bounds(0.0, 1.0), constraints=constraints)
    if answer.x is None:
        raise ValueError(f"the cluster is too small: {answer.message}")
    return [way for way, chosen in zip(ways, answer.x, strict=True) if chosen > 0.5]
