"""The source package: the tracked files, and the sources of all crates that they need. It builds without a network."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

VENDORED = """
[source.crates-io]
replace-with = "vendored"

[source.vendored]
directory = "vendor"
"""


def write(root: Path, folder: Path, metadata: str) -> str:
    """Writes the source package of the clone `root` to `folder`, with the metadata of its wheel. Returns its name."""
    fields = dict(line.split(": ", 1) for line in metadata.split("\n\n")[0].splitlines() if ": " in line)
    name = f"{fields['Name'].replace('-', '_')}-{fields['Version']}"
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / name
        for path in git(root, "ls-files", "-z").rstrip("\0").split("\0"):
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, target, follow_symlinks=False)
        vendor(root, tree / "vendor")
        with (tree / ".cargo" / "config.toml").open("a") as config:
            config.write(VENDORED)
        (tree / "PKG-INFO").write_text(metadata)
        (tree / "COMMIT").write_text(git(root, "rev-parse", "--short=12", "HEAD"))
        pack(tree, folder / f"{name}.tar.gz", int(git(root, "log", "-1", "--format=%ct")))
    return f"{name}.tar.gz"


def git(root: Path, *arguments: str) -> str:
    """What git prints in the clone."""
    return subprocess.run(["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def vendor(root: Path, folder: Path) -> None:
    """Copies the sources of all crates of `Cargo.lock`."""
    cargo = ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", folder]
    subprocess.run(cargo, cwd=root, check=True, stdout=subprocess.DEVNULL)
    empty_windows_crates(folder)


def empty_windows_crates(folder: Path) -> None:
    """Takes the code out of the crates for Windows, a third of all bytes: cargo reads their manifests everywhere, and
    compiles them on Windows alone.
    """
    for crate in folder.glob("windows*"):
        checksums = crate / ".cargo-checksum.json"
        package = json.loads(checksums.read_text())["package"]
        manifest = (crate / "Cargo.toml").read_text()
        shutil.rmtree(crate)
        (crate / "src").mkdir(parents=True)
        (crate / "Cargo.toml").write_text(manifest)
        for empty in ("src/lib.rs", "build.rs"):
            (crate / empty).write_text("")
        checksums.write_text(json.dumps({"files": {}, "package": package}))


def pack(tree: Path, target: Path, seconds: int) -> None:
    """Packs the folder. Two packages of one commit have the same bytes: owners and times are those of no machine."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = seconds
        entry.mode = 0o755 if entry.mode & 0o100 or entry.isdir() else 0o644
        return entry

    plainly = io.BytesIO()
    with tarfile.open(fileobj=plainly, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, f"{tree.name}/{path.relative_to(tree)}", recursive=False, filter=plain)
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=seconds) as packed:
        packed.write(plainly.getbuffer())
