"""Charts as SVG, drawn here: a page needs no library, no script and no request to show them.

Every chart is drawn once, as wide as a telephone, and grows with its place on the page up to about
a third. No label is cut: names are wrapped into as many lines as they need, and the figures of an
axis keep their distance. Colours are the page's CSS variables, so that a chart follows the reader's
colour scheme; `standalone` puts the light ones in their place for a file of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from itertools import pairwise
from unicodedata import east_asian_width

from marda.diagnostics.diagnosis import Evidence, Gap, Picture
from marda.diagnostics.intervals import Interval, signed

WIDTH = 380  # of all charts but heat maps, in pixels
SIZE = 12  # of letters
FEW_MARKS = 50  # fewer rows of a domain would be lost among the other's
LINE = 15
MANY = 12  # columns: the map is wide anyway, and names beside it may be
MARGIN = 12  # around a chart in a file of its own
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
PAIR = ("var(--source)", "var(--target)")
DOMAINS = ("source", "target")
STAGES = ("before", "after")
CLASS_COLOURS = [f"var(--c{k})" for k in range(10)]
N_COLOURS = len(CLASS_COLOURS)
OTHER = "other classes"
GREY = CLASS_COLOURS[-1]


@dataclass(frozen=True)
class Drawing:
    """A chart: what stands between the tags of its SVG, and how large it is."""

    inside: str
    width: float
    height: float

    @property
    def svg(self) -> str:
        """The element, for a page that has the colours."""
        w, h = f"{self.width:.0f}", f"{self.height:.0f}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            f'height="{h}" font-family="{FONT}" font-size="{SIZE}">{self.inside}</svg>'
        )


def standalone(drawing: Drawing, name: str) -> str:
    """The chart as a file: the light colours by value, on the page's light background."""
    colours = _light_colours()
    w, h = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    inside = (
        f'<title>{escape(name)}</title><rect width="{w:.0f}" height="{h:.0f}" fill="var(--paper)"/>'
        f'<g transform="translate({MARGIN} {MARGIN})">{drawing.inside}</g>'
    )
    text = Drawing(inside, w, h).svg
    return re.sub(r"var\((--[\w-]+)\)", lambda match: colours[match[1]], text) + "\n"


@cache
def _light_colours() -> dict[str, str]:
    style = resources.files("marda.report").joinpath("style.css").read_text(encoding="utf-8")
    return dict(re.findall(r"(--[\w-]+): (#\w+);", style.partition("}")[0]))


# Text ---------------------------------------------------------------------------------------------

_NARROW, _WIDE = set("ijlI.,:;'|!()[]{} ftr-"), set("mwMW@%")


def text_width(text: str) -> float:
    """About how wide it is drawn, rather too much than too little."""
    total = 0.0
    for letter in text:
        if letter in _NARROW:
            total += 0.41
        elif letter in _WIDE or east_asian_width(letter) in "WF":
            total += 1.02
        else:
            total += 0.76 if letter.isupper() else 0.64
    return total * SIZE


#: Parts of a word that may stand on lines of their own, as in names of columns.
_PARTS = re.compile(r"[^_/.:=|-]*[_/.:=|-]+|[^_/.:=|-]+")


def wrapped(text: str, width: float) -> list[str]:
    """As many lines as it takes.

    A word is broken only where it alone is too wide, and then between its parts, or within a part
    that alone is too wide.
    """
    found, line = [], ""
    for word in text.split() or [text]:
        longer = f"{line} {word}" if line else word
        if text_width(longer) <= width:
            line = longer
            continue
        if line:
            found.append(line)
        line = ""
        for part in _PARTS.findall(word):
            for piece in [part] if text_width(part) <= width else part:
                if line and text_width(line + piece) > width:
                    found.append(line)
                    line = ""
                line += piece
    return [*found, line]


