"""Let examples run where they stand: below a command that the page can ask, the page with that question, opened on demand."""

from __future__ import annotations

import html
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

from roofsim.cli.question import link_of, question_of
from roofsim.errors import RoofsimError

_BLOCK = re.compile(r"^```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
#: Longer addresses are refused by some hosts and browsers.
_LONGEST = 8_000


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page's text with what runs its examples (a hook of mkdocs)."""
    from mkdocs.utils import get_relative_url

    return with_runs(markdown, get_relative_url("app/", page.url), Path(config.config_file_path).parent)


def with_runs(markdown: str, app: str, root: Path) -> str:
    """Return a text with a way to run the first command of each block that the page can ask; `app` is where the page is."""

    def run(block: re.Match[str]) -> str:
        links = [link for link in map(_link, _COMMAND.findall(block["body"])) if link is not None]
        if not links:
            return block[0]
        address = html.escape(app + links[0])
        return (
            f'{block[0]}\n\n<details class="run-here"><summary>Run this here</summary>'
            f'<iframe src="{address}" loading="lazy" title="roofsim, with this question"></iframe>'
            f'<a href="{address}">Open it as a page</a></details>\n'
        )

    with chdir(root):  # whose files examples name
        return _BLOCK.sub(run, markdown)


def _link(command: str) -> str | None:
    """Return the question of a command as a link; None where the page cannot ask it."""
    try:
        question = question_of(command.replace("\\\n", " "))
    except RoofsimError:  # it shows a refusal
        return None
    link = None if question is None else link_of(question)
    return link if link is not None and len(link) <= _LONGEST else None
