"""Send links that leave the documentation to the repository, where the site is built; in a checkout they work as they are."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page's text with links out of `docs/` made absolute (a hook of mkdocs)."""
    folder = posixpath.dirname(page.file.src_uri)

    def absolute(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if target.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{target}{link[2] or ''})"

    return _LINK.sub(absolute, markdown)
