"""The wheel carries the catalogs: an installation away from the repository answers."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Commands that read what travels beside the code, and what each prints.
READING_DATA = {
    "run resnet50 --gpu v100": "v100-sxm2-16gb",
    "validate": "steps",
    "calibrate measure": "PyTorch",
    "list engines": "vllm",
    "show physics": "source",
    "init": "gpt.yaml",
}


@pytest.mark.slow
def test_an_installed_wheel_answers(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True
    )
    (wheel,) = tmp_path.glob("roofsim-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    catalog = {path.relative_to(ROOT) for folder in ("hardware", "models") for path in (ROOT / folder).rglob("*.yaml")}
    assert {f"roofsim/_catalog/{path.as_posix()}" for path in catalog} <= set(names)
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "roofsim").rglob("*") if path.is_file()}
    assert {path for path in code if "__pycache__" not in path} <= set(names)
    assert not [name for name in names if "evidence" in name or "measurements" in name or name.endswith(".jsonl")]
    venv.create(tmp_path / "venv", system_site_packages=False, with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    for words, printed in READING_DATA.items():
        command = [str(tmp_path / "venv" / "bin" / "roofsim"), *words.split()]
        answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert printed in answer.stdout, words
