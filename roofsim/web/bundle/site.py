"""Lay out the static page: the files of the page, the archive, Pyodide or where it is published, and what keeps it offline."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import RoofsimError
from roofsim.output import save_bytes
from roofsim.records import dataclass
from roofsim.web.ask import CATALOG, ask
from roofsim.web.bundle.archive import archived, archived_wheel, compiler_of
from roofsim.web.bundle.memory import kept_memory
from roofsim.web.bundle.pins import Wheel, integrity, pins

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Files of the page that another file of the site takes the place of.
_NOT_AS_THEY_ARE: Final = ("index.html", "service.js", "http.js")
_BACK: Final = re.compile(r'(<meta name="roofsim-back" content=")[^"]*(")')


@dataclass(frozen=True, kw_only=True)
class Laid:
    """What was built.

    Attributes
    ----------
    files
        Name below the page's folder -> content.
    version
        A hash of all of it.
    compiled
        Whether the archive holds byte code; without, Python compiles the package at every visit.
    kept
        Whether it holds the memory of a Python that has answered; without, Python starts and imports at every visit.
    elsewhere
        Addresses that the page fetches from other hosts.
    """

    files: Mapping[str, bytes]
    version: str
    compiled: bool
    kept: bool
    elsewhere: tuple[str, ...]


def laid_out(
    *,
    core: Mapping[str, bytes] | None,
    wheels: Mapping[str, bytes],
    url: str | None = None,
    interpreter: str | None = None,
    node: str | None = None,
    docs: str | None = None,
) -> Laid:
    """Return the files of the static page.

    Parameters
    ----------
    core
        Pyodide's own files, to be served beside the page; None: they are fetched from `url`.
    wheels
        Of the pinned wheels those that are served beside the page; the others are fetched from where they are published.
    url
        Where Pyodide's distribution is, in place of its publisher's; what is fetched there has to be the pinned files all the same.
    interpreter
        The Python that compiles (`compiler_of`).
    node
        The Node that keeps the memory of a Python that has answered (`kept_memory`), where Pyodide and the compiled packages of
        the start are served beside the page; None: each visit starts Python.
    docs
        Where the documentation is, seen from the page; None: nowhere.
    """
    compiler = compiler_of(pins().python, interpreter)
    archive = archived(compiler)
    catalog = _json(_catalog())
    held: dict[str, bytes] = {
        _hashed("roofsim", archive, "tar.gz"): archive,
        _hashed("catalog", catalog, "json"): catalog,
        **dict(_beside(name, content, compiler) for name, content in wheels.items()),
        **{f"pyodide/{pins().version}/{name}": content for name, content in (core or {}).items()},
    }
    base = (url or pins().url).rstrip("/") + "/"
    manifest = _manifest(held, base, beside=core is not None)
    held |= _page(docs)
    if node is not None and compiler is not None and not _fetched_at_the_start(manifest):
        memory = kept_memory(node, {**held, "bundle.json": _json(manifest)})
        held[name := _hashed("memory", memory.content, "gz")] = memory.content
        manifest["snapshot"] = {"url": name, "libraries": list(memory.libraries), "table": memory.table}
    held["bundle.json"] = _json(manifest)
    kept = [{"url": "./" if name == "index.html" else name} for name in sorted(held)]
    elsewhere = [*manifest["pyodide"]["fetched"], *manifest["wheels"]]
    kept += [_kept(each) for each in elsewhere if each["pinned"]]
    version = hashlib.sha256(b"".join(name.encode() + held[name] for name in sorted(held))).hexdigest()[:16]
    script = (files("roofsim.web") / "static" / "service.js").read_text(encoding="utf-8")
    held["service.js"] = f"const BUNDLE = {_json({'version': version, 'files': kept}).decode()};\n{script}".encode()
    return Laid(
        files=dict(sorted(held.items())),
        version=version,
        compiled=compiler is not None,
        kept="snapshot" in manifest,
        elsewhere=tuple(each["url"] for each in elsewhere if each["pinned"]),
    )


def _fetched_at_the_start(manifest: Mapping[str, Any]) -> list[str]:
    """Return the addresses of other hosts that a first answer needs."""
    files = [*manifest["pyodide"]["fetched"], *(wheel for wheel in manifest["wheels"] if wheel["when"] == "start")]
    return [file["url"] for file in files if file["pinned"]]


def write_site(laid: Laid, folder: Path) -> None:
    """Write what was built into a folder; other files in it stay.

    Raises
    ------
    RoofsimError
        When something is in the way.
    """
    for name, content in laid.files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RoofsimError(f"{path.parent} cannot be made: {error.strerror}") from None
        save_bytes(path, content)


def _kept(each: dict[str, Any]) -> dict[str, Any]:
    """Return a file of another host as the cache takes it: what only some questions need is no reason not to keep the rest."""
    optional = {"optional": True} if each.get("when") == "later" else {}
    return {"url": each["url"], "integrity": each["integrity"], **optional}


def _catalog() -> dict[str, Any]:
    answer = ask(CATALOG, {})
    return {key: value for key, value in answer.items() if key not in ("seconds", "verb")}


def _manifest(held: Mapping[str, bytes], base: str, *, beside: bool) -> dict[str, Any]:
    """Return what the worker reads first."""
    pinned = pins()
    index = f"pyodide/{pinned.version}/" if beside else base
    core = {name: _file(f"{index}{name}", sha256, pinned=not beside) for name, sha256 in pinned.files.items()}
    archive, catalog = (next(name for name in held if name.startswith(start)) for start in ("roofsim-", "catalog-"))
    return {
        "python": pinned.python,
        "archive": {"url": archive, "pinned": False},
        "catalog": {"url": catalog},
        "pyodide": {
            "index": index,
            "info": dict(pinned.info),
            "mjs": core["pyodide.mjs"],
            "asm": core["pyodide.asm.js"],
            "fetched": list(core.values()),
        },
        "wheels": [_wheel(wheel, held, base) for wheel in pinned.wheels],
        "later": [wheel.package for wheel in pinned.wheels if wheel.when == "later"],
    }


def _wheel(wheel: Wheel, held: Mapping[str, bytes], base: str) -> dict[str, Any]:
    beside = next((name for name in held if name.startswith(f"wheels/{_stem(wheel.file)}")), None)
    if beside is not None:
        return {"url": beside, "pinned": False, "when": wheel.when}
    published = wheel.url.replace(pins().url, base) if wheel.url.startswith(pins().url) else wheel.url
    return {**_file(published, wheel.sha256, pinned=True), "when": wheel.when}


def _beside(name: str, wheel: bytes, compiler: str | None) -> tuple[str, bytes]:
    """Return a wheel as it is served beside the page, under its name there: compiled, as all of Python's side is."""
    if compiler is None:
        return f"wheels/{name}", wheel
    archive = archived_wheel(wheel, compiler)
    return f"wheels/{_hashed(_stem(name), archive, 'tar.gz')}", archive


def _stem(wheel: str) -> str:
    """Return the name and version of a wheel's file."""
    return "-".join(wheel.split("-")[:2])


def _file(url: str, sha256: str, *, pinned: bool) -> dict[str, Any]:
    """Return a file of the page; of other hosts the hash decides, of one's own the host does."""
    return {"url": url, "integrity": integrity(sha256), "pinned": pinned}


def _page(docs: str | None) -> dict[str, bytes]:
    """Return the files of the page, which says that Python runs in it."""
    from roofsim.web.server import static_files

    page = {name: file.content for name, file in static_files().items()}
    held = {f"static/{name}": content for name, content in page.items() if name not in _NOT_AS_THEY_ARE}
    text = _BACK.sub(r"\g<1>static\g<2>", page["index.html"].decode("utf-8"), count=1)
    if docs is not None:
        text = text.replace("</footer>", f'<p><a href="{docs}">Documentation</a></p></footer>')
    return {**held, "index.html": text.encode()}


def _hashed(name: str, content: bytes, ending: str) -> str:
    return f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.{ending}"


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()
