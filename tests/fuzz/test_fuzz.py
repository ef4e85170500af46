"""Inputs of every kind get an answer that keeps the laws, or one clean refusal: some of each here, as many as one likes beside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.runner import SURFACES, Tally, make, numbers_of, run_inputs

#: About half a minute on one core; `make fuzz` runs fifty times as many.
INPUTS, SEED = 700, 12
MANY = 34_000


@pytest.mark.parametrize("surface", SURFACES)
def test_every_input_is_answered_or_refused(surface):
    tally = Tally()
    run_inputs(surface, SEED, 0, numbers_of(surface, INPUTS), tally)
    assert not tally.failures, "\n".join(map(str, tally.failures))
    assert tally.ends["answered"] > 0


@pytest.mark.parametrize("surface", SURFACES)
def test_the_same_numbers_make_the_same_input(surface, tmp_path):
    one, other = (make(surface, SEED, 3, tmp_path).text for _ in range(2))
    assert one == other


@pytest.mark.slow
def test_tens_of_thousands_of_inputs():
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.fuzz", "--inputs", str(MANY), "--seed", "1"]
    result = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-20_000:]
