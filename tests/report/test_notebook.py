"""In a notebook answers are their reports, under styles that reach nothing else, and their pictures are figures of matplotlib."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import roofsim
from roofsim.analyze.printed import Drawn, Printed
from roofsim.errors import SpecError
from roofsim.records import replace
from roofsim.report import notebook
from roofsim.report.html.blocks import Data
from roofsim.report.html.page import style
from roofsim.report.tabular import to_json
from tests.report.pages import read

RUN: dict[str, Any] = {"gpu": "a100", "sequence_length": 256}
MODEL = "gpt2-124m"
HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>"
#: Every public function whose answer is shown, on something small.
ANSWERS: dict[str, Any] = {
    "run": lambda: roofsim.run(MODEL, **RUN),
    "compare": lambda: roofsim.compare(MODEL, ["a100", "h100", "t4"], precision="fp16-amp"),
    "sweep": lambda: roofsim.sweep(MODEL, {"gpu": ["a100", "h100"], "micro_batch_size": [1, 2, 4]}),
    "plan": lambda: roofsim.plan(MODEL, gpu="a100", gpus=2, top=2),
    "fit": lambda: roofsim.fit("llama3-8b", gpu="rtx4090", sequence_length=512),
    "serve": lambda: roofsim.serve(MODEL, gpu="a100", prompt_length=64, output_length=8),
    "passes": lambda: roofsim.serve("resnet50", gpu="h100", precision="int8"),
    "timeline": lambda: roofsim.timeline(MODEL, gpu="a100", gpus=4, pipeline=4, global_batch_size=8),
    "collectives": lambda: roofsim.collectives("dgx-h100", ranks=[8], sizes=["1 MiB", "1 GiB"]),
    "memory": lambda: roofsim.memory(MODEL, **RUN),
    "memory by layer": lambda: roofsim.memory(MODEL, by="layer", **RUN),
    "ops": lambda: roofsim.ops(MODEL, by="class", **RUN),
    "explain": lambda: roofsim.explain(MODEL, "mfu", **RUN),
    "whatif": lambda: roofsim.whatif(MODEL, {"memory.bandwidth": "2x"}, **RUN),
    "need": lambda: roofsim.need(MODEL, step_time="5ms", **RUN),
    "advise": lambda: roofsim.advise(MODEL, **RUN),
    "diff": lambda: roofsim.diff(MODEL, MODEL, gpu="a100"),
    "check": lambda: roofsim.check(MODEL, {"step_time": "70ms"}, **RUN),
    "power": lambda: roofsim.power(MODEL, limits=["300W", "400W"], **RUN),
    "rent or buy": lambda: roofsim.rent_or_buy(MODEL, **RUN),
}
#: Those that the command line draws.
DRAWN = ("run", "compare", "sweep", "plan", "serve", "passes", "timeline", "collectives", "memory", "power")


@cache
def answer(name: str) -> Any:
    return ANSWERS[name]()


@cache
def shown(name: str) -> str:
    return str(answer(name)._repr_html_())


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_shown_without_script_or_network(name):
    page = read(shown(name))
    (outer,) = page.children
    assert outer.attributes["class"] == notebook.SCOPE
    assert not page.all("script")
    assert not page.all("main")  # a notebook has its own
    assert not page.all("h1")
    for node in page.walk():
        assert not [
            key for key in node.attributes if key.startswith("on") or key in ("src", "href", "action", "srcset")
        ]
    assert "@import" not in shown(name)
    assert re.findall(r"url\((?!#)", shown(name)) == []
    assert page.all("dl") or page.all("table") or page.all("svg") or page.all("pre")


@pytest.mark.parametrize("name", ANSWERS)
def test_numbers_are_those_of_the_answer(name):
    data = Data({"answer": json.loads(to_json(answer(name).to_dict()))})
    for node in read(shown(name)).all("data"):
        key = node.attributes["data-key"]
        if key.startswith("/answer/"):
            assert float(node.attributes["value"]) == data.at(key), key


def test_the_numbers_of_a_run_are_there():
    keys = {node.attributes["data-key"] for node in read(shown("run")).all("data")}
    assert {"/answer/step_time", "/answer/memory/peak", "/answer/mfu"} <= keys


def test_styles_reach_nothing_else():
    css = re.search(r"<style>(.*?)</style>", shown("run"), re.DOTALL)
    assert css is not None
    rules = re.sub(r"@media[^{]*\{", "", css[1])
    selectors = [one.strip() for part in re.findall(r"([^{}]+)\{", rules) for one in part.split(",")]
    assert len(selectors) > 100
    inside = re.compile(rf"(\S+ )?\.{notebook.SCOPE}( .*)?")
    assert [one for one in selectors if not inside.fullmatch(one)] == []
    themes = {one.split(" ")[0] for one in selectors if not one.startswith(f".{notebook.SCOPE}")}
    assert all("jp-theme" in one or "vscode" in one or "theme=" in one for one in themes)


def test_nothing_of_the_pages_style_is_lost():
    def rules(css):
        return re.findall(r"\{([^{}]+)\}", css)

    assert rules(notebook.scoped(str(style()))) == rules(str(style()))


@pytest.mark.parametrize(
    ("place", "ink"), [('[data-jp-theme-light="false"]', "#e9ecef"), ('[data-jp-theme-light="true"]', "#16191d")]
)
def test_it_is_light_or_dark_as_the_notebook_is(place, ink):
    css = shown("run")
    rule = re.search(rf"{re.escape(place)} \.{notebook.SCOPE}[^{{]*\{{([^}}]*)\}}", css)
    assert rule is not None
    assert f"--ink: {ink}" in rule[1]
    assert "prefers-color-scheme: dark" in css  # elsewhere as the system is


def test_charts_are_there_once():
    assert 'class="narrow"></div>' in shown("run")
    assert len(shown("run")) < 250_000


@pytest.mark.parametrize("name", ANSWERS)
def test_a_bundle_has_a_text_for_whoever_shows_no_html(name):
    one = answer(name)
    assert isinstance(one, Printed)
    assert one._repr_mimebundle_() == {"text/plain": str(one), "text/html": shown(name)}


def test_a_bundle_makes_what_is_asked_for_alone(monkeypatch):
    one = answer("run")
    assert set(one._repr_mimebundle_(exclude={"text/plain"})) == {"text/html"}
    assert set(one._repr_mimebundle_(include={"text/html", "image/png"})) == {"text/html"}
    monkeypatch.setattr(notebook, "page_of", None)
    assert set(one._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}


def test_foreign_names_are_text():
    model = {"family": "decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}
    page = roofsim.run({"model": {**model, "name": HOSTILE}}, **RUN)._repr_html_()
    assert not read(page).all("script")
    assert not read(page).all("img")
    assert page.count("</style>") == 1


def test_a_result_whose_scenario_is_gone_is_a_table(tmp_path):
    asked = answer("run").scenario
    hardware = {**asked["hardware"], "calibration": str(tmp_path / "gone.yaml")}
    one = replace(answer("run"), scenario={**asked, "hardware": hardware})
    assert one._repr_html_().startswith("<table>")
    assert "step time" in one._repr_html_()


# -- pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_a_figure_whose_axes_say_their_units(name):
    figure: Any = answer(name).plot()
    assert issubclass(type(figure), Figure)
    said = [text.get_text() for text in figure.findobj(Text) if text.get_text()]
    units = r"\b(s|ms|us|GiB|MiB|B|bytes|W|USD|count|TFLOP/s|tokens/s|requests/s|requests|GPUs|time)\b"
    assert [text for text in said if re.search(units, text)]
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", [name for name in ANSWERS if name not in DRAWN])
def test_what_the_command_line_does_not_draw_has_no_picture(name):
    assert not isinstance(answer(name), Drawn)
    assert not hasattr(answer(name), "plot")


def test_a_sweep_draws_the_figures_that_are_named():
    figure = answer("sweep").plot(figures=["memory.peak"])
    assert len(figure.axes) == 1
    assert "memory.peak" in " ".join(text.get_text() for text in figure.findobj(Text))


def test_a_dark_picture_is_dark():
    light, dark = answer("run").plot(), answer("run").plot(dark=True)
    assert sum(light.get_facecolor()[:3]) > 2.9
    assert sum(dark.get_facecolor()[:3]) < 0.5
    ticks = [label for axes in dark.axes for label in axes.get_xticklabels() if label.get_text()]
    assert ticks
    assert all(label.get_color() == "#e9ecef" for label in ticks)


def test_settings_of_the_library_stay_as_they_are():
    before = mpl.rcParams.copy()
    answer("run").plot(dark=True)
    assert mpl.rcParams.copy() == before


def test_pyplot_is_not_even_imported():
    code = (
        "import sys, matplotlib as mpl\n"
        "backend = dict.__getitem__(mpl.rcParams, 'backend')\n"
        "import roofsim\n"
        "figure = roofsim.run('gpt2-124m', gpu='a100').plot()\n"
        "assert figure._repr_png_()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert dict.__getitem__(mpl.rcParams, 'backend') is backend\n"
        "import matplotlib.pyplot as plt\n"
        "assert plt.get_fignums() == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_points_at_once_have_no_picture():
    one = replace(answer("run"), step_time=np.array([1.0, 2.0]))
    with pytest.raises(SpecError, match=r"a picture is of one point; this result has many\. `roofsim\.sweep`"):
        one.plot()
    assert one._repr_html_().startswith("<table>")


def test_nothing_to_draw_is_said():
    none = roofsim.compare("llama3-8b", ["rtx4090"], precision="nvfp4")
    assert not none.results
    with pytest.raises(SpecError, match="nothing to draw"):
        none.plot()
    assert none._repr_html_().startswith("<div")
