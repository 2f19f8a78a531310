"""Pictures of the report as SVG: the progress of a search, and the panels of ``autosched.reporting.panels``.

All points or cells of a colour are drawn by a single path, so that a chart of 10,000 trials has only about 20 KiB.
Colours that differ between light and dark mode are CSS classes, which the page defines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup, escape

from autosched.reporting import formatting
from autosched.reporting.panels import Colour, Panel
from measurements.trials.trial import Trial

_WIDTH, _HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 108, 12, 10, 34
_MOST_TEXTS = 160  # maximum number of cells of a panel
_SIDE = 320.0  # length of a panel's longer side in pixels
MOST_CELLS = 16384


def progress(trials: Sequence[Trial]) -> Markup:
    """Draw the times of trials on a logarithmic axis, the best time so far as a line, and failures as marks below."""
    timed = [(i, r.seconds) for i, r in enumerate(trials) if r.seconds is not None]
    if not timed:
        return Markup("")
    low, high = min(s for _, s in timed), max(s for _, s in timed)
    low, high = math.log10(low) - 0.03, math.log10(high) + 0.03
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(trial: int) -> float:
        return _LEFT + across * (trial + 0.5) / len(trials)

    def y(seconds: float) -> float:
        return _TOP + down * (high - math.log10(seconds)) / (high - low)

    dots = dict.fromkeys((round(x(i)), round(y(s))) for i, s in timed)
    failed = dict.fromkeys(round(x(i)) for i, r in enumerate(trials) if r.seconds is None)
    best = math.inf
    line: list[str] = []
    for i, s in timed:
        if s < best:
            line.append(f"{'H' if line else 'M'}{x(i):.1f}{'V' if line else ','}{y(s):.1f}")
            best = s
    line.append(f"H{_WIDTH - _RIGHT}")
    rows = []
    for seconds in _ticks(10**low, 10**high):
        at = f"{y(seconds):.1f}"
        rows.append(f'<path class="grid" d="M{_LEFT},{at}H{_WIDTH - _RIGHT}"/>')
        label = escape(formatting.time(seconds))
        rows.append(f'<text x="{_LEFT - 6}" y="{at}" dy="4" text-anchor="end">{label}</text>')
    failures = len(trials) - len(timed)
    title = f"{formatting.plural(len(trials), 'trial')}, best {formatting.time(best)}, {failures:,} without a time"
    base = _HEIGHT - _BOTTOM
    return Markup(
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(rows)
        + f'<path class="dots" d="{"".join(f"M{a},{b}h0" for a, b in dots)}"/>'
        + f'<path class="failed" d="{"".join(f"M{a},{base + 3}v6" for a in failed)}"/>'
        + f'<path class="best" d="{"".join(line)}"/>'
        + f'<text x="{_LEFT}" y="{_HEIGHT - 8}">trial 1</text>'
        + f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">trial {len(trials):,}</text></svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return ticks at 1, 2 and 5 times powers of ten, or only at powers of ten if there are too many.

    A range that contains no such number gets ticks at its ends.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1,)):
        ticks = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(ticks) <= 8:
            break
    return ticks if len(ticks) > 1 else [low * (high / low) ** part for part in (0.1, 0.5, 0.9)]


def panel(shown: Panel) -> Markup:
    """Draw a panel. Texts that would be illegible are omitted.

    Raises:
        ValueError: The panel has more than MOST_CELLS cells.
    """
    if len(shown.cells) > MOST_CELLS:
        raise ValueError(f"{len(shown.cells):,} cells are too many to be legible")
    rows, columns = shown.shape
    # proportional to the tile, except that the short side has at least a quarter of the long side's length
    ratio = min(4.0, max(0.25, columns / rows))
    width, height = (_SIDE, _SIDE / ratio) if ratio >= 1 else (_SIDE * ratio, _SIDE)
    right, down = width / columns, height / rows
    paths: defaultdict[Colour, list[str]] = defaultdict(list)
    for c in shown.cells:
        wide, tall = f"{c.columns * right:.4g}", f"{c.rows * down:.4g}"
        paths[c.colour].append(f"M{c.column * right:.4g},{c.row * down:.4g}h{wide}v{tall}h-{wide}z")
    parts = [f'<path fill="{_hex(colour)}" d="{"".join(d)}"/>' for colour, d in paths.items()]
    texts = len(shown.cells) <= _MOST_TEXTS
    for c in shown.cells if texts else []:
        lines = c.text.split("\n")
        size = min(11.0, c.columns * right / (0.62 * max(map(len, lines)) + 0.4), c.rows * down / (1.2 * len(lines)))
        if size < 4.5:
            continue
        middle = f"{(c.column + c.columns / 2) * right:.4g}"
        top = (c.row + c.rows / 2) * down - 1.15 * size * (len(lines) - 1) / 2 + 0.35 * size
        for number, line in enumerate(lines):
            at = f'x="{middle}" y="{top + 1.15 * size * number:.4g}" font-size="{size:.3g}"'
            parts.append(f"<text {at}>{escape(line)}</text>")
    label = escape(f"{shown.title}; {shown.subtitle}")
    legend, height = _legend(shown, width, height)
    parts += legend
    frame = f'viewBox="0 0 {width:.4g} {height:.4g}" style="max-width:{width:.4g}px"'
    return Markup(f'<svg class="panel" {frame} role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _legend(shown: Panel, width: float, height: float) -> tuple[list[str], float]:
    """Return the legend below a panel, and the height of panel and legend. Each line has as many entries as fit."""
    parts: list[str] = []
    left, top = 0.0, height + 6
    for colour, label in shown.legend:
        wide = 16 + 0.62 * 10 * len(label) + 8
        if left and left + wide > width:
            left, top = 0.0, top + 15
        parts.append(f'<rect x="{left:.4g}" y="{top:.4g}" width="11" height="11" fill="{_hex(colour)}"/>')
        at = f'x="{left + 15:.4g}" y="{top + 9:.4g}" font-size="10"'
        parts.append(f'<text class="legend" {at}>{escape(label)}</text>')
        left += wide
    return parts, top + 15 if shown.legend else height


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
