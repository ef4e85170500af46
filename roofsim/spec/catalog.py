"""Find things by name: in the catalogs at the top of the repository, or inside the installed package."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Final, Literal

from roofsim import plugins
from roofsim.errors import Place, Problem, UnknownNameError, near_matches, one_of
from roofsim.plugins import Plugin, remembered
from roofsim.spec.prices import with_prices
from roofsim.spec.reading.source import Document, parse_value, read_kept

Kind = Literal["gpu", "system", "engine", "architecture", "model"]

_FOLDERS: Final[dict[str, str]] = {
    "gpu": "hardware/gpus",
    "system": "hardware/systems",
    "engine": "hardware/engines",
    "architecture": "hardware/architectures",
    "model": "models",
}

#: What is named in one place: ``--gpus a100,dgx-h100``.
_CARD_OR_NODE: Final[dict[Kind, Kind]] = {"gpu": "system", "system": "gpu"}
_SAID: Final = {"gpu": "GPU", "system": "system"}
#: Entries of plug-ins that were read.
_READ: Final[dict[tuple[Kind, str], Plugin]] = {}
_LETTERS: Final = ascii_lowercase
#: How many entries an error names whose name begins with the word that was given.
_NAMED_AT_MOST: Final = 8
_NEAR_AT_MOST: Final = 4
_ALIASES: Final = re.compile(r"^aliases:[ \t]*(\[[^\]]*\]|(?:\n[ \t]+- .*|\n- .*)+)", re.MULTILINE)


@cache
def root() -> Path:
    """Return the folder that holds ``hardware`` and ``models``: the wheel's copy, or the repository."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_catalog"
    return inside if inside.is_dir() else package.parent


@cache
def names(kind: Kind) -> dict[str, Path]:
    """Return every catalog name of a kind with its file, sorted."""
    files = (root() / _FOLDERS[kind]).rglob("*.yaml")
    return dict(sorted((path.stem, path) for path in files))


@cache
def aliases(kind: Kind) -> dict[str, str]:
    """Return alias -> catalog name. Reads the alias lines only, not whole files."""
    name_of: dict[str, str] = {}
    for name, path in names(kind).items():
        for alias in _aliases_in(path):
            name_of.setdefault(alias, name)
    return name_of


def _aliases_in(path: Path) -> list[str]:
    match = _ALIASES.search(path.read_text(encoding="utf-8"))
    return [] if match is None else [normal(str(alias)) for alias in parse_value(match.group(1), str(path)) or []]


@remembered
def plugged(kind: Kind) -> dict[str, tuple[Path, Plugin]]:
    """Return what plug-ins add to a catalog: name -> file and plug-in. Their spellings are compared with roofsim's.

    Raises
    ------
    PluginError
        For a name that roofsim or another plug-in has as well, or a plug-in without a folder of catalogs.
    """
    added = [
        (normal(path.stem), path, one)
        for one in plugins.plugged("catalogs", ()).values()
        for path in sorted((one.load(_folder) / _FOLDERS[kind]).rglob("*.yaml"))
    ]
    own = {*names(kind), *aliases(kind)}
    plugins.refuse_clashes(kind, [(name, one) for name, _, one in added], own)
    others = [(alias, one) for _, path, one in added for alias in _aliases_in(path)]
    plugins.refuse_clashes(kind, [*((name, one) for name, _, one in added), *others], own)
    return {name: (path, one) for name, path, one in added}


@remembered
def _plugged_aliases(kind: Kind) -> dict[str, str]:
    return {alias: name for name, (path, _) in plugged(kind).items() for alias in _aliases_in(path)}


def _folder(value: Any) -> Path | None:
    """Return the folder that an entry point of catalogs names: that of a package, or a path."""
    inside = getattr(value, "__path__", None)
    paths = list(inside) if inside is not None else [value] if isinstance(value, str | Path) else []
    folders = [Path(path) for path in paths if any((Path(path) / sub).is_dir() for sub in ("hardware", "models"))]
    return folders[0] if folders else None


def known(kind: Kind) -> dict[str, Path]:
    """Return every name of a kind with its file: roofsim's own, and those of plug-ins behind them."""
    return names(kind) | {name: path for name, (path, _) in plugged(kind).items()}


def known_aliases(kind: Kind) -> dict[str, str]:
    """Return alias -> name, of plug-ins too."""
    return aliases(kind) | _plugged_aliases(kind)


