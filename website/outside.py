"""Shows files outside of docs/, which the documents link to, under `tree/` of the site.

Links are written as they work in the repository. A link between docs/ and the rest of the tree is rewritten.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
SHOWN = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "engines/requirements.txt",
    "proto/master_service.proto",
)
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[#)])")


def in_repository(uri: str) -> str:
    """The path in the repository of a file of the site."""
    return uri.removeprefix("tree/") if uri.startswith("tree/") else f"docs/{uri}"


def in_site(path: str) -> str:
    """The file of the site that shows this path of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"tree/{path}"


def rewritten(markdown: str, uri: str) -> str:
    """The text of a page of the site, with links as the site needs them."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(uri)), found[1]))
        return posixpath.relpath(in_site(target), posixpath.dirname(uri) or ".")

    return LINK.sub(link, markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in SHOWN:
        files.append(File.generated(config, f"tree/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return rewritten(markdown, page.file.src_uri)
