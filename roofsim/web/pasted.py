"""Read what is pasted or dropped."""

from __future__ import annotations

from typing import Any


def read_pasted(request: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario of a text."""
    from roofsim.errors import Place, Problem, SpecError

    raise SpecError(Problem("cannot be read yet", Place(str(request.get("name", "pasted"))[:80])))
