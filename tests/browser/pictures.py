"""Make the pictures of the page in docs/pictures anew: ``python -m tests.browser.pictures``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from tests.browser.conftest import ROOT, SETTLED, browser, linked, serving

DECODE = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "batch_size": 32, "context_length": 4096, "engine": "vllm"},
    "hardware": {"gpu": "h100-sxm5-80gb"},
}
TRAIN = {
    "model": "gpt2-124m",
    "workload": {"phase": "train", "micro_batch_size": 8},
    "hardware": {"gpu": "a100-sxm4-80gb"},
}
#: File -> the question, the width and height of the page in pixels, its colours.
PICTURES = {
    "page": ({"verb": "run", "scenario": DECODE, "options": {}}, (1280, 860), "light"),
    "page-advise": ({"verb": "advise", "scenario": TRAIN, "options": {}}, (1280, 860), "dark"),
    "page-phone": (
        {"verb": "compare", "scenario": TRAIN, "options": {"gpus": ["a100", "h100", "l4"]}},
        (375, 860),
        "light",
    ),
}


def make(folder: Path) -> None:
    """Write the pictures into a folder."""
    with tempfile.TemporaryDirectory() as kept, serving(Path(kept)) as address, browser() as started:
        for name, (question, (width, height), colours) in PICTURES.items():
            context = started.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
            page = context.new_page()
            page.goto(address + linked(question))
            page.wait_for_selector(SETTLED, timeout=120_000)
            if question["verb"] == "run":
                page.wait_for_selector("[data-slider=price] polyline", timeout=120_000)
            if width < 600:
                page.evaluate("document.getElementById('answer').scrollIntoView()")
            path = folder / f"{name}.png"
            page.screenshot(path=path)
            Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size
            context.close()


if __name__ == "__main__":
    make(ROOT / "docs" / "pictures")
