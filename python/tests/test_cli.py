"""The modules that replace their process by a native program, and the scripts that the wheel declares."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import types
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest
from cluster import Process, free_port
from mooncake import cli, cli_bench, transfer_engine_topology_dump

NATIVE = ("mooncake", "mooncake_master", "mooncake_client")


@pytest.mark.parametrize(("module", "program"), [("cli", "mooncake_master"), ("cli_client", "mooncake_client")])
def test_a_module_becomes_its_program(module: str, program: str) -> None:
    port = free_port()
    flags = {
        "mooncake_master": [f"--rpc_port={port}", "--rpc_address=127.0.0.1", f"--metrics_port={free_port()}"],
        "mooncake_client": ["--host=127.0.0.1", f"--master_server_address=127.0.0.1:{port}"],
    }
    process = Process("python", "-m", f"mooncake.{module}", *flags[program])
    about = Path(f"/proc/{process.pid}")
    # Both names start the same program.
    process.wait_ready(lambda: (about / "exe").resolve().name == "mooncake")
    process.wait_ready(lambda: (about / "comm").read_text().strip() == program)
    process.stop()


@pytest.mark.parametrize("module", ["cli", "cli_client"])
def test_arguments_and_exit_status_are_the_programs(module: str) -> None:
    process = Process("python", "-m", f"mooncake.{module}", "--no_such_flag=1")
    assert process.process.wait(20) not in (0, cli.NOT_FOUND)
    assert "no_such_flag" in process.output()


def test_programs_are_found_beside_the_package_and_not_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = tmp_path / "mooncake_stranger"
    stranger.write_text("#!/bin/sh\n")
    stranger.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in NATIVE:
        found = cli.find_program(name)
        assert found is not None
        assert found.name == name
        assert found.read_bytes()[:4] == b"\x7fELF"
    assert cli.find_program("mooncake_stranger") is None
    assert cli.run_program("mooncake_stranger") == 127
    assert "mooncake_stranger is not installed beside" in capsys.readouterr().err


def test_scripts_can_be_loaded_and_shadow_no_program() -> None:
    declared = metadata.distribution("mooncake-pool").entry_points.select(group="console_scripts")
    scripts = {script.name: script.value for script in declared}
    assert {"mooncake_http_metadata_server", "mc_store_rest_server", "transfer_engine_bench"} <= set(scripts)
    assert not set(scripts) & set(NATIVE)
    for value in scripts.values():
        module, _, function = value.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("mooncake.transfer_engine_topology_dump", []),
        ("mooncake.transfer_engine_topology_dump", ["--help"]),
        ("mooncake.cli_bench", ["--help"]),
        ("mooncake.mooncake_store_service", ["--help"]),
        ("mooncake.http_metadata_server", ["--help"]),
        ("mooncake.cli", ["--help"]),
    ],
)
def test_a_reader_that_has_gone_causes_no_traceback(module: str, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=20, text=True)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


class Engine:
    """Replaces `TransferEngine`: it lends 1 MiB at address 1000, and refuses a batch beyond that."""

    code = 0
    batches: Counter[str]

    def initialize(self, *names: str) -> int:
        assert names == ("here", "P2PHANDSHAKE", "tcp", "")
        return self.code

    def get_first_buffer_address(self, name: str) -> int:
        return 1000 if name == "there:1" else 0

    def allocate_managed_buffer(self, size: int) -> int:
        self.batches.clear()
        return 0 if size > 1 << 30 else 500

    def free_managed_buffer(self, _: int, __: int) -> int:
        return 0

    def transfer(self, kind: str, name: str, own: list[int], others: list[int], lengths: list[int]) -> int:
        self.batches[f"{kind} {name} {own} {others} {lengths}"] += 1
        return -1 if others[-1] + lengths[-1] > 1000 + (1 << 20) else 0

    def batch_transfer_sync_read(self, *arguments: object) -> int:
        return self.transfer("read", *arguments)  # type: ignore[arg-type]

    def batch_transfer_sync_write(self, *arguments: object) -> int:
        return self.transfer("write", *arguments)  # type: ignore[arg-type]

    def get_local_topology(self, devices: str | None) -> str:
        if self.code:
            raise RuntimeError("no topology")
        return f"{{{devices}}}"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[Engine]:
    module = types.ModuleType("mooncake.engine")
    stand_in = type("TransferEngine", (Engine,), {"batches": Counter()})
    module.TransferEngine = stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mooncake.engine", module)
    return stand_in


LOCAL = ["--local_server_name=127.0.0.1", "--block_size=65536", "--batch_size=16"]
BENCH = ["transfer_engine_bench", "--local_server_name=here", "--segment-id=there:1", "--duration=1"]


def test_the_bench_moves_batches_and_says_how_many(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [*BENCH, "--operation=write", "--block-size=100", "--batch_size=2", "--threads=2"])
    assert cli_bench.main() == 0
    assert set(engine.batches) == {
        "write there:1 [500, 600] [1000, 1100] [100, 100]",
        "write there:1 [700, 800] [1200, 1300] [100, 100]",
    }
    printed = capsys.readouterr().out
    assert f" s, write {engine.batches.total()} batches of 2 blocks of 100 bytes, throughput " in printed


def test_the_command_lines_of_guides_for_other_machines_run(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        "-protocol=tcp",
        "--auto_discovery",
        "--nic_priority_matrix=/m.json",
        "--report_unit=Gb",
        "--report-precision=4",
    ]
    more = [
        "--backend=classic",
        "--logtostderr",
        "-v=1",
        "-threads",
        "2",
        "--nouse_vram",
        "-init_mem=true",
        "--gpu_id",
        "-1",
    ]
    monkeypatch.setattr(sys, "argv", [*BENCH, "--block_size=1", "--batch_size=1", *flags, *more])
    assert cli_bench.main() == 0
    said = capsys.readouterr()
    assert re.search(r" throughput \d+\.\d{4} Gb/s$", said.out.strip())
    assert said.err == (
        "transfer_engine_bench: without effect here: --auto_discovery, --use_vram, --init_mem, --logtostderr, "
        "--nic_priority_matrix, --backend, --gpu_id, --v\n"
    )


@pytest.mark.parametrize(("unit", "rate"), [("GB", "1.00"), ("Gb", "8.00"), ("MiB", "953.67"), ("Kb", "8000000.00")])
def test_a_rate_has_the_unit_that_was_asked_for(capsys: pytest.CaptureFixture[str], unit: str, rate: str) -> None:
    flags = cli_bench.parse_arguments(
        ["--segment_id=a", f"--report_unit={unit}", "--block_size=1000", "--batch_size=1000"]
    )
    assert cli_bench._report(flags, [cli_bench.Tally(batches=2000)], 2.0) == 0
    assert capsys.readouterr().out.endswith(f"throughput {rate} {unit}/s\n")


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], -1, "the engine could not be initialized, code -1"),
        (["--segment_id=nobody:1"], 0, "nobody:1 cannot be reached, or lends no memory"),
        (["--block_size=1073741824"], 0, "the engine allocates no 137438953472 bytes"),
        (["--block_size=65537", "--batch_size=16"], 0, "a batch failed, code -1"),
    ],
)
def test_a_bench_that_fails_says_why(
    engine: type[Engine],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    code: int,
    message: str,
) -> None:
    engine.code = code
    monkeypatch.setattr(sys, "argv", [*BENCH, *flags])
    assert cli_bench.main() == 1
    assert message in capsys.readouterr().err


def test_the_bench_runs_between_two_processes() -> None:
    target = Process("python", "-m", "mooncake.cli_bench", "--mode=target", *LOCAL, "--buffer_size=1048576")
    target.wait_ready(lambda: " lends 1048576 bytes" in target.output())
    name = target.output().split()[1]
    for flags, status, message in (
        (["--operation=read"], 0, "Test completed"),
        (["--operation=write"], 0, "Test completed"),
        (["--batch_size=17"], 1, "a batch failed"),
    ):
        side = Process("python", "-m", "mooncake.cli_bench", *LOCAL, f"--segment_id={name}", "--duration=1", *flags)
        assert side.process.wait(30) == status, side.output()
        assert message in side.output()
    assert target.stop() == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--segment_id is required"),
        (["--mode=both"], "invalid choice: 'both'"),
        (["--segment_id=a", "--threads=0"], "'0' is not a number from 1 to 256"),
        (["--segment_id=a", "--batch_size=many"], "'many' is not a number from 1 to 65536"),
        (["--segment_id=a", "--dur=1"], "unrecognized arguments: --dur=1"),
        (["--segment_id=a", "-dur=1"], "unrecognized arguments: --dur=1"),
        (["--segment_id=a", "--report_unit=gb"], "invalid choice: 'gb'"),
        (["--segment_id=a", "--report_precision=10"], "invalid choice: 10"),
    ],
)
def test_a_bench_refuses_wrong_flags(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        cli_bench.parse_arguments(flags)
    assert message in capsys.readouterr().err


def test_the_topology_is_printed(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["transfer_engine_topology_dump", "--device-name=mlx5_0"])
    assert transfer_engine_topology_dump.main() == 0
    assert capsys.readouterr().out == "Local topology [te/discover]: {mlx5_0}\n"
    engine.code = -1
    assert transfer_engine_topology_dump.main() == 1
    assert capsys.readouterr().err == "transfer_engine_topology_dump: no topology\n"
