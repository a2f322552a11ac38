"""The log of a program without its master: few lines, none with a whole long key. Ctrl-C still ends the program."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from cluster import Cluster, free_port

SETUP = """
import os, signal, sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", sys.argv[1])
"""

READ_WITHOUT_A_MASTER = """
assert code == 0
os.kill(int(sys.argv[2]), signal.SIGKILL)
for _ in range(2000):
    assert store.get("key") == b""
assert store.get("x" * (1 << 20)) == b""
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_thousands_of_calls_without_a_master_are_a_few_lines_without_long_keys() -> None:
    with Cluster() as cluster:
        reader = start(SETUP + READ_WITHOUT_A_MASTER, cluster.master_address, str(cluster.master.pid))
        _, log = reader.communicate(timeout=60)
    assert reader.returncode == 0, log
    lines = log.splitlines()
    assert 2 <= len(lines) <= 20, len(lines)
    assert max(len(line) for line in lines) < 600
    assert any("(1048576 bytes)" in line for line in lines), log


def test_ctrl_c_ends_a_setup_that_waits_for_its_master() -> None:
    waiting = start(SETUP, f"127.0.0.1:{free_port()}")
    assert waiting.stderr is not None
    line = waiting.stderr.readline()
    assert "no master has taken this client yet" in line, line
    begun = time.monotonic()
    waiting.send_signal(signal.SIGINT)
    waiting.wait(10)
    assert time.monotonic() - begun < 1.0
    assert waiting.returncode in (1, -signal.SIGINT, 130)
    assert "KeyboardInterrupt" in waiting.stderr.read()


CLOSE = """
assert code == 0
for number in range(10):
    assert store.put(f"key-{number}", b"value") == 0
store.close()
"""


def test_a_node_that_says_goodbye_is_not_told_to_be_out_of_sight() -> None:
    with Cluster() as cluster:
        for _ in range(5):
            node = start(SETUP.replace(", 0, 16", ", 32 << 20, 16") + CLOSE, cluster.master_address)
            _, log = node.communicate(timeout=60)
            assert node.returncode == 0, log
        master = cluster.master.output()
    assert "out of sight" not in master, master


def test_a_pool_without_a_master_ends_without_a_word_of_nodes_that_are_lost() -> None:
    setup = SETUP.replace(", 0, 16", ", 32 << 20, 16").replace("sys.argv[1]", '"local://"')
    node = start("import os; os.environ['MC_LOG_LEVEL'] = 'info'\n" + setup + CLOSE)
    _, log = node.communicate(timeout=60)
    assert node.returncode == 0, log
    assert "a segment joins the pool" in log, log
    assert "out of sight" not in log, log
