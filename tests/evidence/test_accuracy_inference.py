"""What docs/accuracy.md repeats of the page about inference."""

from __future__ import annotations

from roofsim_evidence.places import checkout
from roofsim_evidence.steps import page_inference
from roofsim_evidence.steps.page_inference import GOALS, TABLES, goals, sections

SCORES = "| group | n | median | in interval |\n| --- | ---: | ---: | ---: |\n"


def test_the_page_of_accuracy_holds_the_tables_of_inference():
    text = (checkout() / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert goals() in text
    assert all(f"### {name}\n\n{table}" in text for name, table in sections().items())


def test_goals_are_judged_by_what_the_page_says(tmp_path, monkeypatch):
    rows = {
        "Servers": "| tpot, dense | 9 | 12.5% | 70% |\n| ttft, dense | 9 | 30% | 70% |\n",
        "Memory": "| diffusers-2022, reserved | 9 | 3.8% | 70% |\n",
    }
    page = "# DocsPage\n\n" + "".join(f"## {name}\n\nWords.\n\n{SCORES}{rows.get(name, '')}\n" for name in TABLES)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "inference-accuracy.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(page_inference, "checkout", lambda: tmp_path)
    lines = {line.split("|")[1].strip(): line for line in goals().splitlines()}
    assert lines["servers, time per token, dense models"].endswith("| 12.5 % | **no** |")
    assert lines["servers, first token within its range, dense models"].endswith("| >= 75 % | 70.0 % | **no** |")
    assert lines["Stable Diffusion, reserved memory"].endswith("| <= 6 % | 3.8 % | yes |")
    assert sum("not scored" in line for line in lines.values()) == len(GOALS) - 3
