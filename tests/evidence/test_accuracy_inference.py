"""What docs/accuracy.md repeats of the page about inference."""

from __future__ import annotations

from roofsim.spec import catalog
from roofsim_evidence.steps import page_inference as accuracy_inference
from roofsim_evidence.steps.page_inference import GOALS, TABLES, section

ROOT = catalog.root()
SCORES = "| group | n | median | in interval |\n| --- | ---: | ---: | ---: |\n"


def test_the_page_of_accuracy_holds_the_tables_of_inference():
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert section() in text
    assert all(f"### {name}" in text for name in TABLES)


def test_goals_are_judged_by_what_the_page_says(tmp_path, monkeypatch):
    rows = {
        "Servers": "| tpot, dense | 9 | 12.5% | 70% |\n| ttft, dense | 9 | 30% | 70% |\n",
        "Memory": "| diffusers-2022, reserved | 9 | 3.8% | 70% |\n",
    }
    page = "# Page\n\n" + "".join(f"## {name}\n\nWords.\n\n{SCORES}{rows.get(name, '')}\n" for name in TABLES)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "inference-accuracy.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(accuracy_inference.catalog, "root", lambda: tmp_path)
    lines = {line.split("|")[1].strip(): line for line in section().splitlines() if line.startswith("|")}
    assert lines["servers, time per token, dense models"].endswith("| 12.5 % | **no** |")
    assert lines["servers, first token within its range, dense models"].endswith("| >= 75 % | 70.0 % | **no** |")
    assert lines["Stable Diffusion, reserved memory"].endswith("| <= 6 % | 3.8 % | yes |")
    assert sum("not scored" in line for line in lines.values()) == len(GOALS) - 3


def test_without_the_page_the_section_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy_inference.catalog, "root", lambda: tmp_path)
    assert "is not here" in section()