def _unbroken(names: Sequence[str]) -> float:
    """The least width in which no part of a word is broken."""
    parts = [part for name in names for part in _PARTS.findall(name.replace(" ", "-"))]
    return max((text_width(part) for part in parts), default=0.0)


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "--muted") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var({colour})">'
        f"{escape(text)}</text>"
    )


def _block(x: float, middle: float, found: Sequence[str], anchor: str, colour: str) -> str:
    """Lines of text about a height."""
    top = middle - LINE * (len(found) - 1) / 2 + 0.35 * SIZE
    return "".join(_text(x, top + k * LINE, t, anchor, colour) for k, t in enumerate(found))


def _tip(inside: str, *said: str) -> str:
    """Marks with what they say under the pointer."""
    return f"<g><title>{escape(' · '.join(said))}</title>{inside}</g>"


def _legend(
    names: Sequence[str], colours: Sequence[str], shapes: Sequence[str] = ()
) -> tuple[str, float]:
    """What colours and shapes stand for, in as many rows as it takes; and how high it is."""
    parts, x, y = [], 0.0, 10.0
    for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
        told = wrapped(name, WIDTH - 30)
        wide = 16 + max(text_width(t) for t in told) + 14
        if x and x + wide > WIDTH:
            x, y = 0.0, y + LINE + 3
        shape = shapes[k] if shapes else "square"
        parts.append(f'<g fill="{colour}">{_mark(shape, x + 6, y, 5)}</g>')
        parts += [_text(x + 16, y + 4 + j * LINE, t, "start", "--ink") for j, t in enumerate(told)]
        x += wide
        y += LINE * (len(told) - 1)
    return "".join(parts), y + 14


def _mark(shape: str, x: float, y: float, r: float) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.3g}"/>'
    if shape == "triangle":
        return f'<path d="m{x:.1f} {y - r:.1f}l{r:.3g} {2 * r:.3g}h{-2 * r:.3g}z"/>'
    if shape == "diamond":
        r *= 1.25
        a, b = f"{r:.3g}", f"{-r:.3g}"
        return f'<path d="m{x:.1f} {y - r:.1f}l{a} {a}l{b} {a}l{b} {b}z"/>'
    return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.3g}" height="{2 * r:.3g}"/>'


SHAPES = ("circle", "triangle", "diamond", "square")

# Axes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, v = (
            (math.log(self.low), math.log(self.high), math.log(value))
            if self.log
            else (self.low, self.high, value)
        )
        return self.start + (self.end - self.start) * (v - low) / ((high - low) or 1.0)


