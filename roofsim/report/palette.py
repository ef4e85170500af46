"""Give every meaning its colours: causes of time, parts of memory, kinds of work, cards; on white and on black, in every picture.

Each colour stands out from white (2.5 : 1 and more) and from the dark background (2.9 : 1), so that one palette serves both. Within
a palette any two colours stay apart for people who see no red or no green, and no card has a colour that is like that of a cause:
`tests/report/test_palette.py` measures both.
"""

from __future__ import annotations

from typing import Final

#: Activations of micro batches that wait for their backward pass, in pictures of pipeline stages.
WAITING: Final = "activations of waiting micro batches"

#: What the time of a step goes to, and what binds an op or a step.
CAUSES: Final = {
    "compute": "#127ceb",
    "memory_bandwidth": "#e68a64",
    "launch": "#5d618d",
    "optimizer": "#25afa5",
    "exposed_communication": "#bd2215",
    "bubble": "#c29c00",
    "host_transfer": "#04a8e4",
    "input": "#8a5a54",
    "power": "#254bfa",
}
#: What binds, by the cause whose colour it has.
_BOUNDS: Final = {
    "intra_node_link": "exposed_communication",
    "inter_node_link": "exposed_communication",
    "host_link": "host_transfer",
    "host_memory": "host_transfer",
    "host_compute": "input",
    "storage": "input",
}
#: What memory holds.
MEMORY: Final = {
    "parameters": "#2e5ff4",
    "gradients": "#5696ff",
    "optimizer_state": "#097047",
    "key_value_cache": "#50aec8",
    "activations": "#b21790",
    WAITING: "#f47f81",
    "temporary": "#90a916",
    "communication_buffers": "#097700",
    "context": "#3382bd",
    "fragmentation": "#a26c85",
}
#: Kinds of work of a timeline.
WORK: Final = {
    "forward": "#6f9bd1",
    "backward": "#d98d43",
    "weight gradients": "#c9a878",
    "recompute": "#9b7fbd",
    "optimizer": "#25afa5",
    "communication": "#bd2215",
    "copy": "#04a8e4",
    "host": "#8a5a54",
    "wait": "#8d949c",
}
#: Cards, or other things that stand beside one another, in the order in which they are named.
CARDS: Final = ("#9d0ff3", "#c541aa", "#5d894e", "#71b227", "#ac65ea", "#d676a5", "#486859", "#84590d")
#: Dashes of their lines (SVG and matplotlib alike), so that a line is told by more than its colour.
DASHES: Final = (
    (),
    (6.0, 2.0),
    (2.0, 2.0),
    (8.0, 2.0, 2.0, 2.0),
    (4.0, 1.0, 1.0, 1.0),
    (1.0, 1.0),
    (10.0, 3.0),
    (5.0, 5.0),
)
#: From the least to the most of a map, in steps that are even to the eye (matplotlib's viridis).
SCALE: Final = (
    "#440154",
    "#482878",
    "#3e4989",
    "#31688e",
    "#26828e",
    "#1f9e89",
    "#35b779",
    "#6ece58",
    "#b5de2b",
    "#fde725",
)


def cause(name: str | None) -> str:
    """Return the colour of what binds or takes time; grey where nothing does.

    >>> cause("inter_node_link") == CAUSES["exposed_communication"]
    True
    """
    return CAUSES.get(_BOUNDS.get(str(name), str(name)), WORK["wait"])


def card(place: int) -> str:
    """Return the colour of the card at a place; they begin again after the last."""
    return CARDS[place % len(CARDS)]


def dash(place: int) -> tuple[float, ...]:
    """Return the dashes of the line of the card at a place."""
    return DASHES[place % len(DASHES)]


def on_scale(share: float) -> str:
    """Return the colour of a share of the way from the least to the most of a map.

    >>> on_scale(0.0), on_scale(1.0)
    ('#440154', '#fde725')
    """
    place = min(max(share, 0.0), 1.0) * (len(SCALE) - 1)
    low = min(int(place), len(SCALE) - 2)
    mixed = (a + (b - a) * (place - low) for a, b in zip(_parts(SCALE[low]), _parts(SCALE[low + 1]), strict=True))
    return "#" + "".join(f"{round(part):02x}" for part in mixed)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2), from 0 of black to 1 of white."""
    red, green, blue = ((one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4) for one in _shares(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Return how well two colours are told apart (WCAG 2.2), from 1 to 21; text wants 4.5.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Return black or white, whichever is read more easily on a colour.

    >>> ink_on("#fde725"), ink_on("#440154")
    ('#000000', '#ffffff')
    """
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _shares(colour: str) -> list[float]:
    return [part / 255.0 for part in _parts(colour)]
