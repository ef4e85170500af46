"""The files of the page: small, of one host, with nothing in them that a strict policy of content refuses."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import roofsim

PACKAGE = Path(roofsim.__file__).parent
FILES = sorted((PACKAGE / "web" / "static").iterdir()) + [
    PACKAGE / "report" / "html" / "templates" / name for name in ("page.css", "page.js")
]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in FILES}
#: The name of a format, which nobody asks for.
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")
LARGEST = 300_000


def test_the_page_weighs_less_than_300_kb():
    assert sum(path.stat().st_size for path in FILES) < LARGEST
    assert sum(len(gzip.compress(path.read_bytes())) for path in FILES) < LARGEST / 3


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"pyodide.js", "worker.js", "service.js"}))
def test_no_file_names_another_host(name):
    text = TEXTS[name]
    for namespace in NAMESPACES:
        text = text.replace(namespace, "")
    assert re.findall(r"(?:https?:)?//[\w-]+\.[\w.-]+", text) == []
    assert "@import" not in text
    assert re.findall(r"\burl\((?!#)[^)]*\)", text) == []


def test_the_page_asks_for_files_that_are_there():
    asked = set(re.findall(r'(?:src|href)="static/([^"]+)"', TEXTS["index.html"]))
    for text in TEXTS.values():
        asked |= set(re.findall(r'(?:from|import\()\s*"\./([^"]+)"', text))
    asked |= set(re.findall(r'import\(back === "static" \? "\./([^"]+)" : "\./', TEXTS["app.js"]))
    assert asked - {"pyodide.js"} <= set(TEXTS)
    assert {"app.js", "page.js", "page.css", "form.js"} <= asked


def test_the_page_keeps_to_a_strict_policy_of_content():
    page = TEXTS["index.html"]
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", page) == []
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    for name, text in TEXTS.items():
        if name.endswith(".js"):
            assert (
                re.findall(r"\beval\(|new Function\(|document\.write|insertAdjacentHTML|outerHTML\s*=", text) == []
            ), name
            assert re.findall(r'setAttribute\("(?:style|on\w+)"', text) == [], name


def test_html_is_read_in_one_place_alone():
    places = [(name, len(re.findall(r"innerHTML", text))) for name, text in TEXTS.items() if "innerHTML" in text]
    assert places == [("answer.js", 1)]


def colours(rule, text):
    """Return the colours of each rule of a style by name."""
    return [dict(re.findall(r"(--[\w-]+): (#\w+)", body)) for body in re.findall(rule, text)]


def test_every_colour_of_the_button_is_a_colour_of_the_system():
    """The colours that the button chooses are those that the system's choice gives."""
    own, report = TEXTS["app.css"], TEXTS["page.css"]
    light, dark = (
        dict(re.findall(r"(--[\w-]+): (#\w+)", rule))
        for rule in re.findall(r":root\[data-theme=\"\w+\"\] \{([^}]*)\}", own)
    )
    roots = [dict(re.findall(r"(--[\w-]+): (#\w+)", rule)) for rule in re.findall(r":root \{([^}]*)\}", report)]
    assert roots[0] == {name: light[name] for name in roots[0]}
    assert roots[1] == {name: dark[name] for name in roots[1]}
