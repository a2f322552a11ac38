"""GPU memory, with a double of the driver: all ways to the bytes, refused calls, and faults of the driver."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cluster import MIB, Cluster, Memory, content
from engine_peer import Peer
from gpu import DeviceMemory, driver, library_path, needs_double
from mooncake.engine import SUPPORT_CUDA, TransferEngine
from mooncake.store import MooncakeDistributedStore
from test_dummy import Host

Store = MooncakeDistributedStore
ILLEGAL_ADDRESS = 700


@pytest.mark.parametrize("length", [1, 4096, 65_537, 9 * MIB + 3])
def test_one_object_goes_there_and_back(any_store: Store, gpu: DeviceMemory, length: int) -> None:
    value = content("k", length)
    assert any_store.put_from("k", gpu.write(0, value), length) == 0
    assert any_store.get("k") == value
    assert any_store.get_into("k", gpu.address + 12 * MIB, length + 10) == length
    assert gpu.read(12 * MIB, length + 10) == value + bytes(10)


def test_hundreds_of_small_pieces(any_store: Store, gpu: DeviceMemory) -> None:
    keys = [f"k{i}" for i in range(8)]
    values = [content(key, 128 * 4096) for key in keys]
    gpu.write(0, b"".join(values))
    # The blocks of an object are not adjacent, as the blocks of a KV cache's layers are not.
    pieces = [[gpu.address + (block * 8 + i) * 4096 for block in range(128)] for i in range(8)]
    whole = b"".join(values)
    expected = [b"".join(whole[at - gpu.address : at - gpu.address + 4096] for at in addresses) for addresses in pieces]
    sizes = [[4096] * 128] * 8
    assert any_store.batch_put_from_multi_buffers(keys, pieces, sizes) == [0] * 8
    assert any_store.get_batch(keys) == expected
    there = [[at + 12 * MIB for at in reversed(addresses)] for addresses in pieces]
    assert any_store.batch_get_into_multi_buffers(keys, there, sizes) == [128 * 4096] * 8
    for addresses, value in zip(there, expected, strict=True):
        read = [gpu.read(at - gpu.address, 4096) for at in addresses]
        assert b"".join(read) == value


@needs_double
def test_a_header_of_the_host_and_elements_of_two_gpus_are_one_object(any_store: Store, gpu: DeviceMemory) -> None:
    header, other = Memory(4096), DeviceMemory(MIB, device=1)
    assert any_store.register_buffer(other.address, other.size) == 0
    parts = [content("head", 24), content("one", 300_000), content("two", 70_000)]
    addresses = [header.write(0, parts[0]), gpu.write(0, parts[1]), other.write(5, parts[2])]
    sizes = [len(part) for part in parts]
    assert any_store.batch_put_from_multi_buffers(["k"], [addresses], [sizes]) == [0]
    assert any_store.get("k") == b"".join(parts)
    for memory, part in ((header, parts[0]), (gpu, parts[1]), (other, parts[2])):
        memory.write(0, bytes(len(part) + 5))
    assert any_store.batch_get_into_multi_buffers(["k"], [addresses], [sizes]) == [sum(sizes)]
    assert (header.read(0, 24), gpu.read(0, sizes[1]), other.read(5, sizes[2])) == tuple(parts)
    assert any_store.unregister_buffer(other.address) == 0


@needs_double
def test_memory_that_is_not_registered_is_refused(any_store: Store, gpu: DeviceMemory) -> None:
    memory = DeviceMemory(4096)
    assert any_store.put("here", b"value") == 0
    assert any_store.put_from("k", memory.address, 5) == -600
    assert any_store.get_into("here", memory.address, 5) == -600
    assert any_store.register_buffer(memory.address, 4097) == -600, "a part of it is not allocated"
    two = driver().double_alloc_pieces(0, 4096, 2)
    assert any_store.register_buffer(two, 8192) == 0, "virtual memory is made of pieces"
    assert any_store.put_from("k", two + 4000, 200) == 0
    assert any_store.unregister_buffer(two) == 0
    end = gpu.address + gpu.size
    assert any_store.put_from("end", end - 4, 5) == -600


def test_what_was_freed_fails_alone(any_store: Store, gpu: DeviceMemory) -> None:
    freed = DeviceMemory(4096)
    assert any_store.register_buffer(freed.address, freed.size) == 0
    address = freed.address
    freed.free()
    value = content("good", 4096)
    at = gpu.write(0, value)
    assert any_store.batch_put_from(["good", "bad"], [at, address], [4096, 4096]) == [0, -800]
    assert any_store.batch_get_into(["good", "good"], [address, at + MIB], [4096] * 2) == [-600, 4096]
    assert gpu.read(MIB, 4096) == value
    assert any_store.is_exist("bad") == 0
    assert any_store.unregister_buffer(address) == 0


@needs_double
def test_whatever_the_driver_refuses_no_wrong_byte_is_a_success(any_store: Store, gpu: DeviceMemory) -> None:
    sizes = [4096, 5 * MIB, 70_000]
    keys = [f"k{i}" for i in range(3)]
    values = [content(key, size) for key, size in zip(keys, sizes, strict=True)]
    sources = [gpu.write(i * 6 * MIB, value) for i, value in enumerate(values)]
    for nth in range(0, 24, 3):
        assert any_store.remove_all(force=True) >= 0
        driver().double_fail(b"", nth, ILLEGAL_ADDRESS)
        codes = any_store.batch_put_from(keys, sources, sizes)
        driver().double_reset()
        stored = [value if code == 0 else b"" for value, code in zip(values, codes, strict=True)]
        assert any_store.get_batch(keys) == stored, f"call {nth}"
        targets = [gpu.write(18 * MIB + i * 1000, bytes(1000)) for i in range(3)]
        assert any_store.upsert_batch(keys, [value[:1000] for value in values]) == 0
        driver().double_fail(b"", nth, ILLEGAL_ADDRESS)
        lengths = any_store.batch_get_into(keys, targets, [1000] * 3)
        driver().double_reset()
        for i, length in enumerate(lengths):
            assert length == -600 or gpu.read(18 * MIB + i * 1000, 1000) == values[i][:1000], f"call {nth}"


@needs_double
def test_pages_that_cannot_be_locked_are_passed_by(cluster: Cluster, gpu: DeviceMemory) -> None:
    driver().double_limit_locks(0)
    store = cluster.store(32 * MIB)
    assert store.register_buffer(gpu.address, gpu.size) == 0
    value = content("locked", 9 * MIB)
    assert store.put_from("locked", gpu.write(0, value), len(value)) == 0
    assert store.get_into("locked", gpu.address + 10 * MIB, len(value)) == len(value)
    assert gpu.read(10 * MIB, len(value)) == value
    store.close()


def test_many_threads_and_a_model(any_store: Store, gpu: DeviceMemory) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        model: dict[str, bytes] = {}
        start = number * 4 * MIB
        for step in range(25):
            key = f"t{number}-{chance.randrange(4)}"
            length = chance.choice([1, 500, 70_000, MIB])
            if chance.random() < 0.5:
                model[key] = content(f"{key}-{step}", length)
                code = any_store.upsert_from(key, gpu.write(start, model[key]), length)
                if code != 0:
                    failures.append(f"upsert of {key}: {code}")
            elif key in model:
                got = any_store.get_into(key, gpu.address + start + 2 * MIB, 2 * MIB)
                if got != len(model[key]) or gpu.read(start + 2 * MIB, got) != model[key]:
                    failures.append(f"get of {key}: {got}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_child_of_a_fork_has_no_gpu(own_store: Store) -> None:
    memory = DeviceMemory(4096)
    assert own_store.register_buffer(memory.address, memory.size) == 0
    child = os.fork()
    if child == 0:
        code = own_store.put_from("k", memory.address, 10)
        os._exit(0 if code < 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert own_store.unregister_buffer(memory.address) == 0


CHILD_OF_A_PROCESS_THAT_HAS_LOADED_THE_DRIVER = """
import os, sys
from gpu import DeviceMemory
from mooncake.store import MooncakeDistributedStore
memory = DeviceMemory(4096)
child = os.fork()
if child == 0:
    store = MooncakeDistributedStore()
    setup = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", sys.argv[1])
    codes = [setup, store.register_buffer(memory.address, memory.size), store.put_from("k", memory.address, 10)]
    print(codes, flush=True)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_does_not_use_the_driver_that_its_parent_initialised(cluster: Cluster) -> None:
    command = [sys.executable, "-c", CHILD_OF_A_PROCESS_THAT_HAS_LOADED_THE_DRIVER, cluster.master_address]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "[0, -600, -600]\n"), ended.stderr