def _nice(low: float, high: float, most: int) -> list[float]:
    """Round values that hold the range; at most about as many."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(m for m in (1, 2, 5, 10, 20) if (high - low) / (m * step) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, last + 1)]


def _form(value: float, form: str) -> str:
    """A figure as it stands at an axis, with a real minus."""
    if form == "g":
        return f"{value:.6g}".replace("-", "−")
    return signed(value, form) if form.startswith("+") else f"{value:{form}}".replace("-", "−")


def _across(
    ticks: Sequence[float], scale: _Scale, top: float, bottom: float, form: str, title: str
) -> tuple[str, float]:
    """Grid lines, figures and the name of the axis below; and where it ends."""
    told = [_form(t, form) for t in ticks]
    widest = max(text_width(t) for t in told) + 8
    room = abs(scale.end - scale.start) / max(1, len(ticks) - 1)
    every = max(1, math.ceil(widest / max(room, 1)))
    # Where not every line has its figure, the line at zero has.
    start = next((k for k, tick in enumerate(ticks) if abs(tick) < 1e-12), 0) % every
    parts = []
    for k, (tick, figure) in enumerate(zip(ticks, told, strict=True)):
        x = scale(tick)
        parts.append(
            f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="var(--line)" fill="none"/>'
        )
        if k % every == start:
            # At the edge of the drawing a figure stands beside its line rather than outside.
            half = text_width(figure) / 2
            at = min(max(x, half), WIDTH - half)
            parts.append(_text(at, bottom + 16, figure, "middle"))
    end = bottom + 20
    middle = (scale.start + scale.end) / 2
    for line in wrapped(title, WIDTH):
        end += LINE
        half = text_width(line) / 2
        parts.append(_text(min(max(middle, half), WIDTH - half), end, line, "middle"))
    return "".join(parts), end + 6


def _names(names: Sequence[str], *, most: float = 0.42) -> tuple[list[list[str]], float]:
    """Names beside their rows, wrapped; and how much room they take."""
    widest = max((text_width(n) for n in names), default=0.0)
    limit = min(widest, most * WIDTH)
    told = [wrapped(n, limit) for n in names]
    return told, max((text_width(t) for found in told for t in found), default=0.0) + 10


def _heights(told: Sequence[Sequence[str]], least: float) -> list[float]:
    return [max(least, LINE * len(found) + 8) for found in told]


def _ruled(colour: str, width: float, x1: float, x2: float, y: float, opacity: float = 1) -> str:
    return (
        f'<path d="M{x1:.1f} {y:.1f}H{x2:.1f}" stroke="{colour}" stroke-width="{width:g}" '
        f'opacity="{opacity:g}" fill="none"/>'
    )


# Figures ------------------------------------------------------------------------------------------


def gain_colour(low: float, high: float) -> str:
    """Of a gain whose interval is known: above zero, below it, or neither."""
    return "var(--good)" if low > 0 else "var(--bad)" if high < 0 else "var(--muted)"


def intervals(
    rows: Sequence[tuple[str, Interval]],
    axis: str,
    *,
    zero: bool = True,
    form: str = ".2f",
    low: float | None = None,
    high: float | None = None,
    gains: bool = False,
) -> Drawing:
    """A dot, its 95% interval and its figure per line; gains and losses differ in colour."""
    told, left = _names([n for n, _ in rows])
    figures = [_form(v.value, form) for _, v in rows]
    right = WIDTH - max(text_width(f) for f in figures) - 10
    ends = [v.low for _, v in rows] + [v.high for _, v in rows] + ([0.0] if zero or gains else [])
    ticks = _nice(min(ends) if low is None else low, max(ends) if high is None else high, 5)
    scale = _Scale(ticks[0], ticks[-1], left + 6, right - 6)
    heights = _heights(told, 30)
    bottom = sum(heights) + 4
    shown, end = _across(ticks, scale, 0, bottom, _axis_form(ticks, form), axis)
    parts = [shown]
    if gains:
        parts.append(_zero(scale, 0, bottom))
    y = 0.0
    for (name, v), found, figure, high_ in zip(rows, told, figures, heights, strict=True):
        middle = y + high_ / 2
        colour = gain_colour(v.low, v.high) if gains else "var(--accent)"
        marks = _ruled(colour, 4, scale(v.low), scale(v.high), middle, 0.5)
        marks += f'<g fill="{colour}">{_mark("circle", scale(v.value), middle, 5)}</g>'
        said = f"{axis}: {figure}, from {_form(v.low, form)} to {_form(v.high, form)}"
        parts.append(_tip(marks, name, said))
        parts.append(_block(left - 8, middle, found, "end", "--ink"))
        parts.append(_block(WIDTH, middle, [figure], "end", "--ink"))
        y += high_
    return Drawing("".join(parts), WIDTH, end)


def _axis_form(ticks: Sequence[float], form: str) -> str:
    """No more digits than tell the ticks apart."""
    if form.endswith("%"):
        return ".0%" if len({f"{t:.0%}" for t in ticks}) == len(ticks) else form
    plain = all(float(t).is_integer() for t in ticks)
    sign = "+" if form.startswith("+") else ""
    return f"{sign}.0f" if plain else f"{sign}.2f" if form.endswith("2f") else f"{sign}.1f"


def heat_map(
    rows: Sequence[tuple[str, str, float, str]],
    *,
    across: str,
    down: str,
    value: str,
    bottom: float | None = None,
    labels: bool = True,
    order: Sequence[str] | None = None,
    cell: int = 34,
    signs: bool = False,
) -> Drawing:
    """Cells ``(down, across, value, text)`` shaded by value; ``order`` is that of the columns.

    With ``signs``, losses have another colour than gains. Where words of the columns would have to
    be broken, and rows have the same names, columns have the numbers of the rows.
    """
    columns = list(order or dict.fromkeys(a for _, a, _, _ in rows))
    lines_down = list(dict.fromkeys(d for d, *_ in rows))
    sizes = [abs(v) if signs else v for _, _, v, _ in rows]
    low = min(sizes) if bottom is None else bottom
    top = max(*sizes, 1.1 * low)  # a point in a hundred is no gulf
    top = top if top > low else low + 1
    texts = max((text_width(t) for *_, t in rows), default=0.0) + 8 if labels else 0
    wide = max(cell, texts, 46 if labels else 14)
    # A few columns have room for whole words.
    room = max(wide - 6, min(130, _unbroken(columns)) if len(columns) <= 4 else 54)
    numbered = columns == lines_down and _unbroken(columns) > room
    named = [f"{k} {n}" for k, n in enumerate(lines_down, 1)] if numbered else lines_down
    told, left = _names(named, most=0.6 if len(columns) > MANY else 0.36)
    heads = [[str(k)] if numbered else wrapped(c, room) for k, c in enumerate(columns, 1)]
    wide = max(wide, *(text_width(t) + 6 for found in heads for t in found))
    head = LINE * max(len(found) for found in heads) + 8
    over = LINE + 4 if across else 0
    left = max(left, text_width(f"{down} ↓") + 10)
    over_them = f"{across}, by number →" if numbered else f"{across} →"
    parts = [_text(left, SIZE, over_them), _text(0, over + head - 8, f"{down} ↓")]
    for k, found in enumerate(heads):
        x = left + (k + 0.5) * wide
        start = over + head - 8 - LINE * (len(found) - 1)
        parts += [_text(x, start + j * LINE, t, "middle", "--ink") for j, t in enumerate(found)]
    heights = dict(zip(lines_down, _heights(told, cell), strict=True))
    y, tops = float(over + head), {}
    for name, found in zip(lines_down, told, strict=True):
        tops[name] = y
        parts.append(_block(left - 8, y + heights[name] / 2, found, "end", "--ink"))
        y += heights[name]
    for d, a, v, t in rows:
        x, high = left + columns.index(a) * wide, heights[d]
        shade = 0.04 + 0.5 * (min(max(abs(v) if signs else v, low), top) - low) / (top - low)
        colour = ("var(--bad)" if v < 0 else "var(--good)") if signs else "var(--accent)"
        marks = (
            f'<rect x="{x + 1:.1f}" y="{tops[d] + 1:.1f}" width="{wide - 2:.1f}" '
            f'height="{high - 2:.1f}" rx="3" fill="{colour}" opacity="{shade:.3f}"/>'
        )
        if labels:
            marks += _block(x + wide / 2, tops[d] + high / 2, [t], "middle", "--ink")
        parts.append(_tip(marks, f"{down}: {d}", f"{across}: {a}", f"{value}: {t}"))
    return Drawing("".join(parts), max(left + wide * len(columns), left + 120) + 2, y + 4)


def lines(values: Sequence[float], *, across: str, up: str) -> Drawing:
    """A curve over steps from 1; on a logarithmic scale if it falls far."""
    far = min(values) > 0 and max(values) > 20 * min(values)
    if far:
        ends = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        ups = [10.0**k for k in range(ends[0], ends[1] + 1)]
    else:
        ups = _nice(min(values), max(values), 4)
    told = [_form(u, "g") for u in ups]
    left = max(text_width(t) for t in told) + 12
    high, top = 190.0, 30.0
    y_scale = _Scale(ups[0], ups[-1], top + high, top, log=far)
    x_scale = _Scale(1, max(2, len(values)), left + 6, WIDTH - 8)
    steps = [t for t in _nice(1, len(values), 6) if 1 <= t <= len(values) and t == int(t)]
    shown, end = _across(steps or [1.0], x_scale, top, top + high, ".0f", across)
    parts = [_text(0, SIZE, up), shown]
    for u, figure in zip(ups, told, strict=True):
        parts.append(_ruled("var(--line)", 1, left, WIDTH, y_scale(u)))
        parts.append(_block(left - 8, y_scale(u), [figure], "end", "--muted"))
    places = [(x_scale(k), y_scale(v)) for k, v in enumerate(values, start=1)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts.append(f'<path d="M{path}" stroke="var(--accent)" stroke-width="2" fill="none"/>')
    for k, ((x, y), v) in enumerate(zip(places, values, strict=True), start=1):
        dot = f'<g fill="var(--accent)">{_mark("circle", x, y, 3.5)}</g>'
        parts.append(_tip(dot, f"{across} {k}", f"{up} {_form(v, 'g')}"))
    return Drawing("".join(parts), WIDTH, end)


def bars(rows: Sequence[tuple[str, str, float]], *, axis: str, form: str, tip: str) -> Drawing:
    """Bars ``(name, group, value)``, one colour per group; groups stand beside each other."""
    groups = list(dict.fromkeys(g for _, g, _ in rows))
    names = list(dict.fromkeys(n for n, _, _ in rows))
    legend, top = _legend(groups, PAIR[: len(groups)]) if len(groups) > 1 else ("", 0.0)
    told, left = _names(names)
    ticks = _nice(0.0, max(v for *_, v in rows), 5)
    scale = _Scale(ticks[0], ticks[-1], left, WIDTH - 12)
    heights = _heights(told, 18 * len(groups) + 8)
    bottom = top + sum(heights)
    shown, end = _across(ticks, scale, top, bottom, form, axis)
    parts, y = [legend, shown], top
    values = {(n, g): v for n, g, v in rows}
    for name, found, high in zip(names, told, heights, strict=True):
        start = y + (high - 16 * len(groups)) / 2
        for k, group in enumerate(groups):
            value = values.get((name, group))
            if value is None:
                continue
            colour = PAIR[k] if len(groups) > 1 else "var(--accent)"
            bar = (
                f'<rect x="{left:.1f}" y="{start + 16 * k + 1:.1f}" height="14" rx="2" '
                f'width="{max(1.0, scale(value) - left):.1f}" fill="{colour}"/>'
            )
            parts.append(_tip(bar, *(t for t in (name, group) if t), _form(value, tip)))
        parts.append(_block(left - 8, y + high / 2, found, "end", "--ink"))
        y += high
    return Drawing("".join(parts), WIDTH, end)


def paper_against_ours(rows: Sequence[tuple[str, str, float, float]]) -> Drawing:
    """Points ``(block, name, paper, ours)`` about the line on which both are equal."""
    blocks = list(dict.fromkeys(b for b, *_ in rows))
    shapes = [SHAPES[k % len(SHAPES)] for k in range(len(blocks))]
    colours = [CLASS_COLOURS[k % N_COLOURS] for k in range(len(blocks))]
    legend, top = _legend(blocks, colours, shapes)
    values = [v for *_, p, o in rows for v in (p, o)]
    ticks = _nice(min(values), max(values), 6)
    left = max(text_width(_form(t, ".0f")) for t in ticks) + 12
    top += LINE + 12
    x_scale = _Scale(ticks[0], ticks[-1], left, WIDTH - 8)
    y_scale = _Scale(ticks[0], ticks[-1], top + WIDTH - 8 - left, top)
    shown, end = _across(ticks, x_scale, top, y_scale.start, ".0f", "paper, accuracy in percent")
    parts = [legend, _text(0, top - 14, "ours, accuracy in percent"), shown]
    for t in ticks:
        parts.append(_ruled("var(--line)", 1, left, WIDTH - 8, y_scale(t)))
        parts.append(_block(left - 8, y_scale(t), [_form(t, ".0f")], "end", "--muted"))
    parts.append(
        f'<path d="M{left:.1f} {y_scale.start:.1f}L{WIDTH - 8} {top:.1f}" '
        'stroke="var(--line-strong)" stroke-dasharray="4 4" fill="none"/>'
    )
    for b, n, p, o in rows:
        at = blocks.index(b)
        mark = _mark(shapes[at], x_scale(p), y_scale(o), 4)
        said = f"paper {p:.1f}", f"ours {o:.1f}", f"ours − paper {signed(o - p)}"
        parts.append(_tip(f'<g fill="{colours[at]}" opacity=".75">{mark}</g>', b, n, *said))
    return Drawing("".join(parts), WIDTH, end)


# One classifier -----------------------------------------------------------------------------------


def scatter(evidence: Evidence, picture: Picture, by: str) -> Drawing:
    """Both domains in two dimensions; ``by`` is "domain" or "class"."""
    groups = _grouped(evidence)
    names, colours = (list(DOMAINS), list(PAIR)) if by == "domain" else _palette(groups)
    shapes = ["circle", "triangle"] if by == "domain" else []
    legend, top = _legend(names, colours, shapes) if len(names) > 1 else ("", 4.0)
    high = 290.0
    spans = []
    for k, (start, end) in enumerate(((8.0, WIDTH - 8.0), (top + high - 8, top + 8))):
        at = picture.places[:, k]
        spans.append(_Scale(float(at.min()), float(at.max()), start, end))
    marks: dict[tuple[int, int], list[str]] = {}
    n_target = int(evidence.target.sum())
    counts = len(evidence.target) - n_target, n_target
    sizes = [5.0 if n < FEW_MARKS else 2.6 for n in counts]
    for (x, y), target, code in zip(
        picture.places.tolist(), evidence.target.tolist(), evidence.codes.tolist(), strict=True
    ):
        # Shape tells the domains apart without colour.
        shape = "triangle" if target else "circle"
        marks.setdefault((int(target), code), []).append(
            _mark(shape, spans[0](x), spans[1](y), sizes[int(target)])
        )
    parts = [
        legend,
        f'<rect x=".5" y="{top:.1f}" width="{WIDTH - 1}" height="{high:.0f}" fill="none" '
        'stroke="var(--line)"/>',
    ]
    for (target, code), found in sorted(marks.items()):
        domain, label = DOMAINS[target], evidence.classes[code]
        colour = colours[names.index(domain if by == "domain" else groups[code])]
        said = f"{'class' if not target else 'predicted class'} {label}"
        parts.append(_tip(f'<g fill="{colour}" opacity=".65">{"".join(found)}</g>', domain, said))
    end = top + high + 2
    for k, share in enumerate(picture.share, start=1):
        end += LINE
        way = "across" if k == 1 else "up"
        parts.append(_text(WIDTH / 2, end, f"{way}: {share:.0%} of the variation", "middle"))
    return Drawing("".join(parts), WIDTH, end + 6)


def _grouped(evidence: Evidence) -> list[str]:
    """Names by code; beyond ten colours the rare classes share one."""
    if len(evidence.classes) <= N_COLOURS:
        return list(evidence.classes)
    counts = [int((evidence.codes == k).sum()) for k in range(len(evidence.classes))]
    often = sorted(range(len(counts)), key=lambda k: -counts[k])[: N_COLOURS - 1]
    return [name if k in often else OTHER for k, name in enumerate(evidence.classes)]


def _palette(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Classes and their colours; what is left of them comes last and is grey."""
    shown = [name for name in dict.fromkeys(names) if name != OTHER]
    colours = CLASS_COLOURS[: len(shown)]
    return (shown, colours) if OTHER not in names else ([*shown, OTHER], [*colours, GREY])


