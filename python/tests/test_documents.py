"""The documents: they become a site without a warning, their pages are short, and they name what the code has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import lists
import outside
import pytest
import yaml
from reference import environment

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
VARIABLE = environment.VARIABLE


def test_the_documents_become_a_site_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "website/mkdocs.yml")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run([*command, "--site-dir", tmp_path], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    assert "mkdocs build --strict --config-file website/mkdocs.yml" in (ROOT / "Makefile").read_text()


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[b](index.md#nowhere)\n")
    config = (ROOT / "website/mkdocs.yml").read_text()
    validation = config[config.index("validation:") : config.index("not_in_nav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: A\n{validation}")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(tmp_path / "mkdocs.yml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "does not contain an anchor '#nowhere'" in run.stderr or "there is no such anchor" in run.stderr, run.stderr


def test_the_first_pages_are_those_that_an_operator_needs_first() -> None:
    text = (ROOT / "website/mkdocs.yml").read_text()
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    assert nav[0] == {"Start in five minutes": "index.md"}
    first = [page for entry in nav[1]["Operate"][:5] for page in entry.values()]
    assert first == ["install.md", "one_host.md", "three_masters.md", "kubernetes.md", "on_call.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_page_is_longer_than_300_lines(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= 300


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("- a\n- b\n", "- a\n- b\n"),
        ("Two:\n- a\n- b\n", "Two:\n\n- a\n- b\n"),
        ("- a\n  more\n  - b\n", "- a\n    more\n    - b\n"),
        ("- a\n  - b\n- c\n\ntext\n", "- a\n    - b\n- c\n\ntext\n"),
        ("1. a:\n\n   ```sh\n   b\n     c\n   ```\n2. d\n", "1. a:\n\n    ```sh\n    b\n      c\n    ```\n\n2. d\n"),
        ("- a\nlazy\n\ntext\n- b\n", "- a\n  lazy\n\ntext\n\n- b\n"),
        ("```\n- a\n  - b\n```\n", "```\n- a\n  - b\n```\n"),
        ("- a\n\n  more\n- b\n", "- a\n\n    more\n\n- b\n"),
    ],
)
def test_lists_are_indented_as_the_site_needs_them(written: str, shown: str) -> None:
    assert lists.indented(written) == shown


@pytest.mark.parametrize(
    ("uri", "written", "shown"),
    [
        ("disks.md", "[a](gpu.md#b)", "[a](gpu.md#b)"),
        ("disks.md", "[a](../README.md#b)", "[a](tree/README.md#b)"),
        ("performance/disks.md", "[a](../../proto/a.proto)", "[a](../tree/proto/a.proto)"),
        ("tree/README.md", "[a](docs/disks.md#b) [c](LICENSE)", "[a](../disks.md#b) [c](LICENSE)"),
        ("tree/README.md", "[a](#b) [c](https://host/d)", "[a](#b) [c](https://host/d)"),
        ("index.md", "![a](images/pool.svg)", "![a](images/pool.svg)"),
    ],
)
def test_links_lead_to_the_same_files_in_the_site(uri: str, written: str, shown: str) -> None:
    assert outside.rewritten(written, uri) == shown


def test_every_alert_is_on_the_page_for_people_on_call() -> None:
    (group,) = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yaml").read_text())["groups"]
    page = (DOCS / "on_call.md").read_text()
    names = {rule["alert"] for rule in group["rules"]}
    assert names - set(re.findall(r"`(Mooncake\w+)`", page)) == set()
    assert set(re.findall(r"`(Mooncake[A-Z]\w+)`", page)) - names == set()


def test_every_variable_is_documented_and_every_documented_one_is_read() -> None:
    read = set(environment.variables(ROOT))
    assert len(read) > 60
    text = "".join(page.read_text() for page in PAGES if page.parent.name != "reference")
    named = set(re.findall(rf"`[^`\n]*?({VARIABLE.pattern})", text)) | set(VARIABLE.findall(text))
    prefixes = tuple(re.findall(r"`((?:MC|MOONCAKE)_[A-Z0-9_]+)\*`", text))
    assert {name for name in read - named if not name.startswith(prefixes)} == set()
    flags = (DOCS / "flags.md").read_text()
    table = flags[flags.index("## Environment") :]
    columns = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = {name for column in columns for name in VARIABLE.findall(column) if f"{name}*" not in column}
    assert len(listed) > 40
    assert listed - read == set()
