"""Plots as SVG, without libraries: lines on logarithmic axes, and grouped bars. Suits light and dark pages.

Takes values and returns text. `lines` takes panels, each with its own x axis. `bars` takes groups with one bar per
series. Colours follow the order of the series, from a palette for colour-blind readers. Each series of a line plot
also has its own mark.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Point = tuple[float, float]

PANEL_WIDTH, PANEL_HEIGHT = 340, 230
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 62, 26, 30, 44
TITLE_HEIGHT, LEGEND_HEIGHT = 30, 26
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKS = ("circle", "square", "diamond", "triangle")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.panel { font-size: 13px; font-weight: 600; }
.tick { font-size: 11px; fill: #57606a; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.axis { stroke: #57606a; stroke-width: 1; }
.line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .tick { fill: #9da7b3; }
  .grid { stroke: #30363d; }
  .axis { stroke: #8b949e; }
}
"""
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
BINARY = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Panel:
    """One plot: its title, its axes, and the points of each series. Both axes are logarithmic."""

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[Point]]
    # Whether the x values are lengths in bytes.
    x_bytes: bool = False


def number(value: float) -> str:
    """The label of a tick: 2500 becomes 2.5k."""
    for size, prefix in PREFIXES:
        if value >= size:
            return f"{value / size:g}{prefix}"
    return f"{value:g}"


def length(value: float) -> str:
    """The label of a tick in bytes: 65536 becomes 64 KiB."""
    for size, unit in BINARY:
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} B"


def log_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Ticks of a logarithmic axis from low to high: 1, 2 and 5 of each decade, or fewer if there would be too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks: list[float] = []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) <= most:
            break
    return ticks[:: math.ceil(len(ticks) / most)] if ticks else [low]


def value_ticks(values: Sequence[float], most: int) -> list[float]:
    """Ticks of an axis at the values themselves; only at every second or third if there would be too many."""
    distinct = sorted(set(values))
    return distinct[:: math.ceil(len(distinct) / most)]


def log_bounds(values: Sequence[float]) -> Point:
    """The bounds of a logarithmic axis for these values, with a margin, at least a factor of four apart."""
    low, high = min(values), max(values)
    spread = max(1.15, 2 / math.sqrt(high / low))
    return low / spread, high * spread


def log_position(value: float, bounds: Point, start: float, end: float) -> float:
    """The position of a value between start and end, on a logarithmic axis with these bounds."""
    low, high = bounds
    return start + (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) * (end - start)


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn}>{escape(content)}</text>'


