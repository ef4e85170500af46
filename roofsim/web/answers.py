"""Make the answers of the server: JSON of the page's form, whatever went wrong."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response


def refusal(status: int, message: str, **headers: str) -> Response:
    """Return an error document with a status."""
    from roofsim.errors import SpecError
    from roofsim.web.problems import error_document

    return as_json(status, error_document(SpecError(message)), **headers)


def as_json(status: int, data: Any, **headers: str) -> Response:
    """Return data as JSON."""
    return raw_json(status, json.dumps(data, allow_nan=False).encode(), **headers)


def raw_json(status: int, text: bytes, **headers: str) -> Response:
    """Return what is JSON already."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(text, status, headers={"cache-control": "no-store", **named}, media_type="application/json")
