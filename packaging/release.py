#!/usr/bin/env python3
"""Makes the files of a release in dist/, and checks them: the source package, the wheel out of it, and their checksums.

    .venv/bin/python packaging/release.py            # what `make release` runs: half an hour on two cores

The wheel is built from the unpacked source package, with no network and no crates but those in it. Then it is installed
into an empty environment, where a pool must store an object.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

import backend

ROOT = Path(__file__).resolve().parent.parent
# What it may grow to unnoticed. The goal is 15 MB: docs/performance/python.md says what takes the room.
MAX_WHEEL_BYTES = 17_500_000
STORED = """
import mooncake
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup({"master_server_addr": "local://", "global_segment_size": "64MB"}) == 0
assert store.put("key", b"value") == 0 and store.get("key") == b"value"
store.close()
print(mooncake.__version__, mooncake.__protocol_version__)
"""
COMMANDS = ("mooncake", "mooncake_master", "mooncake_client")


def run(*command: str | Path, **options: object) -> str:
    """Runs a command, whose errors this program shows. Returns what it printed."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def build_wheel(package: Path, folder: Path, profile: str) -> Path:
    """Builds the wheel from the source package alone, in `target/source`, and moves it to `folder`."""
    unpacked = ROOT / "target" / "source"
    unpacked.mkdir(parents=True, exist_ok=True)
    tree = unpacked / package.name.removesuffix(".tar.gz")
    for path in tree.glob("*"):
        # What was compiled for a former package is used again, where it is still right.
        if path.name != "target":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with tarfile.open(package) as archive:
        archive.extractall(unpacked, filter="data")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) / "cargo"
        home.mkdir()
        alone = {**os.environ, "CARGO_HOME": str(home), "CARGO_NET_OFFLINE": "true"}
        # They name another folder, and settings of this machine.
        for name in ("CARGO_TARGET_DIR", "RUSTFLAGS", "MATURIN_PEP517_ARGS"):
            alone.pop(name, None)
        wheels = Path(temporary) / "wheels"
        pip = (sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation")
        settings = f"--config-settings=profile={profile}"
        print(run(*pip, settings, "--wheel-dir", wheels, ".", cwd=tree, env=alone), file=sys.stderr)
        (wheel,) = wheels.glob("*.whl")
        return Path(shutil.move(wheel, folder / wheel.name))


def check(wheel: Path, version: str, commit: str) -> None:
    """Installs the wheel into an empty environment, and uses what it brings. Exits if anything is amiss."""
    with tempfile.TemporaryDirectory() as temporary:
        venv.create(temporary, with_pip=True)
        python = Path(temporary) / "bin" / "python"
        # aiohttp, which the services need that speak HTTP, is left out: the check needs no index.
        run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
        stored = run(python, "-c", STORED, cwd=temporary).split()
        expected = f"mooncake {version} (commit {commit}, protocol {stored[1]})"
        said = run(python.with_name("mooncake"), "--version").strip()
        if stored[0] != version or said != expected:
            sys.exit(f"the wheel says {stored[0]!r} and {said!r}, not {version!r} and {expected!r}")
        for command in COMMANDS:
            run(python.with_name(command), "--help")


def check_size(wheel: Path) -> None:
    """Exits if the wheel is too large."""
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB", file=sys.stderr)
    if size > MAX_WHEEL_BYTES:
        sys.exit(f"the wheel has {size} bytes, and is to have at most {MAX_WHEEL_BYTES}: docs/releasing.md")


def write_checksums(folder: Path) -> None:
    """Writes `SHA256SUMS`, which `sha256sum --check` reads."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="release", help="cargo's profile; others check the steps (release)")
    arguments = parser.parse_args()
    changed = run("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT)
    if changed and arguments.profile == "release":
        sys.exit(f"a release is made from a commit, and these files have changed since:\n{changed}")
    commit = run("git", "rev-parse", "--short=12", "HEAD", cwd=ROOT).strip()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    package = dist / backend.build_sdist(str(dist))
    wheel = build_wheel(package, dist, arguments.profile)
    check(wheel, package.name.removesuffix(".tar.gz").rpartition("-")[2], commit)
    if arguments.profile == "release":
        check_size(wheel)
    write_checksums(dist)
    print(*sorted(path.relative_to(ROOT) for path in dist.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
