"""How every chart looks: colours with one meaning each, hatches and markers beside them, sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferlab.errors import InferlabError

# One unit of the drawing is one pixel at a width of 432. On a phone (360 wide) text of size 12 is
# 10 pixels high.
WIDTH = 432
FONT = 12.0
TITLE = 13.5
LINE = 1.25  # line height, in font sizes
READER_FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

# Beside the colour, so that print and colour-blind readers can tell the meanings apart.
HATCHES = {
    "prefill": "///",
    "decode": "\\\\\\",
    "cache": "---",
    "idle": "",
    "failure": "xxx",
    "neutral": "",
}
NEUTRAL_HATCHES = ("", "||", "++", "xx", "//", "--")  # lines only: dots take 100 KB
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Theme:
    """The colours of one theme; `neutrals` are for series without one of the palette's meanings."""

    name: str
    ink: str
    muted: str
    grid: str
    surface: str  # what the page behind looks like: only edges and hatches are drawn in it
    roles: Mapping[str, str]
    neutrals: tuple[str, ...]


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    color: str
    hatch: str
    marker: str


THEMES = {
    "light": Theme(
        name="light",
        ink="#1F2933",
        muted="#52606D",
        grid="#D9DEE3",
        surface="#FFFFFF",
        roles={
            "prefill": "#0072B2",
            "decode": "#B85C00",
            "cache": "#00795C",
            "idle": "#6B7280",
            "failure": "#B3261E",
        },
        neutrals=("#27323D", "#5B6875", "#83909C"),
    ),
    "dark": Theme(
        name="dark",
        ink="#E6EAEE",
        muted="#B4BDC6",
        grid="#464C58",
        surface="#1E2129",
        roles={
            "prefill": "#56B4E9",
            "decode": "#E69F00",
            "cache": "#2FBF98",
            "idle": "#9CA3AF",
            "failure": "#F2B8B5",
        },
        neutrals=("#CBD3DA", "#8D99A6", "#F1F4F6"),
    ),
}


def theme_of(name: str) -> Theme:
    """The theme of this name; InferlabError for another."""
    if name not in THEMES:
        raise InferlabError(f"unknown chart theme {name!r}; one of {', '.join(THEMES)}")
    return THEMES[name]


def looks(theme: Theme, roles: list[str]) -> list[Look]:
    """One look for each series' role: equal roles share the colour and differ in hatch, marker."""
    found: list[Look] = []
    neutral = 0
    for number, role in enumerate(roles):
        marker = MARKERS[number % len(MARKERS)]
        if role == "neutral":
            color = theme.neutrals[neutral % len(theme.neutrals)]
            found.append(Look(color, NEUTRAL_HATCHES[neutral % len(NEUTRAL_HATCHES)], marker))
            neutral += 1
            continue
        again = roles[:number].count(role)
        hatch = HATCHES[role] if not again else NEUTRAL_HATCHES[again % len(NEUTRAL_HATCHES)]
        found.append(Look(theme.roles[role], hatch, marker))
    return found


def ink_on(color: str) -> str:
    """Black or white, whichever reads better on `color`."""
    red, green, blue = (_linear(int(color[i : i + 2], 16) / 255) for i in (1, 3, 5))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if luminance > 0.18 else "#FFFFFF"


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


def settings() -> Any:
    """Matplotlib's settings for a drawing that is the same bytes wherever it is made."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "inferlab",
        "font.family": ["DejaVu Sans"],  # comes with matplotlib, wider than what readers have
        "font.size": FONT,
        "text.usetex": False,
        "text.parse_math": False,
        "text.hinting": "none",
        "axes.unicode_minus": False,
        "hatch.linewidth": 0.9,
        "path.simplify": True,
        "lines.solid_capstyle": "round",
    }
