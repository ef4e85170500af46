"""Reports in a Chromium that is installed; these tests run where somebody asks for them: ``make test-browser``."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from roofsim.cli.app import main

ROOT = Path(__file__).resolve().parents[2]
#: What a Chromium is called, in the order in which they are tried; CHROMIUM names another.
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=document.title='broken'>"
SIZES = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100, "max_sequence_length": 64}
SCENARIO = {"model": {"family": "decoder", "name": HOSTILE, **SIZES}, "hardware": {"gpu": "a100"}}
COMMANDS = {
    "run": "run gpt.yaml --gpu a100",
    "ranks": "run llama3-70b --gpu h100 --gpus 64 --tensor 8 --pipeline 4 --engine megatron-core --global-batch-size 64",
    "hostile": "run HOSTILE",
    "compare": "compare gpt.yaml a100 h100 v100 rtx4090 l4 --precision fp16-amp",
    "sweep": "sweep gpt.yaml --axis gpu=a100,h100 --axis micro_batch_size=1..64:x2",
    "map": "sweep gpt.yaml --gpu t4 --precision fp16-amp --axis memory.bandwidth=1..4x:4 --axis micro_batch_size=1..512:x2",
    "plan": "plan gpt2-124m --gpu a100 --gpus 8 --engine pytorch-eager",
    "fit": "fit llama3-8b --gpu rtx4090",
    "serve": "serve llama3-8b --gpu h100 --prompt-length 1000 --output-length 256 --request-rate 5",
    "servers": "serve gpt2-124m --gpu a100,l4 --precision fp16,fp32 --prompt-length 100 --output-length 20 --request-rate 5 "
    "--ttft 500ms --tpot 50ms",
    "memory": "memory gpt2-124m --gpu a100 --by role",
    "explain": "explain gpt2-124m step_time --gpu a100",
    "collectives": "collectives --system dgx-a100 --sizes 1MiB,16MiB,1GiB --ranks 2,8",
    "timeline": "timeline gpt.yaml --gpu a100 --gpus 8 --pipeline 4 --global-batch-size 64",
    "whatif": "whatif gpt.yaml --gpu a100 --set gpu=h100 --set micro_batch_size=2x --each",
    "need": "need llama3-8b --gpu h100 --phase decode --context-length 1k --engine vllm --step-time 6ms",
    "advise": "advise gpt.yaml --gpu a100",
    "check": "check gpt2-124m --gpu a100 --measured step_time=70ms",
    "budget": "budget gpt2-124m --usd 200 --days 1 --gpu a100,l4",
    "power": "power gpt2-124m --gpu a100",
    "rent-or-buy": "rent-or-buy gpt2-124m --gpu a100",
    "diff": "diff gpt2-124m gpt.yaml --gpu a100 --by class",
    "validate": "validate",
}


def pytest_collection_modifyitems(config, items):
    """Leave these tests out unless they are asked for by their marker: not every machine has a browser."""
    if "browser" in (config.option.markexpr or ""):
        return
    ours = [item for item in items if "browser" in item.keywords]
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in ours]


@contextlib.contextmanager
def browser():
    """Start the Chromium that is installed."""
    from playwright.sync_api import sync_playwright

    named = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=named, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Return a function that gives the file of a report, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("reports")
    hostile = folder / "hostile.yaml"
    hostile.write_text(json.dumps(SCENARIO), encoding="utf-8")

    def made(name):
        path = folder / f"{name}.html"
        if not path.exists():
            words = [str(hostile) if word == "HOSTILE" else word for word in COMMANDS[name].split()]
            said, code = commanded(*words, "--html", str(path))
            assert code in (0, None), said
        return path

    return made


def commanded(*words):
    """Run a command in this process, which has imported what it takes; return what it prints, and its exit code."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        patch.setattr(sys, "argv", ["roofsim", *words])
        patch.chdir(ROOT)
        try:
            main()
        except SystemExit as ended:
            return said.getvalue(), ended.code
    return said.getvalue(), 0


@pytest.fixture(params=COMMANDS)
def report(request, reports):
    return reports(request.param)


@pytest.fixture
def open_page(chromium):
    """Return a function that opens a file and gives its page and what its console said."""
    contexts = []

    def opened(path, *, width=900, dark=False):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=True
        )
        contexts.append(context)
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(("file:", "blob:")) else said.append(asked.url))
        page.goto(path.as_uri())
        return page, said

    yield opened
    for context in contexts:
        context.close()


#: What a small model on one card is asked, so that answers come fast.
SMALL: dict[str, Any] = {
    "verb": "run",
    "scenario": {
        "model": "gpt2-124m",
        "workload": {"phase": "train", "micro_batch_size": 8},
        "hardware": {"gpu": "a100-sxm4-80gb"},
    },
    "options": {},
}
#: An answer, or what is wrong with the question, is there.
SETTLED = "#answer:not([aria-busy]):has(#shown:not([hidden]), #problem:not([hidden]))"


def linked(question):
    """Return a question as the page's links hold it."""
    packed = base64.urlsafe_b64encode(json.dumps(question).encode()).decode().rstrip("=")
    return f"#scenario={packed}"


@contextlib.contextmanager
def serving(folder):
    """Start the local server, which keeps reports below a folder, and give its address."""
    (folder / "kept").mkdir()
    asked = ["web", "--port", "0", "--limit", "120", "--folder", str(folder / "kept")]
    words = [sys.executable, "-u", "-m", "roofsim", *asked]
    log = folder / "log.txt"
    with log.open("w") as into, subprocess.Popen(words, cwd=ROOT, stdout=into, stderr=into) as process:
        deadline = time.monotonic() + 60.0
        while not (address := re.search(r"http://\S+", log.read_text())) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert address, log.read_text()
        yield address.group()
        process.terminate()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as address:
        yield address


class Tab:
    """A page of the local server in a browser, and what its console said."""

    def __init__(self, context, address):
        self.context, self.address = context, address
        self.said: list[str] = []
        self.page = context.new_page()
        # The browser notes every answer of 422; the page shows what it says.
        self.page.on("console", lambda one: None if "422" in one.text else self.said.append(one.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._requested)

    def _requested(self, asked):
        if not asked.url.startswith((self.address, "blob:", "data:")):
            self.said.append(f"asked {asked.url}")

    def open(self, question=SMALL):
        """Open the page at a question, or at none."""
        hash_ = question if isinstance(question, str) else linked(question)
        self.page.goto("about:blank")
        self.page.goto(self.address + hash_)
        return self.settled()

    def settled(self):
        """Wait until what was asked is answered."""
        self.page.wait_for_timeout(120)
        self.page.wait_for_selector(SETTLED, timeout=120_000)
        return self.page

    def answered(self, do, verb="**/api/*"):
        """Do something, and wait for the answer to it."""
        with self.page.expect_response(verb, timeout=120_000):
            do()
        return self.settled()

    def question(self):
        """Return the question that the address holds."""
        packed = self.page.url.partition("#scenario=")[2]
        return json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))


@pytest.fixture
def tab(chromium, server):
    """Return a function that opens a tab of the page."""
    contexts = []

    def opened(question=SMALL, *, width=1280, dark=False, beside=None, **more):
        if beside is None:
            context = chromium.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                permissions=["clipboard-read", "clipboard-write"],
                **more,
            )
            contexts.append(context)
        made = Tab(beside.context if beside else context, server)
        if question is not None:
            made.open(question)
        return made

    yield opened
    for context in contexts:
        context.close()
