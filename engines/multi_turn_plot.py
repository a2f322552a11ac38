"""Draws the figures of the multi-turn benchmark as SVG: `multi_turn_plot.py multi-turn-figures.json OUT.svg`.

Each figure has a panel, with bars for the first turn and for the later turns. Colours suit light and dark pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Panel:
    """One figure: the suffix of its keys, its title with the unit, and a divisor for its values."""

    key: str
    title: str
    divisor: float = 1.0


PANELS = (
    Panel("ttft", "Mean time to first token, s", 1e3),
    Panel("rate", "Throughput, tokens/s"),
    Panel("itl", "Mean time between tokens, ms"),
)
GROUPS = (("first", "first turn"), ("later", "later turns"))
WIDTH, HEIGHT = 840, 290
MARGIN, GAP = 12, 24
PANEL_WIDTH = (WIDTH - 2 * MARGIN - GAP * (len(PANELS) - 1)) / len(PANELS)
TOP, BASE = 86, 246
BAR_SHARE = 0.84
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #3d444d; }
  .title { font-weight: 600; fill: #1f2328; }
  .value { font-size: 11px; text-anchor: middle; }
  .group { text-anchor: middle; }
  .base { stroke: #8c959f; stroke-width: 1; }
  .c0 { fill: #9aa4af; } .c1 { fill: #d4812a; } .c2 { fill: #2a6fdb; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b7bfc8; }
    .title { fill: #e6edf3; }
    .base { stroke: #6e7681; }
    .c0 { fill: #6e7884; } .c1 { fill: #e09b4f; } .c2 { fill: #5b9bf8; }
  }
"""
# A series has the same colour whichever other series are drawn.
COLOURS = {"no pool": "c0", "C++ package": "c1", "this project": "c2"}


def label(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.2g}" if value < 1 else f"{value:.1f}"


def legend(names: Sequence[str]) -> list[str]:
    lines = []
    left = float(MARGIN)
    for name in names:
        lines.append(f'<rect class="{COLOURS[name]}" x="{left:.0f}" y="16" width="12" height="12" rx="2"/>')
        lines.append(f'<text x="{left + 18:.0f}" y="26">{name}</text>')
        left += 40 + 7 * len(name)
    return lines


def bars(panel: Panel, left: float, figures: Mapping[str, Figures]) -> list[str]:
    """The panel whose left edge is at `left`."""
    values = {
        (group, name): each[f"{group}_{panel.key}"] / panel.divisor
        for group, _ in GROUPS
        for name, each in figures.items()
    }
    scale = (BASE - TOP) / max(values.values())
    group_width = PANEL_WIDTH / len(GROUPS)
    width = group_width * BAR_SHARE / len(figures)
    lines = [f'<text class="title" x="{left:.0f}" y="58">{panel.title}</text>']
    for index, (group, title) in enumerate(GROUPS):
        begin = left + index * group_width
        lines.append(f'<text class="group" x="{begin + group_width / 2:.1f}" y="{BASE + 20}">{title}</text>')
        for place, name in enumerate(figures):
            value = values[group, name]
            x = begin + group_width * (1 - BAR_SHARE) / 2 + place * width
            top = BASE - value * scale
            lines.append(
                f'<rect class="{COLOURS[name]}" x="{x:.1f}" y="{top:.1f}" '
                f'width="{width - 3:.1f}" height="{BASE - top:.1f}" rx="2"/>'
            )
            lines.append(f'<text class="value" x="{x + width / 2 - 1.5:.1f}" y="{top - 5:.1f}">{label(value)}</text>')
    lines.append(f'<line class="base" x1="{left:.0f}" y1="{BASE}" x2="{left + PANEL_WIDTH:.0f}" y2="{BASE}"/>')
    return lines


def plot(figures: Mapping[str, Figures]) -> str:
    """The SVG of `{name: figures}`. Draws the names in `COLOURS`."""
    named = {name: figures[name] for name in COLOURS if name in figures}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-label="Multi-turn conversations over two vLLM instances">',
        f"<style>{STYLE}</style>",
        *legend(list(named)),
    ]
    for index, panel in enumerate(PANELS):
        lines += bars(panel, MARGIN + index * (PANEL_WIDTH + GAP), named)
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(plot(json.loads(Path(sys.argv[1]).read_text())["figures"]))


if __name__ == "__main__":
    main()