def gaps(features: Sequence[Gap], *, moved: bool = True) -> Drawing:
    """How far the domains are apart in single features, before and, where it differs, after."""
    n = 1 + moved
    stages = STAGES[:n]
    colours, shapes = ("var(--before)", "var(--accent)")[:n], ("diamond", "circle")[:n]
    legend, top = _legend(stages, colours, shapes) if moved else ("", 0.0)
    told, left = _names([g.feature for g in features])
    values = [[g.before, g.after][:n] for g in features]
    ends = [v for pair in values for v in pair]
    ticks = _nice(min(0.0, *ends), max(0.0, *ends), 5)
    scale = _Scale(ticks[0], ticks[-1], left + 6, WIDTH - 12)
    heights = _heights(told, 26)
    bottom = top + sum(heights)
    title = "target − source, in standard deviations"
    shown, end = _across(ticks, scale, top, bottom, "g", title)
    parts, y = [legend, shown, _zero(scale, top, bottom)], top
    for gap, pair, found, high in zip(features, values, told, heights, strict=True):
        middle = y + high / 2
        places = [scale(v) for v in pair]
        parts.append(_ruled("var(--line-strong)", 2, min(places), max(places), middle))
        for stage, v, x, colour, shape in zip(stages, pair, places, colours, shapes, strict=True):
            mark = f'<g fill="{colour}">{_mark(shape, x, middle, 5)}</g>'
            said = f"{stage}: target − source" if moved else "target − source"
            parts.append(_tip(mark, gap.feature, f"{said} {signed(v, '+.2f')}"))
        parts.append(_block(left - 8, middle, found, "end", "--ink"))
        y += high
    return Drawing("".join(parts), WIDTH, end)


