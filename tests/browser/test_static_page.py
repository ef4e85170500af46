"""The static page in a Chromium: Python in the browser, without a network after a first visit, in several tabs, over versions."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import re
import threading
import time
from functools import cache
from pathlib import Path

import pytest

import roofsim
from roofsim.web.bundle.pins import pins
from roofsim.web.bundle.site import laid_out, write_site
from roofsim.web.in_browser import answer
from tests.browser.conftest import ROOT, SETTLED, SMALL, Tab, linked
from tests.web.whole_site import whole_site

pytestmark = pytest.mark.browser
#: Milliseconds that a start of Python may take on a machine with other work.
START = 180_000
#: What the example of the documentation asks.
EXAMPLE = {"model": "gpt2-124m", "hardware": {"gpu": "h100"}}
DOCUMENT = "# Example\n\n```console\n$ roofsim run gpt2-124m --gpu h100\nanswer\n```\n"
#: Whether all of a version is kept, so that no network is needed any more.
KEPT = """async () => {
  await navigator.serviceWorker.ready;
  return (await caches.keys()).filter((name) => name.startsWith('roofsim-'));
}"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serve files without a word; browsers ask again for what may have changed."""

    def log_message(self, *_):
        """Say nothing."""

    def end_headers(self):
        """Let each file be asked for again."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()


class Host:
    """A static host of a folder, which can go away and come back at the same address."""

    def __init__(self, folder):
        self.folder, self.port, self.has_python = folder, 0, True
        self.server = None
        self.start()

    def start(self):
        handler = functools.partial(Handler, directory=str(self.folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
        self.server = None

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"


@cache
def stand_in_site():
    """Return the page with a stand-in for Pyodide, which answers what this Python answers to the questions of these tests."""
    questions = [*(asked(batch)["scenario"] for batch in (8, 4, 2, 16, 0)), EXAMPLE]
    requests = [json.dumps({"scenario": each, "options": {}}, separators=(",", ":")) for each in questions]
    recorded = json.dumps({f"run {request}": answer("run", request) for request in requests})
    source = (Path(__file__).parent / "stand_in_pyodide.mjs").read_text(encoding="utf-8")
    core = dict.fromkeys(pins().files, b"//") | {"pyodide.mjs": f"const RECORDED = {recorded};\n{source}".encode()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("roofsim.web.bundle.site.compiler_of", lambda *_: None)
        return laid_out(core=core, wheels={wheel.file: b"PK" for wheel in pins().wheels}, docs="../")


@pytest.fixture(params=["stand-in", "python"])
def site(request, tmp_path):
    """A host with the page at app/, as `make site` lays it out: with Python where it can be had here, and with recorded answers."""
    write_site(whole_site() if request.param == "python" else stand_in_site(), tmp_path / "app")
    host = Host(tmp_path)
    host.has_python = request.param == "python"
    yield host
    host.stop()


@pytest.fixture
def browse(chromium, site):
    """Return a function that opens a tab; tabs of one browser share what is kept."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})

    def opened(question=SMALL, path="app/"):
        made = Tab(context, site.address)
        made.page.goto(site.address + path + linked(question))
        return made

    yield opened
    context.close()


def settled(tab):
    tab.page.wait_for_timeout(200)
    tab.page.wait_for_selector(SETTLED, timeout=START)
    return tab.page


def until(page, condition):
    """Wait until a promise of the page holds true; `wait_for_function` takes the promise itself for that."""
    deadline = time.monotonic() + START / 1000.0
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def step_time(page):
    return float(page.locator("#figures .tiles data").first.get_attribute("value"))


def asked(batch):
    scenario = SMALL["scenario"]
    return {**SMALL, "scenario": {**scenario, "workload": {**scenario["workload"], "micro_batch_size": batch}}}


def test_answers_come_without_a_network_after_the_first_visit(browse, site):
    tab = browse()
    page = settled(tab)
    expected = roofsim.run(SMALL["scenario"]).step_time
    assert step_time(page) == pytest.approx(expected, rel=1e-12)
    parts = page.evaluate("async () => (await import('./static/pyodide.js')).parts")
    assert set(parts) == {"fetch", "python", "unpack", "numpy", "roofsim"}
    assert next(iter(parts)) == ("fetch" if site.has_python else "python")  # from the kept memory, not from nothing
    assert len(page.evaluate(KEPT)) == 1
    site.stop()
    page.reload()
    assert step_time(settled(tab)) == pytest.approx(expected, rel=1e-12)
    other = browse(asked(4))  # the address of the page alone, in another tab
    assert step_time(settled(other)) == pytest.approx(roofsim.run(asked(4)["scenario"]).step_time, rel=1e-12)
    assert tab.said == other.said == []


