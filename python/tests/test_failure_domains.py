"""Replicas lie in different racks, which the nodes name."""

from __future__ import annotations

import json
import subprocess

import pytest
from cluster import COMMANDS, MIB, Cluster, content
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

INVALID = -600


def opened(cluster: Cluster, **settings: object) -> tuple[MooncakeDistributedStore, int]:
    """Sets up a store that lends 16 MiB, with these further settings. Returns it and the result of `setup`."""
    store = MooncakeDistributedStore()
    common = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "local_buffer_size": MIB}
    sizes = {"global_segment_size": 16 * MIB, "master_server_addr": cluster.master_address}
    return store, store.setup(common | sizes | settings)


def racks_of_segments(cluster: Cluster) -> dict[str, list[str]]:
    """The failure domains that the master lists for each segment, by the segment's name."""
    detail = json.loads(cluster.http("/get_segments_detail") or "null")
    return {segment["segment_name"]: segment["domains"] for segment in detail["segments"]}


def test_replicas_lie_in_different_racks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only racks tell the segments of one host apart: two from `setup`, one from the environment, one from a flag."""
    with Cluster() as cluster:
        all_three = [opened(cluster, domain="rack=a") for _ in range(2)]
        monkeypatch.setenv("MOONCAKE_DOMAIN", "rack=a,zone=east")
        all_three.append(opened(cluster))
        assert [code for _, code in all_three] == [0, 0, 0]
        first, second, third = [store for store, _ in all_three]
        node = cluster.start_node(16 * MIB, "--domain=rack=b,zone=east")
        racks = racks_of_segments(cluster)
        assert sorted(racks.values()) == [["rack=a"], ["rack=a"], ["rack=a", "zone=east"], ["rack=b", "zone=east"]]
        config = ReplicateConfig()
        config.replica_num = 2
        keys = [f"key-{number}" for number in range(20)]
        for key in keys:
            assert first.put(key, content(key, 10_000), config) == 0
            replicas = first.get_replica_desc(key)
            endpoints = [it.get_memory_descriptor().buffer_descriptor.transport_endpoint for it in replicas]
            assert sorted(racks[endpoint][0] for endpoint in endpoints) == ["rack=a", "rack=b"], key
        # Each rack holds a replica of every object.
        node.kill()
        assert [second.get(key) for key in keys] == [content(key, 10_000) for key in keys]
        for store in (first, second, third):
            store.close()


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        ("r7", '"r7" is no failure domain: expected NAME=VALUE, like rack=r7'),
        ("rack=", '"rack=" is no failure domain'),
        ("rack=1,rack=2", 'there are two failure domains called "rack"'),
        ("rack=" + "7" * 300, "a failure domain has 305 bytes; at most 256 are allowed"),
        ("a=1,b=1,c=1,d=1,e=1", "5 failure domains are too many; at most 4 are allowed"),
    ],
)
def test_domains_that_make_no_sense_are_refused(
    cluster: Cluster, capfd: pytest.CaptureFixture[str], domain: str, reason: str
) -> None:
    _, code = opened(cluster, domain=domain)
    assert code == INVALID
    assert reason in capfd.readouterr().err
    ended = subprocess.run(
        [str(COMMANDS / "mooncake_client"), f"--domain={domain}"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode != 0
    assert reason in ended.stderr


def test_a_wrong_variable_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOONCAKE_DOMAIN", "r7")
    _, code = opened(cluster)
    assert code == INVALID
    told = capfd.readouterr().err
    assert "MOONCAKE_DOMAIN" in told
    assert "NAME=VALUE" in told