def doctor(cluster: Cluster, libraries: Path, **environment: str) -> str:
    """The output of `mooncake doctor` with the driver in this folder, if any."""
    metrics = f"127.0.0.1:{cluster.http_port}"
    command = ["mooncake", "doctor", "--master", cluster.master_address, "--master-http", metrics]
    ended = subprocess.run(
        [Path(sys.executable).with_name(command[0]), *command[1:]],
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"master {cluster.master_address}: ")
    return ended.stdout


@needs_double
def test_the_doctor_shows_gpus_and_their_ways(cluster: Cluster, tmp_path: Path) -> None:
    said = doctor(cluster, tmp_path)
    assert said.splitlines()[-1].startswith("no GPU can be used here: this host has no CUDA driver (")
    (tmp_path / "libcuda.so.1").symlink_to(library_path())
    said = doctor(cluster, tmp_path)
    for device in (0, 1):
        assert f"\nGPU {device}: Double {device} (8 GB), driver of CUDA 12.8\n  way         one copy " in said
    assert said.count(" GB/s to it\n") == 2
    said = doctor(cluster, tmp_path, DOUBLE_FAIL="cuMemHostRegister=2")
    assert "way         staged\n  because     the memory of segments cannot be locked: cuMemHostRegister " in said
    assert "way         one copy " in said, "the second one is fine"
    said = doctor(cluster, tmp_path, DOUBLE_FAIL="cuInit=100")
    assert said.splitlines()[-1].endswith("cuInit of the CUDA driver failed: CUDA_ERROR_NO_DEVICE (100)")