def stroke(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def mark(shape: str, x: float, y: float, colour: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="{colour}"/>'
    corners = {
        "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        "diamond": ((0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0)),
        "triangle": ((0, -4), (4, 3.5), (-4, 3.5)),
    }[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}" fill="{colour}"/>'


def colour_of(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def legend(names: Sequence[str], width: float, y: float) -> list[str]:
    """The names of the series in a row, each after its mark in its colour."""
    parts, step = [], min(170.0, (width - 20) / max(1, len(names)))
    for at, name in enumerate(names):
        x = 20 + at * step
        parts += [mark(MARKS[at % len(MARKS)], x, y - 4, colour_of(at)), text(x + 10, y, name)]
    return parts


def document(title: str, names: Sequence[str], width: float, height: float, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
    head += f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
    heading = [f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", text(16, 20, title, "title")]
    return "\n".join([head, *heading, *legend(names, width, TITLE_HEIGHT + 16), *body, "</svg>"]) + "\n"


def panel_lines(panel: Panel, names: Sequence[str], left: float, top: float) -> list[str]:
    """One panel, with its upper left corner at (`left`, `top`)."""
    points = [point for series in panel.series.values() for point in series]
    x_bounds, y_bounds = (log_bounds([point[axis] for point in points]) for axis in (0, 1))
    x0, x1 = left + MARGIN_LEFT, left + PANEL_WIDTH - MARGIN_RIGHT
    y0, y1 = top + PANEL_HEIGHT - MARGIN_BOTTOM, top + MARGIN_TOP
    parts = [text((x0 + x1) / 2, top + 18, panel.title, "panel", "middle")]
    for tick in log_ticks(*y_bounds):
        y = log_position(tick, y_bounds, y0, y1)
        parts += [stroke("grid", x0, y, x1, y), text(x0 - 6, y + 4, number(tick), "tick", "end")]
    xs = [point[0] for point in points]
    for tick in value_ticks(xs, 5 if panel.x_bytes else 6):
        x = log_position(tick, x_bounds, x0, x1)
        label = length(tick) if panel.x_bytes else number(tick)
        parts += [stroke("grid", x, y0, x, y1), text(x, y0 + 15, label, "tick", "middle")]
    parts += [stroke("axis", x0, y0, x1, y0), stroke("axis", x0, y0, x0, y1)]
    parts.append(text((x0 + x1) / 2, y0 + 34, panel.x_label, "", "middle"))
    parts.append(text(left + 14, (y0 + y1) / 2, panel.y_label, "", "middle", turned=True))
    for name, series in panel.series.items():
        at = names.index(name)
        placed = [(log_position(x, x_bounds, x0, x1), log_position(y, y_bounds, y0, y1)) for x, y in sorted(series)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="line" stroke="{colour_of(at)}" points="{path}"/>')
        parts += [mark(MARKS[at % len(MARKS)], x, y, colour_of(at)) for x, y in placed]
    return parts


def lines(title: str, panels: Sequence[Panel], columns: int = 2) -> str:
    """An SVG document of panels in rows. All values must be positive; each panel needs at least one point."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    body, rows = [], math.ceil(len(panels) / columns)
    top = TITLE_HEIGHT + LEGEND_HEIGHT
    for at, panel in enumerate(panels):
        left = at % columns * PANEL_WIDTH
        body += panel_lines(panel, names, left, top + at // columns * PANEL_HEIGHT)
    return document(title, names, min(columns, len(panels)) * PANEL_WIDTH, top + rows * PANEL_HEIGHT + 6, body)


def linear_ticks(high: float, most: int = 6) -> list[float]:
    """Ticks from 0 to at least `high`, at round intervals."""
    step = 10.0 ** math.floor(math.log10(high / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if high / (step * factor) <= most)
    return [step * at for at in range(math.ceil(high / step - 1e-9) + 1)]


def bars(title: str, y_label: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """An SVG document of grouped bars that start at 0. `groups` maps a group's label to the value of each series."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    top = TITLE_HEIGHT + LEGEND_HEIGHT
    width = MARGIN_LEFT + MARGIN_RIGHT + max(PANEL_WIDTH, len(groups) * (34 * len(names) + 24))
    y0, y1 = top + PANEL_HEIGHT - MARGIN_BOTTOM, top + MARGIN_TOP / 2
    ticks = linear_ticks(max(value for values in groups.values() for value in values.values()))
    scale, body = (y0 - y1) / ticks[-1], []
    for tick in ticks:
        y = y0 - tick * scale
        body += [stroke("grid", MARGIN_LEFT, y, width - MARGIN_RIGHT, y)]
        body += [text(MARGIN_LEFT - 6, y + 4, number(tick), "tick", "end")]
    room = (width - MARGIN_LEFT - MARGIN_RIGHT) / len(groups)
    for at, (label, values) in enumerate(groups.items()):
        left, bar = MARGIN_LEFT + at * room + 8, (room - 16) / len(names)
        body.append(text(left + (room - 16) / 2, y0 + 16, label, "tick", "middle"))
        for name, value in values.items():
            x, tall = left + names.index(name) * bar, value * scale
            fill = colour_of(names.index(name))
            body.append(
                f'<rect x="{x + 1:.1f}" y="{y0 - tall:.1f}" width="{bar - 2:.1f}" height="{tall:.1f}" fill="{fill}"/>'
            )
            body.append(text(x + bar / 2, y0 - tall - 4, f"{value:.3g}", "tick", "middle"))
    body.append(stroke("axis", MARGIN_LEFT, y0, width - MARGIN_RIGHT, y0))
    body.append(text(14, (y0 + y1) / 2, y_label, "", "middle", turned=True))
    return document(title, names, width, top + PANEL_HEIGHT - 18, body)
