"""What the pages of the reference are made of: a head that says so, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

HEAD = "<!-- Made from the code by `make reference`: a test compares them. -->"
# What is code in running text: flags, variables, and texts that Markdown would take for something else.
CODE = re.compile(
    r"`[^`]*`|(?<![\w/])--[a-z][\w-]*(?:=[\w.:/-]+)?"
    r"|\b(?:MC|MOONCAKE|AWS|DYN)_[A-Z0-9_]+\*?|<[A-Z_:]+>|\bPOD_NAME(?:SPACE)?\b"
)


def prose(text: str) -> str:
    """Running text of the code as Markdown: flags and variables are marked as code."""
    marked = CODE.sub(lambda found: found[0] if found[0].startswith("`") else f"`{found[0]}`", text)
    parts = re.split(r"(`[^`]*`)", marked)
    return "".join(part if part.startswith("`") else part.replace("*", r"\*").replace("<", "&lt;") for part in parts)


def cell(text: str) -> str:
    """The text of a cell: one line, in which a bar is no border."""
    return " ".join(text.split()).replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(cell(text) for text in row) + " |")
    return "\n".join(lines)


def page(title: str, *parts: str) -> str:
    """A whole page. Parts are paragraphs, headings and tables."""
    return "\n\n".join([HEAD, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"
