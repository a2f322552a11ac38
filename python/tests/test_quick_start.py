"""The commands and programs of the README work as pasted. The tests replace only ports, to share a machine."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Process, free_port

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def blocks(language: str, title: str = "Quick start") -> list[str]:
    """The code blocks of the section in this language."""
    section = README.read_text().split(f"## {title}", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def commands_in(shell: str) -> list[str]:
    """The lines of a shell script that are commands, without comments."""
    lines = [re.sub(r"(^|\s+)#.*", "", line) for line in shell.splitlines()]
    return [line for line in lines if line.strip()]


def test_continuous_integration_runs_the_commands_of_the_readme() -> None:
    named = [
        command
        for block in re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
        for command in commands_in(block)
    ]
    # The Makefile installs the package that the tests use, with pip; `test_the_quick_start` starts the programs.
    elsewhere = ["pip install --verbose .", *commands_in("".join(blocks("sh")))]
    run = [command for command in commands_in((ROOT / ".ci/run").read_text()) if command.startswith("make ")]
    assert sorted(named) == sorted(run + elsewhere)
    assert "$(BIN)/python -m pip install --verbose" in (ROOT / "Makefile").read_text()


def test_the_quick_start(tmp_path: Path) -> None:
    rpc_port, http_port = free_port(), free_port()
    ports = {
        "mooncake_master": [f"--rpc_port={rpc_port}", f"--metrics_port={http_port}"],
        "mooncake_client": [f"--master_server_address=127.0.0.1:{rpc_port}"],
    }
    (commands,) = blocks("sh")
    code = "".join(blocks("python"))
    assert "127.0.0.1:50051" in code
    script = tmp_path / "quick_start.py"
    script.write_text(code.replace("127.0.0.1:50051", f"127.0.0.1:{rpc_port}"))
    started: list[Process] = []
    try:
        for line in commands.strip().splitlines():
            command, *arguments = shlex.split(line.removesuffix("&"))
            started.append(Process(command, *arguments, *ports[command]))
        assert [process.command for process in started] == ["mooncake_master", "mooncake_client"]
        node = started[1]
        node.wait_ready(lambda: "ready" in node.output())
        run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
        assert (run.returncode, run.stdout) == (0, ""), run.stderr
    finally:
        codes = [process.stop() for process in reversed(started)]
    assert codes == [0, 0]


def test_a_process_without_a_master(tmp_path: Path) -> None:
    script = tmp_path / "one_process.py"
    script.write_text("".join(blocks("python", "One process, no master")))
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


@pytest.mark.parametrize("command", ["mooncake", "mooncake_master", "mooncake_client"])
def test_every_command_helps(command: str) -> None:
    process = Process(command, "--help")
    assert process.process.wait(20) == 0
    assert "sage: " in process.output()
