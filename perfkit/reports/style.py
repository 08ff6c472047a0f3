"""The house style of figures: one column wide, the Okabe-Ito palette, text that stays text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design" (2008): told apart with every common kind of colour blindness.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED, YELLOW, GREY = "#56B4E9", "#D55E00", "#F0E442", "#8C8C8C"
INK, FAINT, PAPER = "#1C2126", "#C9CED3", "#FFFFFF"
# Behind words that may lie over a line of the grid: they stay readable.
BACKED: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.3, "alpha": 0.8}

COLUMN_WIDTH = 5.2  # inches: text of 8 points stays readable when the figure is set 3.4 inches wide

_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.parse_math": False,  # a kernel's name may hold $
    "svg.fonttype": "none",
    "svg.hashsalt": "perfkit",  # the same figure gives the same bytes
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's settings while a figure is made; what the caller had set comes back afterwards."""
    from matplotlib import style

    with style.context(_RC), warnings.catch_warnings():
        # A name may hold characters that no font here has: a box is drawn, which is no news to the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(height: float, width: float = COLUMN_WIDTH) -> Figure:
    """An empty figure without pyplot: no window system, no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def renderer(figure: Any) -> Any:
    """What measures text in pixels for `figure`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    return canvas.get_renderer()
