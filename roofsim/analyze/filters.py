"""Choose and order rows of a catalog: ``list gpus --vendor amd --min-memory 24GiB --sort price``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError, UnitError, UnknownNameError, did_you_mean
from roofsim.records import dataclass
from roofsim.units import parse, read_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Columns as people call them -> as rows do.
_CALLED: Final = {
    "price": "USD/h",
    "hourly": "USD/h",
    "purchase": "USD",
    "peak": "16-bit peak",
    "flops": "16-bit peak",
    "power": "tdp",
}
#: Columns of which less comes first; of other figures the largest does.
_LEAST_FIRST: Final = ("USD/h", "USD", "tdp")


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A filter of rows.

    Attributes
    ----------
    kinds
        Catalogs whose rows have what it looks at.
    column
        What it looks at.
    unit
        Of a bound: B, B/s, USD/h, a year ("year") or a count (""); None: a name that the column must have.
    most
        Whether a bound is the upper one.
    """

    kinds: tuple[str, ...]
    column: str
    unit: str | None = None
    most: bool = False


#: Option -> filter.
FILTERS: Final[dict[str, Filter]] = {
    "vendor": Filter(kinds=("gpu",), column="vendor"),
    "architecture": Filter(kinds=("gpu",), column="architecture"),
    "family": Filter(kinds=("model",), column="family"),
    "gpu": Filter(kinds=("system",), column="gpu"),
    "min-memory": Filter(kinds=("gpu",), column="memory", unit="B"),
    "min-bandwidth": Filter(kinds=("gpu",), column="bandwidth", unit="B/s"),
    "since": Filter(kinds=("gpu", "system"), column="year", unit="year"),
    "max-price": Filter(kinds=("gpu", "system"), column="USD/h", unit="USD/h", most=True),
    "min-parameters": Filter(kinds=("model",), column="parameters", unit=""),
    "max-parameters": Filter(kinds=("model",), column="parameters", unit="", most=True),
    "measured": Filter(kinds=("gpu", "model"), column="measured"),
    "recalled": Filter(kinds=("gpu", "system"), column="recalled"),
}
#: What a model's name begins with: its letters, and those with the version behind: qwen and qwen2.5 of qwen2.5-7b.
_LETTERS: Final = re.compile(r"[a-z]{3,}?(?=v?\d|[^a-z\d]|$)")
_SERIES: Final = re.compile(r"[a-z]+[\d.]*\d|[a-z]+")


