"""Pictures: units on the axes, labelled roofs and ridges, one panel per card, texts that are read at half size, a dark form."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib.text import Text

import roofsim
from roofsim.report import comparison_plot, figure, palette, plot, serving_plot, sweep_plot, timeline_plot
from tests.surely import sure


@pytest.fixture
def drawn(monkeypatch):
    """Keep the figure that is saved instead of writing it."""
    kept = []

    def keep(one, path, **_):
        del path
        one.canvas.draw()
        kept.append(one)

    for module in (comparison_plot, plot, serving_plot, sweep_plot, timeline_plot):
        monkeypatch.setattr(module, "save_figure", keep)
    return kept


def texts(one):
    return [text.get_text() for text in one.findobj(Text) if text.get_text()]


def test_a_roofline_names_its_roofs_its_ridge_and_its_units(drawn, tmp_path):
    evaluation = roofsim.evaluate(roofsim.resolve("gpt2-124m", gpu="a100"), with_curve=True)
    with figure.look():
        plot.draw_run([(evaluation, roofsim.run("gpt2-124m", gpu="a100"))], tmp_path / "run.png")
    said = texts(drawn[0])
    assert {"312 TFLOP/s bf16", "2.04 TB/s"} <= {*said}
    assert any(text.startswith("ridge ") and text.endswith("FLOP per byte") for text in said)
    assert "10 TFLOP/s" in [label.get_text() for axes in drawn[0].axes for label in axes.get_yticklabels()]


def test_eight_cards_are_eight_panels_and_no_card_is_coloured_like_a_cause(drawn, tmp_path):
    cards = ["a100", "h100", "v100", "rtx4090", "l4", "t4", "h200", "rtx3090"]
    compared = roofsim.compare("gpt2-124m", cards, precision="fp16-amp")
    with figure.look():
        comparison_plot.draw_comparison(compared, tmp_path / "cards.png")
    panels = [axes for axes in drawn[0].axes if axes.get_xscale() == "log"]
    assert [axes.get_title() for axes in panels] == [row.label for row in compared]
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in panels}) == 1


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out_and_are_read_at_half_size(drawn, tmp_path, dark):
    swept = roofsim.sweep("gpt2-124m", {"gpu": ["a100", "h100"], "micro_batch_size": [1, 2, 4]}, figures=["step_time"])
    line = roofsim.timeline("gpt2-124m", gpu="a100", gpus=4, pipeline=4, global_batch_size=8)
    served = roofsim.serve("gpt2-124m", gpu="a100", prompt_length=64, output_length=8)
    with figure.look(dark=dark):
        sweep_plot.draw_sweep(swept, tmp_path / "a.png", figures=["step_time"])
        timeline_plot.draw_timeline(line, tmp_path / "b.png")
        serving_plot.draw(served, tmp_path / "c.png")
        background = figure.paper()
    assert len(drawn) == 3
    for one in drawn:
        assert mpl.colors.to_hex(one.get_facecolor()) == background
        width = one.get_size_inches()[0] * figure.DPI
        for text in one.findobj(Text):
            if text.get_text() and text.get_visible():
                assert text.get_fontsize() >= 9.0, text
                assert text.get_fontsize() / 72.0 * figure.DPI * 0.5 >= 6.0 * min(width / 1650.0, 1.0), text
    titles = [sure(one._suptitle) for one in drawn if getattr(one, "_suptitle", None) is not None]
    for title in titles:
        assert palette.contrast(mpl.colors.to_hex(title.get_color()), background) > 4.5


def test_the_look_of_pictures_is_no_setting_of_the_library():
    before = dict(mpl.rcParams)
    with figure.look(dark=True):
        assert figure.paper() == "#14171c"
    assert dict(mpl.rcParams) == before
