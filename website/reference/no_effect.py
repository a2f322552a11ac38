"""The page of settings of the C++ package that are taken without effect, out of crates/client/src/no_effect.rs."""

from __future__ import annotations

import re
from pathlib import Path

from reference.page import page, prose, table

LIST = re.compile(r"(?:pub )?const (\w+): &\[&str\] = &\[(.*?)\];", re.DOTALL)
TEXT = re.compile(r'const (\w+): &str = "(.*?)";')
ROW = re.compile(r'row\(\s*(&\[.*?\]|\w+),\s*("(?:[^"\\]|\\.)*"|\w+),?\s*\)', re.DOTALL)
STRING = re.compile(r'"([^"]+)"')


def rows(source: str) -> list[tuple[list[str], str]]:
    """The names of each row, and what happens instead."""
    lists = {name: STRING.findall(body) for name, body in LIST.findall(source)}
    texts = dict(TEXT.findall(source))
    table_of_rows = source.split("const NO_EFFECT: &[NoEffect] = &[", 1)[1].split("\n];", 1)[0]
    found = []
    for names, instead in ROW.findall(table_of_rows):
        listed = STRING.findall(names) if names.startswith("&") else lists[names]
        found.append((listed, instead.strip('"') if instead.startswith('"') else texts[instead]))
    return found


def no_effect(root: Path) -> str:
    source = (root / "crates/client/src/no_effect.rs").read_text()
    lines = [(", ".join(f"`{name}`" for name in sorted(names)), prose(instead)) for names, instead in rows(source)]
    return page(
        "Settings without effect",
        "Settings of the C++ package that programs take, and that change nothing here: variables, flags, and keys of"
        " `setup`. A program that finds some of them warns once, when it starts, and says what happens instead. A name"
        " that ends in `*` stands for all names that begin so.",
        table(("setting", "what happens instead"), lines),
    )
