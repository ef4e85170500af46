"""Work out memory that is written by stacks: ``memory: {stacks: 6, per_stack: 1.2 TB/s, capacity_per_stack: 24 GiB}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, UnitError
from roofsim.units import humanize, parse

if TYPE_CHECKING:
    from collections.abc import Collection

    from roofsim.spec.reading.source import Document

#: What a card states of its whole memory -> what one stack has of it, and the unit.
_OF_ONE: Final = {"bandwidth": ("per_stack", "B/s"), "capacity": ("capacity_per_stack", "B")}
_KEYS: Final = ("stacks", *(each for each, _ in _OF_ONE.values()))
#: How far a figure of the whole memory may be from the stacks' together: data sheets round both.
_ROUNDED: Final = 0.01
_WHOLE: Final = "memory: {stacks: 6, per_stack: 1.2 TB/s, capacity_per_stack: 24 GiB}"


def of_stacks(document: Document, prefix: str = "gpu") -> Document:
    """Return a card as its file states it, with the bandwidth and capacity that its stacks have together.

    Raises
    ------
    SpecError
        Where a whole and its stacks contradict each other, or what one stack has is stated without their number.
    """
    memory = document.data.get("memory") if isinstance(document.data, dict) else None
    stated = [key for key in _KEYS if key in memory] if isinstance(memory, dict) else []
    if not stated:
        return document
    return document.once(("stacks", prefix), lambda: _complete(document, {}, set(memory or {}), prefix)[0])


def restacked(
    document: Document, before: Document, changed: Collection[tuple[str, ...]], prefix: str = "gpu"
) -> tuple[Document, list[str]]:
    """Return a card of which a scenario changed some numbers, with what follows of them for its memory; with notes.

    More stacks are as fast and as large as those of `before`, each; another bandwidth of all is one of each stack too.

    Parameters
    ----------
    changed
        Paths that were changed, such as ``("memory", "stacks")``.

    Raises
    ------
    SpecError
        As `of_stacks`; and for another number of stacks on a card that does not state its own.
    """
    keys = {path[1] for path in changed if path[0] == "memory" and len(path) > 1}
    memory, old = (one.data.get("memory") if isinstance(one.data, dict) else None for one in (document, before))
    if not keys or not isinstance(memory, dict) or not any(key in memory for key in _KEYS):
        return document, []
    return _complete(document, old if isinstance(old, dict) else {}, keys, prefix)


def _complete(
    document: Document, before: dict[str, Any], stated: Collection[str], prefix: str
) -> tuple[Document, list[str]]:
    memory, path = document.data["memory"], f"{prefix}.memory"
    stacks = memory.get("stacks")
    if stacks is None:
        each = next(key for key in _KEYS if key in memory)
        hint = f"State it as well, for example {_WHOLE}."
        raise SpecError(
            Problem(
                f"{path}.{each} needs the number of stacks", document.place(("memory", each)), f"{path}.{each}", hint
            )
        )
    if isinstance(stacks, bool) or not isinstance(stacks, int) or stacks < 1:
        return document, []  # the schema says what is wrong with it
    notes: list[str] = []
    for whole, (each, unit) in _OF_ONE.items():
        amount = _of_one(memory, before, stated, whole)
        if amount is None and "stacks" in stated and not {whole, each} & set(stated):
            _refuse_unknown(document, before, whole, each, path)
        if amount is None:
            continue
        place = document.place(("memory", each if each in stated else "stacks"))
        if whole in stated:
            _refuse_contradiction(memory[whole], amount * stacks, unit, f"{path}.{whole}", place, stacks, each)
            continue
        document = document.with_value(("memory", whole), humanize(amount * stacks, unit), place)
        shown = (humanize(number, unit, 4) for number in (amount * stacks, amount))
        notes.append(f"{path}.{whole}: {next(shown)}, {stacks} stacks of {next(shown)}")
    return _without_stale(document, stated), notes


def _of_one(memory: dict[str, Any], before: dict[str, Any], stated: Collection[str], whole: str) -> float | None:
    """Return what one stack has: as stated, or as each of the card's own; None where nobody says so, or only the whole is new."""
    each, unit = _OF_ONE[whole]
    if each in stated:
        return _amount(memory.get(each), unit)
    if whole in stated or "stacks" not in stated:
        return None
    own, all_of_them, count = _amount(before.get(each), unit), _amount(before.get(whole), unit), before.get("stacks")
    if own is not None:
        return own
    return None if all_of_them is None or not count else all_of_them / count


def _amount(value: Any, unit: str) -> float | None:
    """Return a stated quantity; None where there is none, or where the schema will refuse it."""
    try:
        amount = parse(value, unit)
    except UnitError:
        return None
    return amount if amount > 0.0 else None


def _refuse_unknown(document: Document, before: dict[str, Any], whole: str, each: str, path: str) -> None:
    """Refuse a number of stacks that says nothing of a figure which the card would keep."""
    if whole not in before:
        return
    name = document.data.get("name", "the card")
    message = f"{name} does not state its stacks, so what another number of them does to its {whole} is not known"
    hint = f"State {path}.{each} as well, or {path}.{whole} itself."
    raise SpecError(Problem(message, document.place(("memory", "stacks")), f"{path}.stacks", hint))


def _refuse_contradiction(
    stated: Any, together: float, unit: str, path: str, place: Place, stacks: int, each: str
) -> None:
    whole = _amount(stated, unit)
    if whole is None or abs(whole - together) <= _ROUNDED * together:
        return
    shown = humanize(together, unit, 4)
    message = f"{stated} is not what {stacks} stacks have together, {shown}"
    raise SpecError(Problem(message, place, path, f"State {each}, or the whole, or figures that agree."))


def _without_stale(document: Document, stated: Collection[str]) -> Document:
    """Drop what a file says of one stack where the scenario states the whole anew."""
    memory = dict(document.data["memory"])
    stale = [each for whole, (each, _) in _OF_ONE.items() if whole in stated and each not in stated and each in memory]
    if not stale:
        return document
    kept = {key: value for key, value in memory.items() if key not in stale}
    return document.with_value(("memory",), kept, document.place(("memory",)))
