"""Questions of the page, with the command line beside them."""

from __future__ import annotations

from tests.cli.conftest import cli

__all__ = ["cli"]
