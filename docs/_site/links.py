"""Send links that leave the documentation to the repository, where the site is built; in a checkout they work as they are.

The environment variable ``ROOFSIM_REPOSITORY`` says where the repository is (mkdocs.yml); without it such links become text.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page's text with links out of `docs/` made absolute (a hook of mkdocs)."""
    folder = posixpath.dirname(page.file.src_uri)

    def absolute(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, link["path"]))
        if target.startswith("docs/"):
            return link[0]
        if not config.repo_url:
            return link["text"]
        return f"[{link['text']}]({config.repo_url}/blob/main/{target}{link['anchor'] or ''})"

    return _LINK.sub(absolute, markdown)
