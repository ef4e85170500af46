"""What `evidence` does with the constants of engines that measured passes of inference decide."""

from __future__ import annotations

from roofsim_evidence.inference.fit import FITS, fitted_facts, shipped_facts


def fit() -> str:
    """Fit them to the rows that may be fitted, beside those of the engines' files: these hold their sources, and are edited."""
    lines = []
    for one in FITS:
        shipped = dict(zip(one.facts, shipped_facts(one).tolist(), strict=True))
        lines += [
            f"{one.engine}, {one.regime}: {name} {shipped[name]:.4g} -> {value:.4g}"
            for name, value in fitted_facts(one).items()
        ]
    return "\n".join(lines)
