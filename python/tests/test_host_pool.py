"""Pools without a master: in this process only, and shared by the processes that name a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import MIB, content, in_other_process, pause, wait_until
from mooncake.mooncake_config import MooncakeConfig
from mooncake.store import MooncakeDistributedStore

INVALID = -600
LENGTH = 300_000

# Opens a store at a folder, puts some keys, and then runs the commands of its input, a line each.
PEER = """
import json, os, sys
from mooncake.store import MooncakeDistributedStore
from cluster import content
store = MooncakeDistributedStore()
config = {"master_server_addr": sys.argv[1], "global_segment_size": sys.argv[2], **json.loads(sys.argv[3])}
print(store.setup(config), flush=True)
for line in sys.stdin:
    what, *keys = line.split()
    if what == "put":
        said = [store.put(key, content(key, 300_000)) for key in keys]
    elif what == "get":
        said = [store.get(key) == content(key, 300_000) for key in keys]
    elif what == "close":
        said = store.close()
    print(json.dumps(said), flush=True)
"""


class Peer:
    """A process that opens a store at a folder."""

    def __init__(self, address: str, segment_bytes: int, **settings: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER, address, str(segment_bytes), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        )
        self.code = json.loads(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def __call__(self, what: str, *keys: str) -> Any:
        assert self.process.stdin is not None
        print(what, *keys, file=self.process.stdin, flush=True)
        return json.loads(self.line())

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"local://{tmp_path}/pool"


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    peers: list[Peer] = []
    yield peers
    for peer in peers:
        peer.end()


def opened(address: str, segment_bytes: int = 32 * MIB, **settings: Any) -> MooncakeDistributedStore:
    store = MooncakeDistributedStore()
    config = {"master_server_addr": address, "global_segment_size": segment_bytes, **settings}
    assert store.setup(config) == 0
    return store


def keys(name: str, count: int = 16) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


def held(store: MooncakeDistributedStore, names: list[str]) -> list[str]:
    """The names whose objects exist. Fails on wrong bytes."""
    values = {name: store.get(name) for name in names}
    assert all(value in (b"", content(name, LENGTH)) for name, value in values.items())
    return [name for name, value in values.items() if value]


def place(store: MooncakeDistributedStore, key: str) -> str:
    """The segment that holds an object."""
    return store.get_replica_desc(key)[0].get_memory_descriptor().buffer_descriptor.transport_endpoint


def test_each_form_of_setup(address: str) -> None:
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", 16 * MIB, 16 * MIB, "tcp", "", "local://") == 0
    assert (store.put("k", b"value"), store.get("k"), store.health_check()) == (0, b"value", 0)
    host, number = store.get_hostname().rsplit(":", 1)
    assert (host, int(number) > 0) == ("localhost", True)
    assert store.close() == 0
    assert store.setup({"master_server_address": address}) == 0, "a closed store may be set up again"
    assert (store.get("k"), store.put("k", b"other"), store.get("k"), store.close()) == (b"", 0, b"other", 0)


def test_as_the_environment_says(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_MASTER", address)
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "16mb")
    config = MooncakeConfig.load_from_env()
    store = opened(config.master_server_address, config.global_segment_size)
    assert (store.put("k", b"value"), store.get("k"), store.close()) == (0, b"value", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"master_server_addr": ""},
        {"master_server_addr": "local://pool"},
        {"master_server_addr": "local:///proc/pool"},
        {"master_server_addr": "local:///etc/passwd"},
        {"enable_client_http_server": "true"},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(change: dict[str, Any]) -> None:
    store = MooncakeDistributedStore()
    assert store.setup({"master_server_addr": "local://"} | change) == INVALID
    assert store.setup({"master_server_addr": "local://"}) == 0, "a refused setup may be tried again"
    assert store.close() == 0


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    os.chown(tmp_path, 12345, 12345)
    store = MooncakeDistributedStore()
    assert store.setup({"master_server_addr": f"local://{tmp_path}"}) == INVALID
    os.chown(tmp_path, 0, 0)


def test_two_stores_of_a_process_share_a_folder(address: str) -> None:
    first, second = opened(address), opened(address, 0)
    assert first.put("k", content("k", LENGTH)) == 0
    assert held(second, ["k"]) == ["k"]
    assert (second.remove("k", True), first.is_exist("k")) == (0, 0)
    assert (first.close(), second.close()) == (0, 0)


def test_processes_that_name_a_folder_share_it(address: str, peers: list[Peer]) -> None:
    store = opened(address)
    peers.append(Peer(address, 16 * MIB))
    assert peers[0].code == 0
    mine, theirs = keys("mine"), keys("theirs")
    assert store.put_batch(mine, [content(key, LENGTH) for key in mine]) == 0
    assert peers[0]("get", *mine) == [True] * len(mine)
    assert peers[0]("put", *theirs) == [0] * len(theirs)
    assert held(store, theirs) == theirs
    assert (peers[0]("close"), store.close()) == (0, 0)


def test_what_others_hold_outlives_the_leader_that_dies(address: str, peers: list[Peer]) -> None:
    peers.append(Peer(address, 16 * MIB))
    store = opened(address)
    names = keys("k", 48)
    assert store.put_batch(names, [content(key, LENGTH) for key in names]) == 0
    own = [key for key in names if place(store, key) == store.get_hostname()]
    assert 0 < len(own) < len(names)
    peers[0].process.send_signal(signal.SIGKILL)
    begun = time.monotonic()
    wait_until(lambda: store.put("after", content("after", LENGTH)) == 0, 20, "another leads")
    print(f"another leads after {time.monotonic() - begun:.2f} s")
    wait_until(lambda: set(own) <= set(held(store, names)), 20, "what lies here is there")
    assert held(store, ["after"]) == ["after"]
    store.close()


def put_soon(put: Callable[..., Any], *names: str) -> None:
    """Puts through a process or store, as soon as it has found the leader."""
    wait_until(lambda: put("put", *names) == [0] * len(names), 20, "puts go on")


def test_reads_and_writes_go_on_while_leaders_die(address: str, peers: list[Peer]) -> None:
    store = opened(address, 64 * MIB)

    def here(_: str, *names: str) -> list[int]:
        return [store.put(name, content(name, LENGTH)) for name in names]

    kept = keys("kept")
    for turn in range(3):
        peers.append(Peer(address, 16 * MIB))
        names = keys(f"turn{turn}-")
        put_soon(peers[-1], *names)
        if turn == 0:
            # The first store leads until it closes. Then each killed process has led since the one before it ended.
            store.close()
            put_soon(peers[-1], "leads")
            store = opened(address, 64 * MIB)
            put_soon(here, *kept)
        peers[-1].process.send_signal(signal.SIGKILL)
        put_soon(here, f"after{turn}")
        held(store, [*kept, *names])
    assert held(store, ["after2"]) == ["after2"]
    store.close()


def test_a_leader_that_is_stopped_is_followed_by_another_and_obeys_when_it_goes_on(
    address: str, peers: list[Peer]
) -> None:
    peers.append(Peer(address, 16 * MIB))
    store = opened(address)
    assert peers[0]("put", "early") == [0]
    pause(peers[0].process.pid)
    wait_until(lambda: store.put("k", content("k", LENGTH)) == 0, 30, "another leads")
    assert held(store, ["k"]) == ["k"]
    peers[0].process.send_signal(signal.SIGCONT)
    wait_until(lambda: peers[0]("get", "k") == [True], 30, "it finds the one that leads")
    wait_until(lambda: peers[0]("put", "late") == [0], 30, "it puts again")
    assert held(store, ["late"]) == ["late"]
    store.close()


SOCKETS = """
import json, os, sys
from mooncake.store import MooncakeDistributedStore

