"""The wheel carries the catalogs: an installation away from the repository answers."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_an_installed_wheel_answers(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True
    )
    (wheel,) = tmp_path.glob("roofsim-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("hardware/gpus", "hardware/systems", "hardware/engines", "hardware/architectures", "models/decoder"):
        inside = [name for name in names if name.startswith(f"roofsim/_catalog/{folder}/") and name.endswith(".yaml")]
        assert len(inside) == len(list((ROOT / folder).rglob("*.yaml"))), folder
    assert "roofsim/py.typed" in names
    assert not [name for name in names if "evidence" in name or "measurements" in name or name.endswith(".jsonl")]
    assert "roofsim/calibrate/published.csv" in names
    venv.create(tmp_path / "venv", system_site_packages=False, with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    command = [str(tmp_path / "venv" / "bin" / "roofsim"), "run", "resnet50", "--gpu", "v100"]
    answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "v100-sxm2-16gb" in answer.stdout
