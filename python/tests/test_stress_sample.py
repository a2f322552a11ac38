"""The sample `bench/stress_cluster_benchmark.py`, on one host and as on two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import MIB, Cluster

SAMPLE = str(Path(__file__).resolve().parents[2] / "bench" / "stress_cluster_benchmark.py")
SMALL = {"VALUE_LENGTH": "100003", "MAX_REQUESTS": "40", "SEGMENT_SIZE": str(16 * MIB), "WAIT_SECONDS": "60"}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("ROLE", "MASTER_SERVER")}
    return {**kept, **SMALL, **more}


def run(**more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SAMPLE], env=environment(**more), capture_output=True, text=True, timeout=120
    )


def test_one_command_on_one_host() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert "prefill: put 40 objects of 100003 bytes" in done.stdout
    assert "decode: got 40 objects of 100003 bytes" in done.stdout
    assert "every byte was right" in done.stdout


def test_a_role_on_each_host() -> None:
    with Cluster() as cluster:
        master = {"MASTER_SERVER": cluster.master_address, "LOCAL_HOSTNAME": "127.0.0.1"}
        # Either may start first.
        with subprocess.Popen([sys.executable, SAMPLE], env=environment(ROLE="decode", **master)) as decode:
            prefill = run(ROLE="prefill", **master)
            assert (prefill.returncode, decode.wait(60)) == (0, 0), prefill.stderr


def test_wrong_bytes_are_found() -> None:
    with Cluster() as cluster:
        cluster.start_node(16 * MIB)
        assert cluster.store().put("stress/1/7", b"something else") == 0
        done = run(MASTER_SERVER=cluster.master_address)
        assert done.returncode == 1
        assert "1 objects do not have the bytes that were put, stress/1/7 first" in done.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ROLE": "router"}, "it must be prefill or decode"),
        ({"ROLE": "prefill", "VALUE_LENGTH": "-1"}, "VALUE_LENGTH is '-1'"),
        ({"ROLE": "prefill", "MASTER_SERVER": "127.0.0.1:1", "MC_RPC_CONNECT_TIMEOUT_MS": "250"}, "setup returned -1"),
    ],
)
def test_what_cannot_run_says_why(more: dict[str, str], said: str) -> None:
    done = run(**more)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_role_without_the_other_gives_up() -> None:
    with Cluster() as cluster:
        done = run(ROLE="decode", MASTER_SERVER=cluster.master_address, WAIT_SECONDS="1")
        assert done.returncode == 1
        assert "stress/1/0 was not put in time" in done.stderr