def _zero(scale: _Scale, top: float, bottom: float) -> str:
    """The line on which nothing differs."""
    at = f"M{scale(0):.1f} {top:.1f}V{bottom:.1f}"
    return f'<path d="{at}" stroke="var(--line-strong)" stroke-width="1.5" fill="none"/>'


def histogram(evidence: Evidence) -> Drawing:
    """Target rows by the probability of their predicted class."""
    groups = _grouped(evidence)
    names, colours = _palette(groups)
    legend, top = _legend(names, colours) if len(names) > 1 else ("", 0.0)
    edges = evidence.edges.tolist()
    total = evidence.confidence.sum(0).tolist()
    ups = [u for u in _nice(0.0, max(1, *total), 4) if u == int(u)]
    told = [f"{u:,.0f}" for u in ups]
    left = max(text_width(t) for t in told) + 12
    top += LINE + 12
    x_scale = _Scale(0.0, 1.0, left, WIDTH - 16)
    y_scale = _Scale(0.0, ups[-1], top + 190, top)
    ticks = [k / 5 for k in range(6)]
    shown, end = _across(
        ticks,
        x_scale,
        y_scale.start,
        y_scale.start + 4,
        ".0%",
        "probability of the predicted class",
    )
    parts = [legend, _text(0, top - 14, "target rows"), shown]
    for u, figure in zip(ups, told, strict=True):
        parts.append(_ruled("var(--line)", 1, left, WIDTH - 16, y_scale(u)))
        parts.append(_block(left - 8, y_scale(u), [figure], "end", "--muted"))
    for k, (low, high) in enumerate(pairwise(edges)):
        below = 0
        for name, colour in zip(names, colours, strict=True):
            n = sum(
                int(line[k])
                for group, line in zip(groups, evidence.confidence.tolist(), strict=True)
                if group == name
            )
            if n:
                bar = (
                    f'<rect x="{x_scale(low) + 0.5:.1f}" y="{y_scale(below + n):.1f}" '
                    f'width="{x_scale(high) - x_scale(low) - 1:.1f}" '
                    f'height="{y_scale(below) - y_scale(below + n):.1f}" fill="{colour}"/>'
                )
                said = f"{low:.0%} to {high:.0%}", f"{n:,} row{'' if n == 1 else 's'}"
                parts.append(_tip(bar, f"predicted {name}", *said))
                below += n
    return Drawing("".join(parts), WIDTH, end)