def has(kind: Kind, name: str) -> bool:
    """Tell whether a catalog, or one of a plug-in, has an entry of exactly this name."""
    return name in names(kind) or name in plugged(kind)


def looked_up(kind: Kind, name: str) -> Plugin | None:
    """Return the plug-in that an entry comes from which this process has read; None for roofsim's own."""
    return _READ.get((kind, name))


def origin(kind: Kind, name: str) -> str:
    """Say where an entry comes from, in words for provenance.

    >>> origin("gpu", "a100-sxm4-80gb")
    'catalog entry a100-sxm4-80gb'
    """
    shown = f"catalog entry {name}"
    return shown if name in names(kind) else f"{shown} of plug-in {plugged(kind)[name][1]}"


def normal(name: str) -> str:
    """Return the spelling under which names are compared.

    >>> normal("BERT_Base")
    'bert-base'
    """
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def resolve_name(kind: Kind, name: str, place: Place | None = None, path: str = "", *, loosely: bool = True) -> str:
    """Return the catalog name that `name` stands for; `loosely`, also of names that say more than ours, or less.

    Raises
    ------
    UnknownNameError
        With near matches among names and aliases.
    """
    key = normal(name)
    if key in names(kind):
        return key
    if key in aliases(kind):
        return aliases(kind)[key]
    plain = key.replace(".", "-")  # p4d.24xlarge, BM.GPU.H100.8: aliases are written without full stops
    if plain in aliases(kind):
        return aliases(kind)[plain]
    meant, other = _meant(kind, key), _is_another(kind, plain) or _is_another(kind, key)
    if loosely and len(meant) == 1 and other is None:
        return meant[0]
    added: dict[str, str] = {}
    if other is None:
        added = _plugged_aliases(kind) | {name: name for name in plugged(kind)}
        if key in added:
            return added[key]
    close = meant or _begin_so(kind, key, added) or _near(kind, key, [*names(kind), *aliases(kind), *added])
    hint = f"Did you mean {one_of(map(repr, close))}?" if close else f"`roofsim list {kind}s` shows all."
    if other is not None:
        given = key if " " in name else name
        hint = f"It is a {_SAID[other]}: --{other} {given}, or hardware.{other} in a file."
    elif (why := why_not(kind, name)) is not None:
        hint = f"{why[:1].upper()}{why[1:]}."
    raise UnknownNameError(Problem(f"unknown {kind} {name[:80]!r}", place, path, hint))


def _begin_so(kind: Kind, key: str, added: dict[str, str]) -> list[str]:
    """Return the entries whose name, or one of whose aliases, begins with a word: each once, by name where that begins so."""
    if len(key) < 2:
        return []
    known = {name: name for name in names(kind)} | added | aliases(kind)
    begin = {name: word for word, name in reversed(known.items()) if word.startswith(key)}
    own = {name: name for name in begin if name.startswith(key)}
    return sorted((begin | own).values(), key=lambda word: (len(word), word))[:_NAMED_AT_MOST]


def _near(kind: Kind, key: str, words: list[str]) -> list[str]:
    """Return the words that look like a name; of cards by what they say beside their maker, those first that begin most like it."""
    if kind != "gpu":
        return near_matches(key, words)
    bare = _bare(key)
    known = {_bare(word): word for word in sorted(words, key=len, reverse=True)}
    alike = {word: _begin_alike(word, bare) for word in near_matches(bare, known, limit=2 * _NAMED_AT_MOST)}
    most = max(alike.values(), default=0)
    close = [known[word] for word in sorted(alike, key=lambda word: -alike[word]) if 2 * alike[word] >= most]
    each = {aliases(kind).get(word, word): word for word in reversed(close)}  # a card once, by its nearest name
    return [word for word in close if word in each.values()][:_NEAR_AT_MOST]


def _begin_alike(one: str, other: str) -> int:
    """Return how many characters two words have in common at their beginning.

    >>> _begin_alike("mi300y", "mi325x")
    3
    """
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def why_not(kind: Kind, name: str) -> str | None:
    """Return why a model or an accelerator that people ask for is not in the catalog; None of any other name."""
    key = normal(name).replace(".", "-") if kind in _CARD_OR_NODE else normal(name)
    from roofsim.spec.not_modelled import reason  # only where something is wrong

    return reason(root() / "hardware" / "not_modelled.yaml", kind, key, _SPELLED[kind])


