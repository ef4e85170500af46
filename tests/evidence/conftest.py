"""What tests of the evidence command share."""

from __future__ import annotations

import sys

import pytest

from roofsim_evidence.cli import main


@pytest.fixture
def evidence(monkeypatch, capsys):
    """Return a function that runs the command: exit code, output, errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["evidence", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run
