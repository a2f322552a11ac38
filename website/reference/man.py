"""Reads the man pages that `mooncake man` writes: the commands with their flags, as the programs know them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ESCAPES = {r"\-": "-", r"\(aq": "'", r"\*(Aq": "'", r"\&": "", r"\e": "\\", r"\(bu": "-"}
FONT = re.compile(r"\\f[BIRP]")
# Words of section titles that are names, since a man page writes titles in capitals.
NAMES = {"HTTP", "TLS", "RPC", "KV"}
DEFAULT = re.compile(r" \[default: (.*)\]$")


@dataclass(frozen=True)
class Option:
    """A flag or an argument: `--json`, or `--port PORT`."""

    names: str
    default: str
    text: str


@dataclass
class Command:
    """A program, or a command of `mooncake`."""

    name: str
    summary: str = ""
    description: list[str] = field(default_factory=list)
    # By the title of their section.
    options: dict[str, list[Option]] = field(default_factory=dict)


def plain(text: str) -> str:
    """A line of a man page without its marks."""
    text = FONT.sub("", text)
    for mark, meaning in ESCAPES.items():
        text = text.replace(mark, meaning)
    return text


def sentence(title: str) -> str:
    """A title in capitals, with only its first letter and names as capitals."""
    words = [word if word in NAMES else word.lower() for word in title.strip('"').split()]
    return " ".join([words[0] if words[0] in NAMES else words[0].capitalize(), *words[1:]])


def option(lines: list[str]) -> Option:
    """The lines behind `.TP`: the names, then the meaning, then the values that it may have."""
    names = plain(lines[0])
    default = ""
    if found := DEFAULT.search(names):
        names, default = names[: found.start()], found[1]
    meaning: list[str] = []
    values: list[str] = []
    for line in lines[1:]:
        if line.startswith((".RS", ".RE", ".br", ".IP")) or "Possible values:" in line or not line.strip():
            continue
        text = plain(line)
        is_value = any(mark.startswith(".IP") for mark in lines[1 : lines.index(line)])
        (values if is_value else meaning).append(text)
    text = " ".join(meaning)
    if values:
        shown = [
            f"`{name}` ({about[0].lower()}{about[1:]})" if about else f"`{name}`"
            for name, _, about in (value.partition(": ") for value in values)
        ]
        text = f"{text}: {', '.join(shown)}"
    # A default that the text names, as the pages of `mooncake get` do.
    if not default and (found := DEFAULT.search(text)):
        text, default = text[: found.start()], found[1]
    return Option(names, default, text)


def read(name: str, page: str) -> Command:
    """The command that a man page tells of."""
    command = Command(name)
    for block in re.split(r"^\.SH ", page, flags=re.MULTILINE)[1:]:
        title, _, body = block.partition("\n")
        title = title.strip('"')
        if title == "NAME":
            command.summary = plain(body.split(r" \- ", 1)[1]).strip()
        elif title == "DESCRIPTION":
            command.description = [" ".join(plain(part).split()) for part in body.split("\n.PP\n")]
        elif title not in ("SYNOPSIS", "VERSION", "SUBCOMMANDS"):
            parts = re.split(r"^\.TP\n", body, flags=re.MULTILINE)[1:]
            options = [option(part.splitlines()) for part in parts]
            command.options[sentence(title)] = [it for it in options if not re.match(r"(-h|-V), ", it.names)]
    return command


def commands(programs: Path) -> dict[str, Command]:
    """All commands of the installed programs in this folder, by name, as their man pages tell of them."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([programs / "mooncake", "man", folder], check=True, stdout=subprocess.DEVNULL)
        pages = sorted(Path(folder).glob("*.1"))
        return {path.stem: read(path.stem, path.read_text()) for path in pages}
