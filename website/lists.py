"""Indents lists as Python-Markdown wants it: four columns for each level.

The documents are written as GitHub reads them, where what belongs to an item begins in the column of its text.
"""

from __future__ import annotations

import re
from typing import Any

ITEM = re.compile(r"( *)([-*+]|\d+[.)])( +)\S")
FENCE = re.compile(r" *(```+|~~~+)")
COLUMNS = 4


def indented(markdown: str) -> str:
    """The text with each list indented by four columns a level, and a blank line before each list."""
    lines: list[str] = []
    # The columns of the texts of the items that the line is in.
    columns: list[int] = []
    fence = ""
    before = ""
    # Whether the items have paragraphs of their own: the next item then begins behind a blank line, too.
    are_loose = False
    for line in markdown.splitlines():
        column = len(line) - len(line.lstrip(" "))
        item = None if fence else ITEM.match(line)
        is_first = item and not columns
        is_lazy = bool(before.strip()) and not item and not FENCE.match(line)
        if line.strip() and not fence and not is_lazy:
            while columns and column < columns[-1]:
                columns.pop()
        if is_first:
            are_loose = False
        if item and before.strip() and (is_first or are_loose):
            lines.append("")
        shift = COLUMNS * len(columns) - (columns[-1] if columns else 0)
        lines.append(" " * (column + max(shift, -column)) + line[column:] if line.strip() else "")
        if item:
            columns.append(column + len(item[2]) + len(item[3]))
        if found := FENCE.match(line):
            fence = "" if fence and found[1].startswith(fence) else fence or found[1]
        are_loose = are_loose or bool(columns and not line.strip() and not fence)
        before = line
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return indented(markdown)
