"""The source package: the same bytes from the same commit, for every machine."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(scope="module")
def source() -> Iterator[Any]:
    sys.path.insert(0, str(PACKAGING))
    yield importlib.import_module("source")
    sys.path.remove(str(PACKAGING))


def test_two_packages_of_a_commit_have_the_same_bytes(source: Any, tmp_path: Path) -> None:
    packed = []
    for number in range(2):
        tree = tmp_path / str(number) / "p-1"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin" / "run").write_text("#!/bin/sh\n")
        (tree / "bin" / "run").chmod(0o775 if number else 0o700)
        (tree / "text").write_text("text")
        os.utime(tree / "text", (number, number))
        (tree / "link").symlink_to("text")
        source.pack(tree, tmp_path / f"{number}.tar.gz", 1_700_000_000)
        packed.append((tmp_path / f"{number}.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        found = {entry.name: (entry.mode, entry.uname, entry.mtime) for entry in archive}
    modes = {"p-1/bin": 0o755, "p-1/bin/run": 0o755, "p-1/link": 0o755, "p-1/text": 0o644}
    assert found == {name: (mode, "", 1_700_000_000) for name, mode in modes.items()}


def test_crates_for_windows_stay_as_names_without_code(source: Any, tmp_path: Path) -> None:
    for name in ("windows-sys-1.0.0", "winnow-1.0.0"):
        (tmp_path / name / "src" / "win").mkdir(parents=True)
        (tmp_path / name / "Cargo.toml").write_text(f"[package]\nname = {name!r}\n")
        (tmp_path / name / "src" / "win" / "all.rs").write_text("pub fn all() {}\n")
        (tmp_path / name / ".cargo-checksum.json").write_text('{"files": {"src/win/all.rs": "12"}, "package": "34"}')
    source.empty_windows_crates(tmp_path)
    emptied, kept = tmp_path / "windows-sys-1.0.0", tmp_path / "winnow-1.0.0"
    assert json.loads((emptied / ".cargo-checksum.json").read_text()) == {"files": {}, "package": "34"}
    assert (emptied / "Cargo.toml").read_text().startswith("[package]")
    assert sorted(path.name for path in emptied.rglob("*.rs")) == ["build.rs", "lib.rs"]
    assert (kept / "src" / "win" / "all.rs").exists()