def inodes():
    targets = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if
               os.path.islink(f"/proc/self/fd/{number}")]
    return {target[8:-1] for target in targets if target.startswith("socket:[")}

def on_the_network():
    own, found = inodes(), []
    for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"]:
        with open(f"/proc/self/net/{table}") as lines:
            found += [f"{table}: {line}" for line in lines if line.split()[9] in own]
    return found

stores = [MooncakeDistributedStore() for _ in range(2)]
config = {"master_server_addr": sys.argv[1], "global_segment_size": "16mb", "local_hot_cache_size": "16mb"}
assert [store.setup(config) for store in stores] == [0, 0]
found = on_the_network()
for number in range(20):
    assert stores[number % 2].put(f"k{number}", b"x" * 300_000) == 0
    assert stores[1 - number % 2].get(f"k{number}") == b"x" * 300_000
    assert stores[1 - number % 2].put(f"s{number}", b"x") == 0
    assert stores[number % 2].get(f"s{number}") == b"x"
found += on_the_network()
assert len(inodes()) > 4, "there are local sockets"
stores[0].close()
found += on_the_network()
print(json.dumps(found))
"""


@pytest.mark.parametrize("transports", ["", "tcp", "process_vm"])
def test_nothing_is_on_the_network(address: str, transports: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if transports:
        monkeypatch.setenv("MOONCAKE_TRANSPORTS", transports)
    assert in_other_process(SOCKETS, address) == []


FORKS = """
import os, signal, sys, time
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup({"master_server_addr": sys.argv[1], "global_segment_size": "16mb"}) == 0
assert store.put("key", b"value" * 1000) == 0
child = os.fork()
if child == 0:
    assert store.get("key") == b"", "the parent's sockets are not the child's"
    assert store.put("other", b"x") < 0
    own = MooncakeDistributedStore()
    assert own.setup({"master_server_addr": sys.argv[1], "global_segment_size": 0}) == 0
    assert own.get("key") == b"value" * 1000, "a store of its own works"
    assert own.close() == 0
    assert store.close() == 0
    del store
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
assert store.get("key") == b"value" * 1000
assert store.put("later", b"1") == 0
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print("true", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_disturbs_neither_its_parent_nor_who_follows_it(address: str) -> None:
    run = subprocess.Popen([sys.executable, "-c", FORKS, address], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "true\n"
    assert run.wait(20) == -signal.SIGKILL
    run.stdout.close()
    begun = time.monotonic()
    store = opened(address)
    assert store.put("k", b"1") == 0
    assert time.monotonic() - begun < 10, "a child of the dead leader does not lead on"
    store.close()


def test_a_file_of_memory_and_a_disk_as_with_any_store(address: str, tmp_path: Path) -> None:
    segment = Path(f"/dev/shm/mooncake-test-{os.getpid()}")
    settings = {"segment_path": str(segment), "enable_ssd_offload": "true", "ssd_offload_path": str(tmp_path / "disk")}
    names = keys("k", 100)
    store = opened(address, 16 * MIB, **settings)
    try:
        for key in names:
            assert store.put(key, content(key, LENGTH)) == 0
        wait_until(lambda: len(held(store, names)) == len(names), 20, "what memory has no room for is on the disk")
        store.close()
        store = opened(address, 16 * MIB, **settings)
        wait_until(lambda: len(held(store, names)) == len(names), 20, "all is there again")
    finally:
        store.close()
        segment.unlink(missing_ok=True)


def test_a_process_that_has_no_such_pool_has_no_thread_for_one() -> None:
    code = """
import json, os
import mooncake.store
print(json.dumps([open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]))
"""
    threads = in_other_process(code)
    assert isinstance(threads, list)
    assert not [name for name in threads if name.startswith(("mooncake", "campaign"))]


@pytest.mark.parametrize("way", ["position", "keyword", "dict", "environment"])
def test_an_embedded_master_is_a_pool_of_one_process(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = MooncakeDistributedStore(), MooncakeDistributedStore()
    arguments: list[Any] = ["localhost", "P2PHANDSHAKE", 16 * MIB, MIB, "tcp", "", "127.0.0.1:1"]
    for store in (first, second):
        setup: Any = store.setup
        if way == "position":
            code = setup(*arguments, None, False, "", "default", False, 9300, True)
        elif way == "keyword":
            code = setup(*arguments, enable_embedded_master=True)
        elif way == "dict":
            code = setup({"master_server_addr": "", "enable_embedded_master": "true"})
        else:
            monkeypatch.setenv("MOONCAKE_ENABLE_EMBEDDED_MASTER", "1")
            code = setup(*arguments)
        assert code == 0
    assert first.put("k", b"v") == 0
    assert (first.get("k"), second.is_exist("k")) == (b"v", 0), "each has a pool of its own"
    assert (first.close(), second.close()) == (0, 0)


def test_an_embedded_master_leaves_the_address_of_a_pool(tmp_path: Path) -> None:
    stores = [MooncakeDistributedStore() for _ in range(2)]
    for store in stores:
        folder = {"master_server_addr": f"local://{tmp_path}", "global_segment_size": 16 * MIB}
        assert store.setup({**folder, "enable_embedded_master": True}) == 0
    assert stores[0].put("k", b"v") == 0
    assert stores[1].get("k") == b"v"
    for store in stores:
        store.close()


def test_wrong_words_for_an_embedded_master(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MooncakeDistributedStore()
    plain = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "master_server_addr": "127.0.0.1:1"}
    assert store.setup({**plain, "enable_embedded_master": "perhaps"}) == INVALID
    assert store.setup({**plain, "master_server_addr": "", "enable_embedded_master": "no"}) == INVALID
    monkeypatch.setenv("MOONCAKE_ENABLE_EMBEDDED_MASTER", "perhaps")
    assert store.setup(plain) == INVALID
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", "127.0.0.1:1") == INVALID
