"""The part of docs/accuracy.md about inference: goals, and the tables of the page that scores it."""

from __future__ import annotations

from typing import Final

from roofsim_evidence.markdown import met, table
from roofsim_evidence.places import checkout

PATH: Final = "docs/inference-accuracy.md"
#: Sections of that page which are repeated.
TABLES: Final = (
    "Engines, one GPU", "Several GPUs", "Regimes", "Card families, one GPU", "Servers",
    "A whole source, card or family left out", "Memory",
)  # fmt: skip
#: Columns of the scores that goals are about.
MEDIAN, INSIDE, WITHOUT = "median", "in interval", "card left out"
ONE, MANY, SERVERS, MEMORY = "Engines, one GPU", "Several GPUs", "Servers", "Memory"
LEFT_OUT = "A whole source, card or family left out"
#: What is asked of inference: words, section, groups (the worst counts), column, and the limit in percent (from below if
#: negative).
GOALS: Final = (
    ("llama.cpp, decode", ONE, ("llama.cpp, decode",), MEDIAN, 4.0),
    ("llama.cpp, decode on several GPUs", MANY, ("llama.cpp, decode",), MEDIAN, 4.0),
    ("llama.cpp, prefill", ONE, ("llama.cpp, prefill",), MEDIAN, 6.0),
    ("llama.cpp, card left out", LEFT_OUT, ("engine llama.cpp",), WITHOUT, 8.0),
    ("FasterTransformer, GPT", ONE, ("fastertransformer, generate",), MEDIAN, 5.0),
    ("FasterTransformer, GPT on several GPUs", MANY, ("fastertransformer, generate",), MEDIAN, 5.0),
    ("FasterTransformer, encoders", ONE, ("fastertransformer, forward",), MEDIAN, 10.0),
    ("FasterTransformer, card left out", LEFT_OUT, ("engine fastertransformer",), WITHOUT, 20.0),
    ("TensorRT-LLM 0.9", ONE, ("tensorrt-llm, generate",), MEDIAN, 10.0),
    ("TensorRT-LLM 0.9 on several GPUs", MANY, ("tensorrt-llm, generate",), MEDIAN, 10.0),
    (
        "4-bit engines, decode: the worst of six", ONE,
        tuple(f"{name}, decode" for name in ("autoawq", "exllama-v1", "exllamav2", "mlc-llm", "tinychat", "lmdeploy")), MEDIAN, 9.0,
    ),
    ("AutoAWQ, prefill", ONE, ("autoawq, prefill",), MEDIAN, 9.0),
    ("Stable Diffusion, pipelines", ONE, ("diffusers-2022, pipeline",), MEDIAN, 15.0),
    ("Stable Diffusion, reserved memory", MEMORY, ("diffusers-2022, reserved",), MEDIAN, 6.0),
    ("servers, time per token, dense models", SERVERS, ("tpot, dense",), MEDIAN, 10.0),
    ("servers, time per token, mixtures of experts", SERVERS, ("tpot, experts",), MEDIAN, 25.0),
    ("servers, first token within its range, dense models", SERVERS, ("ttft, dense",), INSIDE, -75.0),
    ("servers, first token within its range, mixtures of experts", SERVERS, ("ttft, experts",), INSIDE, -75.0),
)  # fmt: skip

Rows = dict[str, dict[str, str]]


def _page() -> str:
    return (checkout() / PATH).read_text(encoding="utf-8")


def sections() -> dict[str, str]:
    """Return the tables of the page on inference that are repeated, by their headings."""
    by_heading = _sections(_page())
    return {name: by_heading[name].strip() for name in TABLES}


def goals() -> str:
    """Return the table of goals and what the page says of them."""
    return _goals({name: _rows(text) for name, text in _sections(_page()).items()})


def _sections(text: str) -> dict[str, str]:
    """Return the text of each section of a page by its heading."""
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def _rows(text: str) -> Rows:
    """Return the rows of the tables in a section: first cell -> column -> cell."""
    rows: Rows = {}
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif not set(line) <= set("|-: "):
            rows[cells[0]] = dict(zip(head, cells, strict=True))
    return rows


def _goals(tables: dict[str, Rows]) -> str:
    cells = []
    for what, name, groups, column, limit in GOALS:
        sign = "<=" if limit > 0.0 else ">="
        values = [_percent(tables[name][group][column]) for group in groups if group in tables[name]]
        if not values:
            cells.append((what, f"{limit:g} %", "not scored", met(holds=False)))
            continue
        now = max(values) if limit > 0.0 else min(values)
        holds = now <= limit if limit > 0.0 else now >= -limit
        cells.append((what, f"{sign} {abs(limit):g} %", f"{now:.1f} %", met(holds)))
    return table(("rows", "goal", "now", "met"), cells, left=2)


def _percent(cell: str) -> float:
    return float(cell.partition("/")[0].replace(" ", "").rstrip("%"))  # the median, of several figures in a cell