def _is_another(kind: Kind, key: str) -> Kind | None:
    """Return the other kind where a name that may be a card's or a node's is one of roofsim's own of it: no plug-in is asked."""
    other = _CARD_OR_NODE.get(kind)
    return other if other is not None and (key in names(other) or key in aliases(other)) else None


#: Words before the name of a card, and within it, that say no more than the name does: drivers and makers print them.
_MAKERS: Final = re.compile(r"^(?:(?:nvidia|geforce|amd|radeon|instinct|intel|habana|tesla)-?)+")
_IDLE: Final = re.compile(r"\(r\)|\(tm\)|[®™()]|-(?:generation|edition|gpu|graphics|oam)(?=-|$)")


def _meant(kind: Kind, key: str) -> list[str]:
    """Return what a name means that says more than ours, or less.

    GPUs without maker, dashes or letters (``4090``, ``nvidia-h100``, ``rtx 4090``; a number alone may be several cards: then
    all are named), and the model of a checkpoint that was trained further (``Qwen/Qwen2-7B-Instruct``).
    """
    if kind == "model":
        return _shape_of(key)
    if kind != "gpu":
        return []
    bare = _bare(key)
    if not bare:
        return []
    known = {name: name for name in names(kind)} | aliases(kind)
    meant = {name for word, name in known.items() if bare in (word.replace("-", ""), _bare(word))}
    if not meant and bare[0].isdigit():
        meant = {name for word, name in known.items() if word.replace("-", "").lstrip(_LETTERS) == bare}
    return sorted(meant)


def _bare(key: str) -> str:
    """Return what a card's name says beside its maker.

    >>> _bare("nvidia-rtx-6000-ada-generation"), _bare("amd-instinct-mi300x")
    ('rtx6000ada', 'mi300x')
    """
    return _MAKERS.sub("", _IDLE.sub("", key)).replace("-", "")


#: Ends of names of checkpoints that were trained further: their layers are those of the first.
_TRAINED_ON: Final = re.compile(r"-(?:instruct|chat|it|base|pt|sft|hf|dpo)$")


def _untrained(key: str) -> str:
    """Return the name of a checkpoint without its owner and without how it was trained on.

    >>> _untrained("qwen/qwen2-7b-instruct")
    'qwen2-7b'
    """
    bare = key.rpartition("/")[2]
    while bare != (shorter := _TRAINED_ON.sub("", bare)):
        bare = shorter
    return bare


#: What tells names of a kind apart, whether they are known or not.
_SPELLED: Final[dict[str, Callable[[str], str]]] = {
    "gpu": lambda name: _bare(normal(name)),
    "model": lambda name: _untrained(normal(name)),
    **dict.fromkeys(("system", "engine", "architecture"), normal),
}


def _shape_of(key: str) -> list[str]:
    """Return the model whose layers a hub's checkpoint has: its name without its owner and without how it was trained on."""
    bare = key.rpartition("/")[2]
    while True:
        if bare in names("model"):
            return [bare]
        if bare in aliases("model"):
            return [aliases("model")[bare]]
        shorter = _TRAINED_ON.sub("", bare)
        if shorter == bare:
            return []
        bare = shorter


def load(kind: Kind, name: str, place: Place | None = None, path: str = "") -> Document:
    """Read the catalog file of a name or alias, once; the document is shared and must not be changed.

    Raises
    ------
    UnknownNameError
        When there is none.
    """
    full_name = resolve_name(kind, name, place, path)
    if full_name in names(kind):
        return _priced(kind, full_name, read_kept(names(kind)[full_name]))
    file, _READ[kind, full_name] = plugged(kind)[full_name]
    return _priced(kind, full_name, read_kept(file))


def _priced(kind: Kind, name: str, document: Document) -> Document:
    priced = with_prices(document, name, root() / "hardware" / "prices.yaml") if kind in _CARD_OR_NODE else document
    memory = priced.data.get("memory") if kind == "gpu" and isinstance(priced.data, dict) else None
    if not isinstance(memory, dict) or not ("per_stack" in memory or "capacity_per_stack" in memory):
        return priced
    from roofsim.spec.hardware.stacks import of_stacks

    return of_stacks(priced)