def test_a_dummy_client(cluster: Cluster, store: Store) -> None:
    host = Host(cluster)
    dummy, memory = host.dummy(), DeviceMemory(4 * MIB)
    try:
        assert dummy.register_buffer(memory.address, memory.size) == 0
        value = content("dummy", MIB)
        assert dummy.put_from("k", memory.write(0, value), MIB) == 0
        assert store.get("k") == value
        assert dummy.get_into("k", memory.address + MIB, 2 * MIB) == MIB
        assert memory.read(MIB, MIB) == value
        ranges = dummy.get_into_ranges([memory.address + 3 * MIB], [["k"]], [[[0, 9]]], [[[7, MIB - 5]]], [[[9, 5]]])
        assert ranges == [[[9, 5]]]
        assert memory.read(3 * MIB, 14) == value[7:16] + value[-5:]
    finally:
        dummy.close()
        host.process.stop()


def test_transfers_between_engines() -> None:
    engine, memory = TransferEngine(), DeviceMemory(40 * MIB)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert SUPPORT_CUDA
    assert engine.register_memory(memory.address, memory.size, "cuda:0") == 0
    with Peer() as peer:
        far = peer.call("allocate_managed_buffer", 20 * MIB)
        sent = content("engine", 18 * MIB)
        memory.write(0, sent)
        assert engine.transfer_sync_write(peer.session, memory.address, far, len(sent)) == 0
        assert peer.look(far + 17 * MIB, 1000) == sent[17 * MIB : 17 * MIB + 1000]
        assert engine.transfer_sync_read(peer.session, memory.address + 20 * MIB, far, len(sent)) == 0
        assert memory.read(20 * MIB, len(sent)) == sent
    own = f"127.0.0.1:{engine.get_rpc_port()}"
    memory.write(0, content("self", MIB))
    assert engine.transfer_sync_write(own, memory.address, memory.address + 2 * MIB, MIB) == 0
    assert memory.read(2 * MIB, MIB) == content("self", MIB)
    assert engine.read_bytes_from_buffer(memory.address, 5) == content("self", MIB)[:5]
    assert engine.write_bytes_to_buffer(memory.address + 1, b"xyz", 3) == 0
    assert memory.read(0, 5) == content("self", MIB)[:1] + b"xyz" + content("self", MIB)[4:5]
    assert engine.unregister_memory(memory.address) == 0


def test_an_engine_of_which_the_memory_is_a_gpus_serves_peers() -> None:
    serving, asking, memory, here = TransferEngine(), TransferEngine(), DeviceMemory(40 * MIB), Memory(20 * MIB)
    for engine in (serving, asking):
        assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert serving.register_memory(memory.address, memory.size) == 0
    assert asking.register_memory(here.address, here.size) == 0
    session = f"127.0.0.1:{serving.get_rpc_port()}"
    value = content("there", 20 * MIB)
    here.write(0, value)
    assert asking.transfer_sync_write(session, here.address, memory.address + 7, len(value)) == 0
    assert memory.read(7, len(value)) == value
    here.write(0, bytes(len(value)))
    assert asking.transfer_sync_read(session, here.address, memory.address + 7, len(value)) == 0
    assert here.read(0, len(value)) == value
    memory.free()
    assert asking.transfer_sync_read(session, here.address, memory.address, 100) == -1
    assert asking.transfer_sync_write(session, here.address, memory.address, 100) == -1


@needs_double
def test_the_program_that_measures_runs_to_its_end() -> None:
    program = Path(__file__).parents[2] / "bench" / "gpu_figures.py"
    command = [sys.executable, str(program), "--double", "--quick"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    titles = [line for line in ended.stdout.splitlines() if line.startswith("### ")]
    assert titles == ["### own process", "### same host", "### tcp", "### C++ package, own process"]
    assert ended.stdout.count("| right |") == 12
    assert ended.stdout.count(" % of the batch") == 18
