"""The commands and programs of the first pages work as they stand there. Tests replace addresses and ports alone."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import COMMANDS, STATE_HOME, Process, free_port, wait_until
from servers import Etcd

DOCS = Path(__file__).resolve().parents[2] / "docs"
PATH = f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"


def blocks(page: str, language: str, title: str) -> list[str]:
    """The blocks of code of a section in this language, without the columns by which a list indents them."""
    section = (DOCS / page).read_text().split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(rf"(?m)^( *)```{language}\n(.*?)^ *```", section, re.DOTALL)
    return [re.sub(rf"(?m)^{indent}", "", text) for indent, text in found]


def commands_in(shell: str) -> list[list[str]]:
    """The commands of a block: their words."""
    lines = shell.replace("\\\n", " ").splitlines()
    return [shlex.split(line.removesuffix("&"), comments=True) for line in lines if line.strip()]


def replaced(text: str, **by: str) -> str:
    """The text with its addresses replaced. Each must be in it."""
    for old, new in by.items():
        assert old in text, f"{old} is not in {text}"
        text = text.replace(old, new)
    return text


def run(program: str, *arguments: str, env: dict[str, str] | None = None, folder: Path | None = None) -> str:
    """What a program prints that ends with status 0."""
    environment = {**os.environ, "PATH": PATH, "XDG_STATE_HOME": STATE_HOME.name, **(env or {})}
    done = subprocess.run(
        [program, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def is_like(line: str, expected: str) -> bool:
    """Whether a line is as the page shows it: `...` stands for any text, and blanks for any number of them."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split("...")]
    return re.fullmatch(".*".join(parts), " ".join(line.split())) is not None


def run_examples(console: str, env: dict[str, str], folder: Path) -> None:
    """Runs what stands behind each `$`, and compares what it prints with the lines below."""
    for example in console.split("$ ")[1:]:
        command, _, expected = example.partition("\n")
        shown = run("bash", "-c", command, env=env, folder=folder).splitlines()
        wanted = expected.splitlines()
        assert len(shown) == len(wanted), f"{command}: {shown}"
        assert all(is_like(*pair) for pair in zip(shown, wanted, strict=True)), f"{command}: {shown}"


def run_python(code: str, folder: Path, env: dict[str, str] | None = None) -> None:
    """Runs a program, which must print nothing."""
    script = folder / "program.py"
    script.write_text(code)
    assert run(sys.executable, str(script), env=env) == ""


@contextmanager
def started() -> Iterator[list[Process]]:
    """Processes that are stopped at the end, the last one first. None has ended before."""
    processes: list[Process] = []
    try:
        yield processes
        assert [it.process.poll() for it in processes] == [None] * len(processes)
    finally:
        for process in reversed(processes):
            process.stop()


def test_install(tmp_path: Path) -> None:
    (code,) = blocks("install.md", "python", "Does it work?")
    run_python(code, tmp_path)
    (console,) = blocks("install.md", "console", "Does it work?")
    run_examples(console, {}, tmp_path)


def test_one_host_without_a_server(tmp_path: Path) -> None:
    (code,) = blocks("one_host.md", "python", "No server")
    run_python(replaced(code, **{"/dev/shm/my-pool": str(tmp_path / "pool")}), tmp_path)


def test_one_host_with_a_master_and_a_node(tmp_path: Path) -> None:
    rpc, http = free_port(), free_port()
    ports = {
        "mooncake_master": [f"--rpc_port={rpc}", f"--metrics_port={http}"],
        "mooncake_client": [f"--master_server_address=127.0.0.1:{rpc}", "--port=0"],
    }
    start, status = blocks("one_host.md", "sh", "A master and a node")
    (console,) = blocks("one_host.md", "console", "A master and a node")
    (code,) = blocks("one_host.md", "python", "A master and a node")
    pool = {"MOONCAKE_MASTER": f"127.0.0.1:{rpc}", "MOONCAKE_MASTER_HTTP": f"127.0.0.1:{http}"}
    with started() as processes:
        for command, *arguments in commands_in(start):
            processes.append(Process(command, *arguments, *ports[command]))
        node = processes[-1]
        node.wait_ready(lambda: "the storage node is ready" in node.output())
        run_examples(console, pool, tmp_path)
        run_python(replaced(code, **{"127.0.0.1:50051": f"127.0.0.1:{rpc}"}), tmp_path)
        assert "leader" in run("bash", "-c", status, env=pool)