def chosen(
    rows: list[dict[str, Any]],
    kind: str,
    wanted: Mapping[str, str | bool | None],
    *,
    sort: str | None = None,
    same_card: Callable[[str, str], bool] | None = None,
    kinds_of: Callable[[str], frozenset[str]] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows that pass every filter that is given, in the order that is asked for; rows without a figure last.

    Parameters
    ----------
    kind
        Catalog of the rows: gpu, system, engine, model, architecture.
    wanted
        Option -> its text; True of `measured` and `recalled`; None: not given.
    sort
        Column, or what people call it; a dash before it turns the order round.
    same_card
        Tells whether a card's name and what was asked for mean one card.
    kinds_of
        Tells the kinds of a model by its name (`roofsim.analyze.kinds`), which a family may be as well.

    Raises
    ------
    SpecError
        For a filter of another catalog, a text that is no quantity of its kind, an unknown name or column.
    """
    for option, text in wanted.items():
        if text is None or text is False:
            continue
        if option == "family" and kind in FILTERS[option].kinds:
            rows = _of_family(rows, str(text), kinds_of)
        else:
            rows = _kept(rows, kind, option, text, same_card)
    return rows if sort is None else _sorted(rows, sort)


def _kept(
    rows: list[dict[str, Any]], kind: str, option: str, text: str | bool, same_card: Callable[[str, str], bool] | None
) -> list[dict[str, Any]]:
    chosen_by = FILTERS[option]
    if kind not in chosen_by.kinds:
        own = [f"--{name}" for name, other in FILTERS.items() if kind in other.kinds]
        hint = f"It takes {', '.join(own)} and --sort." if own else "It takes --sort alone."
        raise SpecError(Problem(f"`roofsim list {kind}s` takes no --{option}", hint=hint))
    column = chosen_by.column
    if text is True:
        return [row for row in rows if row[column] is True or (isinstance(row[column], list) and row[column])]
    if chosen_by.unit is not None:
        bound = _bound(option, str(text), chosen_by.unit)
        sign = -1.0 if chosen_by.most else 1.0
        return [row for row in rows if row[column] is not None and sign * row[column] >= sign * bound]
    return _named(rows, option, column, str(text), same_card)


def _named(
    rows: list[dict[str, Any]], option: str, column: str, text: str, same_card: Callable[[str, str], bool] | None
) -> list[dict[str, Any]]:
    word = text.strip().lower()
    if same_card is not None and column == "gpu":
        kept = [row for row in rows if row[column] is not None and same_card(str(row[column]), word)]
    else:
        kept = [row for row in rows if str(row[column]).lower() == word]
    if kept:
        return kept
    known = sorted({str(row[column]) for row in rows if row[column] is not None})
    if column == "gpu":
        known = [*dict.fromkeys(name.partition("-")[0] for name in known), *known]
    raise UnknownNameError(Problem(f"--{option}: none has {column} {text[:60]!r}", hint=did_you_mean(word, known)))


def _of_family(
    rows: list[dict[str, Any]], text: str, kinds_of: Callable[[str], frozenset[str]] | None
) -> list[dict[str, Any]]:
    """Return the models of a family of schemas, of a kind, or of a series: whose names begin so, or have a part that does.

    A later part of a name counts among models of the families that the series has: falcon-mamba-7b beside mamba2-2.7b, and no
    detector with the backbone resnet50 beside resnet50.
    """
    word = text.strip().lower()
    series = {row["family"] for row in rows if _begins(row, word)}
    kept = [
        row
        for row in rows
        if word in (str(row["family"]).lower(), *(kinds_of(row["name"]) if kinds_of is not None else ()))
        or (row["family"] in series and any(part.startswith(word) for part in str(row["name"]).lower().split("-")))
        or _begins(row, word)
    ]
    if kept:
        return kept
    kinds = {kind for row in rows for kind in (kinds_of(row["name"]) if kinds_of is not None else ())}
    known = {*kinds, *(str(row["family"]) for row in rows)}
    hint = did_you_mean(word, [*sorted(known), *sorted({name for row in rows for name in _series(row)})])
    said = hint if hint.startswith("Did") else did_you_mean(word, sorted(known))
    raise UnknownNameError(Problem(f"--family: none has family {text[:60]!r}", hint=said))


def _begins(row: dict[str, Any], word: str) -> bool:
    return str(row["name"]).lower().startswith(word)


def _series(row: dict[str, Any]) -> set[str]:
    """Return what a model's name begins with, which people call its family: qwen and qwen2.5, yolo and yolov8, t5."""
    name = str(row["name"]).lower()
    begins = {match[0] for match in (_LETTERS.match(name), _SERIES.match(name)) if match is not None}
    return begins | {name.partition("-")[0]}


def _bound(option: str, text: str, unit: str) -> float:
    try:
        if unit == "":
            return _counted(text)
        if unit == "year":
            return float(int(text))
        return parse(text if unit != "USD/h" or not _plain(text) else f"{text} USD/h", unit)
    except (UnitError, ValueError) as error:
        said = {"": "expected a number such as 8B or 350M", "year": "expected a year such as 2023"}.get(unit)
        raise SpecError(Problem(f"--{option}: {said}; got {text[:60]!r}" if said else f"--{option}: {error}")) from None


def _counted(text: str) -> float:
    value = read_parameters(text)
    if value is None or value < 0.0:
        raise ValueError(text)
    return value


def _plain(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _sorted(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    word, turned = (sort[1:], True) if sort.startswith("-") else (sort, False)
    columns = list(rows[0]) if rows else []
    column = next((name for name in columns if name.lower() == word.lower()), _CALLED.get(word.lower(), ""))
    if rows and column not in columns:
        called = [word for word, name in _CALLED.items() if name in columns]
        raise UnknownNameError(Problem(f"--sort: no column {word!r}", hint=did_you_mean(word, [*columns, *called])))
    known = [row for row in rows if row[column] is not None]
    figures = all(isinstance(row[column], int | float) for row in known)
    largest_first = figures and column not in _LEAST_FIRST
    ordered = sorted(known, key=lambda row: row[column], reverse=largest_first != turned)
    return [*ordered, *(row for row in rows if row[column] is None)]
