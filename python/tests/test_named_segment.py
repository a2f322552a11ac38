"""Segments in files that outlive the store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import MIB, Cluster, content
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

INVALID = -600


@pytest.fixture
def file() -> Iterator[Path]:
    path = Path("/dev/shm") / f"mooncake-test-{uuid.uuid4().hex}"
    yield path
    path.unlink(missing_ok=True)


def opened(cluster: Cluster, **settings: Any) -> tuple[MooncakeDistributedStore, int]:
    """Sets up a store that lends 16 MiB, with these further settings. Returns it and the result of `setup`."""
    store = MooncakeDistributedStore()
    common = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "local_buffer_size": MIB}
    sizes = {"global_segment_size": 16 * MIB, "master_server_addr": cluster.master_address}
    return store, store.setup(common | sizes | settings)


def put_here(store: MooncakeDistributedStore, key: str, value: bytes) -> None:
    """Puts an object into the store's own segment."""
    config = ReplicateConfig()
    config.preferred_segment = store.get_hostname()
    assert store.put(key, value, config) == 0


def test_a_store_finds_what_the_one_before_it_had_in_its_file(cluster: Cluster, file: Path) -> None:
    keys = [f"key-{number}" for number in range(20)]
    first, code = opened(cluster, segment_path=str(file))
    assert code == 0
    for key in keys:
        put_here(first, key, content(key, 100_000))
    first.close()
    second, code = opened(cluster, segment_path=str(file))
    assert code == 0
    assert [second.get(key) for key in keys] == [content(key, 100_000) for key in keys]
    second.close()
    third, code = opened(cluster, segment_path=str(file), segment_reset=True)
    assert code == 0
    assert third.get(keys[0]) == b""
    put_here(third, "new", b"value")
    third.close()


def test_the_environment_names_the_file_too(cluster: Cluster, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_SEGMENT_PATH", str(file))
    for expected in (b"", b"value"):
        store, code = opened(cluster)
        assert code == 0
        assert store.get("key") == expected
        if not expected:
            put_here(store, "key", b"value")
        store.close()


def test_a_file_that_is_none_of_ours_is_refused_and_stays_as_it_is(cluster: Cluster, file: Path) -> None:
    file.write_bytes(b"somebody's")
    _, code = opened(cluster, segment_path=str(file))
    assert code == INVALID
    assert file.read_bytes() == b"somebody's"


def test_flipped_bits_in_a_file_are_misses_and_never_wrong_bytes(cluster: Cluster, file: Path) -> None:
    keys = [f"key-{number}" for number in range(20)]
    first, code = opened(cluster, segment_path=str(file))
    assert code == 0
    for key in keys:
        put_here(first, key, content(key, 100_000))
    first.close()
    damaged = {keys[3], keys[9], keys[19]}
    whole = file.read_bytes()
    with file.open("r+b") as out:
        for key in damaged:
            at = whole.index(content(key, 100_000)) + 77_777
            out.seek(at)
            out.write(bytes([whole[at] ^ 1]))
    second, code = opened(cluster, segment_path=str(file))
    assert code == 0
    neighbour, code = opened(cluster, global_segment_size=0)
    assert code == 0
    for reader in (neighbour, second):
        expected = [b"" if key in damaged else content(key, 100_000) for key in keys]
        assert [reader.get(key) for key in keys] == expected
    # The master learns what is lost, so that it can be put again.
    deadline = time.monotonic() + 20
    while any(neighbour.batch_is_exist(sorted(damaged))):
        assert time.monotonic() < deadline, "the master still names objects that are lost"
        time.sleep(0.05)
    for key in damaged:
        put_here(second, key, b"anew")
        assert neighbour.get(key) == b"anew"
    neighbour.close()
    second.close()