def test_three_masters_and_the_death_of_the_leader(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    admin = [free_port() for _ in range(3)]
    _, master_line, node_line = blocks("three_masters.md", "sh", "Three masters and ten nodes")
    (status_line,) = blocks("three_masters.md", "sh", "Try it")
    with Etcd() as etcd, started() as processes:
        of_etcd = {"e1:2379;e2:2379;e3:2379": f"127.0.0.1:{etcd.port}"}
        here = {**of_etcd, "/etc/mooncake/token": str(token)}
        ((master, *flags),) = commands_in(replaced(master_line, **here, **{"=m1": "=127.0.0.1"}))
        ((node, *of_node),) = commands_in(replaced(node_line, **here, **{"10.0.0.7": "127.0.0.1", "64 GB": "64 MB"}))
        for port in admin:
            processes.append(Process(master, *flags, f"--rpc_port={free_port()}", f"--metrics_port={port}"))
        for _ in range(2):
            # Each host has its own port 9300 and its own dummy clients; here they share one.
            processes.append(Process(node, *of_node, f"--http_port={free_port()}", "--port=0"))
            processes[-1].wait_ready(lambda: "the storage node is ready" in processes[-1].output())
        env = {
            "MOONCAKE_MASTER": f"etcd://127.0.0.1:{etcd.port}",
            "MOONCAKE_AUTH_TOKEN_FILE": str(token),
            "MC_RPC_CONNECT_TIMEOUT_MS": "20000",
        }
        run("bash", "-c", "echo hello | mooncake put greeting", env=env)

        def leaders() -> list[int]:
            return [n for n in range(3) if "this master leads" in processes[n].output()]

        (leader,) = leaders()
        processes.pop(leader).kill()
        others = [f"127.0.0.1:{port}" for number, port in enumerate(admin) if number != leader]
        wait_until(lambda: any("this master leads" in it.output() for it in processes[:2]), 30, "another leads")
        # The page names etcd, which knows the leader; its admin HTTP is at port 9003 there, and elsewhere here.
        assert commands_in(status_line) == [["mooncake", "status", "etcd://e1:2379;e2:2379;e3:2379"]]
        status = [str(COMMANDS / "mooncake"), "status", "--master-http", ",".join(others)]

        def is_healthy() -> bool:
            return subprocess.run(status, env={**os.environ, **env}, capture_output=True, check=False).returncode == 0

        wait_until(is_healthy, 30, "the pool is healthy")
        assert run("mooncake", "get", "greeting", env=env) == "hello\n"


def test_several_masters_on_one_host(tmp_path: Path) -> None:
    page, title = "high_availability.md", "Several masters on one host"
    start, look = blocks(page, "sh", title)
    (code,) = blocks(page, "python", title)
    first, second = free_port(), free_port()
    ports = {"50051": str(free_port()), "50052": str(free_port()), "9003": str(first), "9004": str(second)}
    script = replaced(f"{start}{look}", **ports)
    # Where the page waits for a second, the test waits for what must be by then.
    wait = 'until test "$(curl -s http://127.0.0.1:{}/role)" = leader; do sleep 0.05; done\n'
    assert script.count("sleep 1\n") == 2
    script = script.replace("sleep 1\n", wait.format(first), 1).replace("sleep 1\n", wait.format(second), 1)
    env = {**os.environ, "PATH": PATH, "HOME": str(tmp_path), "XDG_STATE_HOME": STATE_HOME.name}
    log = (tmp_path / "log").open("w")
    shell = subprocess.Popen(
        ["bash", "-c", f"{script}\nexec sleep 300"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )
    try:
        assert shell.stdout is not None
        assert [shell.stdout.readline().strip() for _ in range(3)] == ["leader", "standby", "leader"]
        run_python(code, tmp_path, {"HOME": str(tmp_path)})
    finally:
        # The processes of the session that this test began.
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait(20)
        log.close()
