"""Builds the wheel: first the Rust commands, then, with maturin, the extension module and the Python package.

A PEP 517 backend around maturin's. It adds these:

- The native commands are scripts of the wheel, so that `pip install .` puts them on the PATH. Their man pages and
  completions lie in its `share`.
- One stable-ABI module serves every Python from 3.11 on. Python 3.10, whose stable ABI lacks the buffer protocol, gets
  a module of its own.
- `pip wheel` and the like build the source package, too: see `source.py`.
- The wheel's tag is that of the oldest glibc on which the commands run, like `manylinux_2_34`. Maturin checks that the
  module runs there, too, and needs no other library of the system.

`pip install --config-settings=profile=dev .` builds with another cargo profile than `release`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maturin
import source

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "python" / "mooncake_pool.data"
SCRIPTS = DATA / "scripts"
# It is installed as `share` of the environment.
SHARE = DATA / "data" / "share"
# The glibc of `manylinux2014`, the oldest that Rust supports.
OLDEST_MANYLINUX = 17
COMMANDS = ("mooncake", "mooncake_master", "mooncake_client")
# Where each shell looks for the script that completes a command.
COMPLETIONS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable


def prepare_metadata_for_build_wheel(directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Writes only the metadata; builds nothing."""
    prepare()
    return maturin.prepare_metadata_for_build_wheel(directory, config_settings)


def build_wheel(
    directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the commands, and the wheel that contains them."""
    prepare()
    build_commands(use_profile(config_settings))
    use_tag()
    return maturin.build_wheel(directory, config_settings, metadata_directory)


def build_editable(
    directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """As `build_wheel`, but the Python files stay where they are."""
    prepare()
    build_commands(use_profile(config_settings))
    return maturin.build_editable(directory, config_settings, metadata_directory)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Writes the source package. It needs a clone of the repository, and git."""
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        name = maturin.prepare_metadata_for_build_wheel(folder)
        metadata = (Path(folder) / name / "METADATA").read_text()
    return source.write(ROOT, Path(directory), metadata)


def prepare() -> None:
    """Tells maturin the ABI to build for. Makes the scripts folder, and puts the scripts of this Python on the PATH,
    where maturin needs them.
    """
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    arguments = os.environ.get("MATURIN_PEP517_ARGS", "")
    if sys.version_info >= (3, 11) and not free_threaded and "--features" not in arguments:
        os.environ["MATURIN_PEP517_ARGS"] = f"{arguments} --features abi3".strip()
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    # In a source package, which is no clone.
    if (ROOT / "COMMIT").exists():
        os.environ.setdefault("MOONCAKE_COMMIT", (ROOT / "COMMIT").read_text().strip())
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])


def use_profile(config_settings: Mapping[str, Any] | None) -> str:
    """The cargo profile to build with. Passes it to maturin, too."""
    profile = (config_settings or {}).get("profile", "release")
    if not isinstance(profile, str):
        sys.exit(f"the setting 'profile' is given more than once: {profile}")
    arguments = os.environ.get("MATURIN_PEP517_ARGS", "")
    packed = " --compression-level 9" if profile == "release" and "--compression" not in arguments else ""
    os.environ["MATURIN_PEP517_ARGS"] = f"{arguments} --profile {profile}{packed}".strip()
    return profile


def use_tag() -> None:
    """Tells maturin the tag of the wheel, unless the caller does. Without glibc the tag stays maturin's own."""
    arguments = os.environ.get("MATURIN_PEP517_ARGS", "")
    minor = oldest_glibc([SCRIPTS / command for command in COMMANDS])
    if minor is not None and "--compatibility" not in arguments and "--manylinux" not in arguments:
        tag = f"--compatibility manylinux_2_{max(minor, OLDEST_MANYLINUX)}"
        os.environ["MATURIN_PEP517_ARGS"] = f"{arguments} {tag}".strip()


def oldest_glibc(programs: list[Path]) -> int | None:
    """The second number of the oldest glibc 2 that has all versions of symbols that the programs name."""
    named = (match for program in programs for match in re.findall(rb"GLIBC_2\.(\d+)", program.read_bytes()))
    return max(map(int, named), default=None)


def build_commands(profile: str) -> None:
    """Builds the commands, and copies them to the folder from which maturin takes the wheel's scripts."""
    cargo = shutil.which("cargo")
    if cargo is None:
        sys.exit("cargo is not on the PATH: the build needs Rust, see https://rustup.rs")
    # The packages that are named determine their features. Naming both builds their shared code once. For `dev`, the
    # whole workspace with one small test reuses what the Rust tests have built.
    packages = ["--package", "mooncake-cli", "--package", "mooncake-python"]
    if profile == "dev":
        packages = ["--workspace", "--test", "documented_errors"]
    commands = [argument for command in COMMANDS for argument in ("--bin", command)]
    subprocess.run([cargo, "build", "--profile", profile, "--locked", *packages, *commands], cwd=ROOT, check=True)
    # The folder of the profile `dev` is `debug`.
    built = target_directory(cargo) / ("debug" if profile == "dev" else profile)
    shutil.rmtree(SCRIPTS, ignore_errors=True)
    SCRIPTS.mkdir(parents=True)
    for command in COMMANDS:
        shutil.copy2(built / command, SCRIPTS / command)
    write_share(SCRIPTS / "mooncake")


def write_share(mooncake: Path) -> None:
    """Has the command write its man pages and its completions for shells."""
    shutil.rmtree(SHARE, ignore_errors=True)
    subprocess.run([mooncake, "man", SHARE / "man" / "man1"], check=True, stdout=subprocess.DEVNULL)
    for shell, place in COMPLETIONS.items():
        for command in COMMANDS:
            script = SHARE / place.format(command)
            script.parent.mkdir(parents=True, exist_ok=True)
            with script.open("wb") as file:
                subprocess.run([mooncake, "completions", shell, "--program", command], check=True, stdout=file)


def target_directory(cargo: str) -> Path:
    """The folder of cargo's build output."""
    metadata = subprocess.run(
        [cargo, "metadata", "--no-deps", "--format-version=1"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    return Path(json.loads(metadata.stdout)["target_directory"])
