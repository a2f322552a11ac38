"""Files that hold what callers stored are of one user, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import MIB, Cluster, content, wait_until
from mooncake.store import MooncakeDistributedStore


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The permissions of all that lies under a folder, and of the folder."""
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


@pytest.mark.usefixtures("open_umask")
def test_what_is_kept_on_disks_can_be_opened_by_its_user_only(tmp_path: Path) -> None:
    shared, disk, segment = (tmp_path / name for name in ("shared", "disk", "segment"))
    flags = [f"--root_fs_dir={shared}", "--quota_bytes=256MB", "--enable_offload=true"]
    with Cluster("--default_kv_lease_ttl=50", *flags) as cluster:
        store = MooncakeDistributedStore()
        config = {
            "local_hostname": "localhost",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_addr": cluster.master_address,
            "global_segment_size": 16 * MIB,
            "local_buffer_size": 4 * MIB,
            "enable_ssd_offload": True,
            "ssd_offload_path": str(disk),
            "segment_path": str(segment),
        }
        assert store.setup(config) == 0
        cluster.stores.append(store)
        assert store.put("key", content("key", MIB)) == 0
        wait_until(lambda: len(store.get_replica_desc("key")) > 1, 10, "a disk has the object")
        found: dict[str, int] = {}
        state = Path(cluster.state.name)
        for folder in (shared, disk, state):
            if folder.exists():
                found |= modes(folder)
        for path, mode in found.items():
            assert mode == (0o700 if Path(path).is_dir() else 0o600), f"{path} has the mode {mode:o}"
        assert any(str(disk) in path for path in found)
        assert any(str(state) in path for path in found)
        assert stat.S_IMODE(segment.stat().st_mode) == 0o600
