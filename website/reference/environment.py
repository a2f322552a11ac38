"""The page of all environment variables: who reads each, which flag it stands for, and where it is explained."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from reference.man import Command
from reference.page import page, prose, table

VARIABLE = re.compile(r"\b(?:MC|MOONCAKE)_[A-Z0-9_]+\b")
LITERAL = re.compile(rf'"({VARIABLE.pattern})"')
ALSO_READ = re.compile(rf"\.? Also read from ({VARIABLE.pattern})")
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*", re.DOTALL | re.MULTILINE)
# Crates that no user runs, files that read no variable, and what a build puts into the programs.
OF_TESTS = ("bench", "chaos", "sim", "testing", "protogen", "device-double", "usrbio-double", "verbs-double")
OF_NOTHING = ("no_effect.rs", "tests.rs")
OF_BUILDS = ("MOONCAKE_COMMIT",)
# Who reads what the files below these folders name, the most special folder first.
READERS = {
    "crates/cli/src/master/": "the master",
    "crates/cli/src/client/": "a node",
    "crates/cli/": "all programs",
    "crates/ha/": "the master",
    "crates/engine/": "transfer engines",
    "crates/http/": "commands",
    "crates/fabric/": "clients and nodes",
    "python/mooncake/vllm/": "`mooncake.vllm`",
    "python/mooncake/http_metadata_server.py": "the metadata server",
    "python/mooncake/mooncake_config.py": "`MooncakeConfig`",
    "python/": "the REST service",
    "crates/": "clients and nodes",
}


def sources(root: Path) -> Iterator[Path]:
    """The files whose variables programs read."""
    for file in sorted([*root.glob("crates/*/src/**/*.rs"), *root.glob("python/mooncake/**/*.py")]):
        parts = file.relative_to(root).parts
        if parts[1] not in OF_TESTS and "tests" not in parts and file.name not in OF_NOTHING:
            yield file


def variables(root: Path) -> dict[str, list[str]]:
    """All variables of the code, each with those who read it."""
    found: dict[str, list[str]] = {}
    for file in sources(root):
        path = file.relative_to(root).as_posix()
        reader = next(name for folder, name in READERS.items() if path.startswith(folder))
        for name in LITERAL.findall(UNIT_TESTS.sub("", file.read_text())):
            readers = found.setdefault(name, [])
            if name not in OF_BUILDS and reader not in readers:
                readers.append(reader)
    return {name: sorted(readers) for name, readers in sorted(found.items()) if name not in OF_BUILDS}


def explained(docs: Path) -> dict[str, str]:
    """The page that explains a variable: the first with a row of a table about it, else the first that names it."""
    in_tables: dict[str, str] = {}
    named: dict[str, str] = {}
    for file in sorted(docs.glob("*.md")):
        for line in file.read_text().splitlines():
            for name in VARIABLE.findall(line):
                named.setdefault(name, file.name)
            for cell in line.split("|")[1:3] if line.startswith("|") else []:
                for name in VARIABLE.findall(cell):
                    in_tables.setdefault(name, file.name)
    return {**named, **in_tables}


def environment(root: Path, commands: dict[str, Command]) -> str:
    flags = {}
    for program in ("mooncake_master", "mooncake_client"):
        for option in (option for options in commands[program].options.values() for option in options):
            for name in ALSO_READ.findall(option.text):
                flags[name] = (option.names.split()[0], ALSO_READ.sub("", option.text))
    pages = explained(root / "docs")
    rows = []
    for name, readers in variables(root).items():
        flag, text = flags.get(name, ("", ""))
        meaning = prose(text) if text else f"[{pages[name]}](../{pages[name]})" if name in pages else ""
        rows.append((f"`{name}`", ", ".join(readers), f"`{flag}`" if flag else "", meaning))
    return page(
        "Environment variables",
        "All variables that the programs and the package read. [Environment](../flags.md#environment) says what those"
        " without a flag mean, and their defaults. Those of the C++ package that change nothing are"
        " [in another list](no_effect.md).",
        table(("variable", "read by", "flag", "meaning"), rows),
    )
