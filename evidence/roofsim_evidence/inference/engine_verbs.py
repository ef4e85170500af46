"""What `evidence` does with the constants of engines that measured passes of inference decide."""

from __future__ import annotations

from roofsim_evidence.inference.fit import FITS, priced


def fit() -> str:
    """Fit them to the rows that may be fitted, beside those of the engines' files: these hold their sources, and are edited."""
    lines = []
    for one in FITS:
        rows = priced(one)
        shipped = dict(zip(one.facts, rows.start.tolist(), strict=True))
        lines += [
            f"{one.engine}, {one.regime}: {name} {shipped[name]:.4g} -> {value:.4g}"
            for name, value in (rows.fitted() or {}).items()
        ]
    return "\n".join(lines)
