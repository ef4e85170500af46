"""The command line, called in this process."""

from __future__ import annotations

import sys

import pytest

from roofsim.cli.app import main


@pytest.fixture
def cli(monkeypatch, capsys):
    """Return a function that runs a command and gives what it prints: its error where another exit code than 0 is expected."""

    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["roofsim", *map(str, arguments)])
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        assert status == code, captured.err
        return captured.err if code else captured.out

    return call
