"""The units of `deploy/systemd`, as `make install-systemd` installs them.

The programs run as a user without rights in a mount namespace whose files are read-only, as the units would have them.
Their filters of system calls are only checked for their names: nothing here loads them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster import COMMANDS, Process, free_port
from test_manifests import flags_of

ROOT = Path(__file__).resolve().parents[2]
UNITS = ("mooncake-master.service", "mooncake-node.service")
COMMAND_OF = {"mooncake-master.service": "mooncake_master", "mooncake-node.service": "mooncake_client"}
# What systemd calls OK; the programs serve a network, so they cannot come near zero.
MOST_EXPOSED = 2.0
NOBODY = 65534


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for `/`."""
    folder = tmp_path_factory.mktemp("installed")
    make = ["make", "install-systemd", f"DESTDIR={folder}", "PREFIX=/usr", f"COMMANDS={COMMANDS}"]
    for _ in range(2):
        subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    return folder


def unit(installed: Path, name: str) -> Path:
    return installed / "usr/lib/systemd/system" / name


def setting(text: str, name: str) -> str:
    found = re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
    assert len(found) == 1, (name, found)
    return str(found[0])


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_no_fault_and_little_exposure(installed: Path, name: str) -> None:
    analyze = shutil.which("systemd-analyze")
    assert analyze
    path = str(unit(installed, name))
    verified = subprocess.run([analyze, "verify", "--man=no", path], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    security = subprocess.run(
        [analyze, "security", "--offline=yes", "--no-pager", path], capture_output=True, text=True, check=True
    )
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", security.stdout)
    assert level, security.stdout
    assert float(level[1]) <= MOST_EXPOSED, security.stdout


@pytest.mark.parametrize("name", UNITS)
def test_units_leave_time_for_a_drain_and_keep_the_segment_file(installed: Path, name: str) -> None:
    text = unit(installed, name).read_text()
    assert not re.findall("@[A-Z]+@", text)
    # It would remove the files of /dev/shm when the unit stops.
    assert not re.search("^RemoveIPC=", text, re.MULTILINE)
    assert int(setting(text, "TimeoutStopSec")) >= 25
    assert setting(text, "Restart") == "always"
    assert (setting(text, "User"), setting(text, "NoNewPrivileges")) == ("mooncake", "yes")
    accounts = (installed / "usr/lib/sysusers.d/mooncake.conf").read_text()
    assert accounts.startswith("u mooncake ")


@pytest.mark.parametrize("name", UNITS)
def test_units_and_settings_name_only_flags_that_there_are(installed: Path, name: str) -> None:
    command = COMMAND_OF[name]
    known = flags_of([command])
    program, *flags = shlex.split(setting(unit(installed, name).read_text(), "ExecStart"))
    assert program == str(COMMANDS / command)
    assert {re.split("[=]", flag.removeprefix("--"))[0] for flag in flags} <= known
    config = next(flag for flag in flags if flag.startswith("--config_path=")).split("=", 1)[1]
    text = (installed / config.lstrip("/")).read_text()
    # Settings that are commented out are examples: they must be good too.
    shown = re.sub(r"(?m)^# (?=\w+: )", "", text)
    assert set(yaml.safe_load(shown)) <= known


def test_a_second_installation_keeps_the_settings(installed: Path) -> None:
    config = installed / "etc/mooncake/node.yaml"
    config.write_text("master_server_address: m1:50051\n")
    make = ["make", "install-systemd", f"DESTDIR={installed}", "PREFIX=/usr", f"COMMANDS={COMMANDS}"]
    subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    assert config.read_text() == "master_server_address: m1:50051\n"


class Confined(Process):
    """A unit's command, as a user without rights, with all files read-only but its state and memory."""

    def __init__(self, line: str, config: str, folders: dict[str, Path], more: list[str]) -> None:
        program, *flags = shlex.split(line)
        flags = [f"--config_path={config}" if flag.startswith("--config_path=") else flag for flag in flags]
        for path, folder in folders.items():
            flags = [flag.replace(path, str(folder)) for flag in flags]
        keep = "".join(f"mount --bind {folder} {folder} && " for folder in {*folders.values()})
        script = f'{keep}mount -o remount,bind,ro / && exec {shlex.join(self.unprivileged(program))} "$@"'
        super().__init__(shutil.which("unshare") or "unshare", "--mount", "sh", "-c", script, "sh", *flags, *more)

    @staticmethod
    def unprivileged(program: str) -> list[str]:
        ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return ["setpriv", *ids, "--no-new-privs", "--bounding-set=-all", program]


@pytest.fixture
def confined(installed: Path, tmp_path: Path) -> Iterator[tuple[Confined, Confined]]:
    if os.geteuid() != 0:
        pytest.skip("only root can take all rights away from a process")
    # The other user must reach what lies here.
    for folder in [tmp_path, *tmp_path.parents]:
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    state, memory = tmp_path / "state", tmp_path / "memory"
    for folder in (state, memory):
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
    rpc, http, node_http = free_port(), free_port(), free_port()
    (tmp_path / "master.yaml").write_text(
        f"rpc_address: 127.0.0.1\nrpc_port: {rpc}\nmetrics_port: {http}\nclient_ttl: 120\n"
    )
    (tmp_path / "node.yaml").write_text(
        f"master_server_address: 127.0.0.1:{rpc}\nhost: 127.0.0.1\nglobal_segment_size: 32MB\nhttp_port: {node_http}\n"
    )

    def start(name: str, config: str, folders: dict[str, Path]) -> Confined:
        line = setting(unit(installed, name).read_text(), "ExecStart")
        return Confined(line, str(tmp_path / config), folders, [])

    # The node first: it waits for its master.
    node = start(UNITS[1], "node.yaml", {"/dev/shm": memory})
    node.wait_ready(lambda: "no master has taken this client yet" in node.output())
    master = start(UNITS[0], "master.yaml", {"/var/lib/mooncake": state})
    try:
        yield master, node
    finally:
        for process in (node, master):
            process.kill()


def test_units_run_without_rights_and_a_node_that_restarts_has_its_memory(
    confined: tuple[Confined, Confined], tmp_path: Path
) -> None:
    master, node = confined
    node.wait_ready(lambda: "the storage node is ready" in node.output())
    assert node.output().count("no master has taken this client yet") == 1
    assert (tmp_path / "memory" / "mooncake-node").stat().st_uid == NOBODY
    assert list((tmp_path / "state").rglob("members.json"))
    assert (node.stop(), master.stop()) == (0, 0)
    assert (tmp_path / "memory" / "mooncake-node").exists()