def test_wrong_input_is_marked_at_its_field(browse):
    tab = browse()
    page = settled(tab)
    field = page.locator(
        "[data-key='workload.micro_batch_size'] input, input[data-key='workload.micro_batch_size']"
    ).first
    field.fill("0")
    field.press("Tab")
    page.wait_for_selector("#problem:not([hidden])", timeout=START)
    assert field.get_attribute("aria-invalid") == "true"
    # pydantic, which says what was expected, may be out of reach; where it is wrong is said in any case.
    assert page.inner_text("#problem .message").startswith("--micro-batch-size: workload.micro_batch_size: ")
    field.fill("4")
    field.press("Tab")
    page.wait_for_selector("#problem", state="hidden", timeout=START)
    assert step_time(settled(tab)) == pytest.approx(roofsim.run(asked(4)["scenario"]).step_time, rel=1e-12)
    fetching = ("asked https://cdn.jsdelivr.net/", "Failed to load resource: net::", "Access to fetch at 'https://cdn.")
    assert [
        each for each in tab.said if not each.startswith(fetching)
    ] == []  # all that was fetched is what explains it


def test_two_tabs_have_a_python_each(browse):
    one, other = browse(asked(2)), browse(asked(16))
    assert step_time(settled(one)) == pytest.approx(roofsim.run(asked(2)["scenario"]).step_time, rel=1e-12)
    assert step_time(settled(other)) == pytest.approx(roofsim.run(asked(16)["scenario"]).step_time, rel=1e-12)
    assert one.question() == asked(2)
    assert other.question() == asked(16)
    assert one.said == other.said == []


def test_a_slow_question_is_left_and_python_starts_anew(browse):
    tab = browse({"verb": "need", "scenario": SMALL["scenario"], "options": {"step_time": "20ms"}})
    page = tab.page
    page.wait_for_function("() => document.getElementById('state').textContent === ''", timeout=START)
    page.wait_for_selector("#progress:not([hidden])", timeout=START)
    began = len(page.workers)
    page.click("#cancel")
    assert page.is_hidden("#progress")
    page.goto(f"{tab.address}app/{linked(SMALL)}")
    assert step_time(settled(tab)) == pytest.approx(roofsim.run(SMALL["scenario"]).step_time, rel=1e-12)
    assert began == 1
    deadline = time.monotonic() + START / 1000.0
    while len(page.workers) > 1 and time.monotonic() < deadline:  # one that is busy takes a while to end
        page.wait_for_timeout(50)
    assert len(page.workers) == 1
    assert tab.said == []


def test_a_new_version_takes_over_once_no_page_of_the_old_one_is_open(browse, site):
    tab = browse()
    page = settled(tab)
    (old,) = page.evaluate(KEPT)
    published(site.folder / "app", "f" * 16)
    page.reload()
    settled(tab)
    until(page, "async () => Boolean((await navigator.serviceWorker.getRegistration()).waiting)")
    assert sorted(page.evaluate(KEPT)) == sorted([old, f"roofsim-{'f' * 16}"])
    assert "Second edition" not in page.inner_text("footer")  # one version at a time: its files belong together
    for _ in range(5):  # what was waiting takes over when the last page is gone, which the browser notes a moment later
        page.close()
        tab.page.context.new_page().wait_for_timeout(1000)
        other = browse()
        page = new = settled(other)
        if "Second edition" in new.inner_text("footer"):
            break
    assert "Second edition" in new.inner_text("footer")
    until(new, f"async () => (await ({KEPT})()).length === 1")
    assert new.evaluate(KEPT) == [f"roofsim-{'f' * 16}"]
    assert tab.said == other.said == []


def published(app: Path, version: str) -> None:
    """Put another version of the page in the place of one."""
    index, service = app / "index.html", app / "service.js"
    index.write_text(index.read_text().replace("Everything on this page", "Second edition. Everything on this page"))
    service.write_text(re.sub(r'"version":"\w+"', f'"version":"{version}"', service.read_text(), count=1))


def test_a_memory_that_does_not_run_here_is_done_without(browse, site):
    if not site.has_python:
        pytest.skip("a stand-in keeps no memory")
    app = site.folder / "app"
    manifest = json.loads((app / "bundle.json").read_text())
    manifest["snapshot"]["table"] += 1
    (app / "bundle.json").write_text(json.dumps(manifest))
    tab = browse()
    page = settled(tab)
    assert step_time(page) == pytest.approx(roofsim.run(SMALL["scenario"]).step_time, rel=1e-12)
    parts = page.evaluate("async () => (await import('./static/pyodide.js')).parts")
    assert next(iter(parts)) == "python"  # started from nothing
    assert tab.said == []


def test_an_example_of_the_documentation_runs_in_its_frame(browse, site):
    spec = importlib.util.spec_from_file_location("examples", ROOT / "docs" / "_site" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    examples = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(examples)
    (site.folder / "how-to").mkdir()
    body = examples.with_runs(DOCUMENT, "../app/", ROOT)
    assert "<iframe" in body
    (site.folder / "how-to" / "index.html").write_text(
        f"<!doctype html><title>Example</title><link rel=icon href=data:,>{body}"
    )
    tab = browse(path="how-to/")
    tab.page.click("summary")
    frame = tab.page.frame_locator("iframe")
    frame.locator("#shown:not([hidden])").wait_for(timeout=START)
    value = float(frame.locator("#figures .tiles data").first.get_attribute("value"))
    assert value == pytest.approx(roofsim.run(EXAMPLE).step_time, rel=1e-12)
    assert tab.said == []
