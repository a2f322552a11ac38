"""The master's service for gRPC, called by grpcio with messages that protobuf makes of `proto/master_service.proto`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cluster import MIB, Cluster, Process, content, free_port, wait_until
from grpc_tools import protoc

PROTO = Path(__file__).parents[2] / "proto"
SECONDS = 20.0
NOT_FOUND = -704
HAS_LEASE = -706


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module with the messages, made by protoc."""
    folder = tmp_path_factory.mktemp("schema")
    arguments = ["protoc", f"-I{PROTO}", f"--python_out={folder}", str(PROTO / "master_service.proto")]
    assert protoc.main(arguments) == 0
    sys.path.insert(0, str(folder))
    yield importlib.import_module("master_service_pb2")
    sys.path.remove(str(folder))


class Caller:
    """A gRPC connection to a master: a client of the pool."""

    def __init__(self, schema: Any, master: str, token: str = "", tenant: str = "") -> None:
        # A subchannel of its own, since connections with the same address are shared otherwise.
        self.channel = grpc.insecure_channel(master, options=[("grpc.use_local_subchannel_pool", 1)])
        self.schema = schema
        named = {"authorization": token and f"Bearer {token}", "x-mooncake-tenant": tenant}
        self.metadata = [(name, value) for name, value in named.items() if value]

    def call(self, method: str, **fields: Any) -> Any:
        request = getattr(self.schema, f"{method}Request")(**fields)
        response = getattr(self.schema, f"{method}Response")
        stub = self.channel.unary_unary(
            f"/MasterService/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return stub(request, timeout=SECONDS, metadata=self.metadata, wait_for_ready=True)

    def put_start(self, key: str, length: int, **fields: Any) -> Any:
        config = self.schema.ReplicateConfig(**fields)
        return self.call("PutStart", key=key, value_length=length, config=config)

    def raw(self, method: str, request: bytes) -> bytes:
        """A call with messages that the caller has encoded."""
        answer = self.channel.unary_unary(method)(request, timeout=SECONDS, wait_for_ready=True)
        assert isinstance(answer, bytes)
        return answer


@pytest.fixture
def caller(schema: Any, cluster: Cluster) -> Iterator[Caller]:
    caller = Caller(schema, cluster.master_address)
    yield caller
    caller.channel.close()


def test_replicas_of_an_object_are_listed(caller: Caller, store: Any, schema: Any) -> None:
    assert caller.call("GetReplicaList", key="one").status_code == NOT_FOUND
    assert store.put("one", content("one", 5000)) == 0
    found = caller.call("GetReplicaList", key="one")
    assert found.status_code == 0
    [replica] = found.replica_list
    assert replica.status == schema.ReplicaInfo.COMPLETE
    [handle] = replica.handles
    assert (handle.size, handle.status) == (5000, schema.BufHandle.COMPLETE)
    [where] = store.get_replica_desc("one")
    assert handle.segment == where.get_memory_descriptor().buffer_descriptor.transport_endpoint
    assert handle.endpoint.count(":") == 1
    # The look-up has granted a lease.
    assert store.remove("one") == HAS_LEASE


def test_objects_are_listed_and_removed_by_a_pattern(caller: Caller, store: Any) -> None:
    for at in range(5):
        assert store.put(f"many-{at}", b"value") == 0
    assert store.put("other", b"value") == 0
    found = caller.call("GetReplicaListByRegex", key_regex="^many-[0-3]$")
    assert found.status_code == 0
    assert sorted(found.object_map) == [f"many-{at}" for at in range(4)]
    assert [handle.size for handle in found.object_map["many-0"].replica_list[0].handles] == [5]
    removed = caller.call("RemoveByRegex", key_regex="^many-")
    assert (removed.status_code, removed.removed_count) == (0, 5)
    assert caller.call("GetReplicaListByRegex", key_regex=".").object_map.keys() == {"other"}
    for method in ["GetReplicaListByRegex", "RemoveByRegex"]:
        assert caller.call(method, key_regex="(").status_code == -600
        assert caller.call(method, key_regex="a" * 5000).status_code == -600


def test_an_object_is_removed_and_nobody_reads_it_afterwards(caller: Caller, store: Any) -> None:
    assert caller.call("Remove", key="gone").status_code == NOT_FOUND
    assert store.put("gone", content("gone", 5000)) == 0
    assert store.get("gone") == content("gone", 5000)
    # The store has a lease from its read.
    wait_until(lambda: caller.call("Remove", key="gone").status_code == 0, SECONDS, "the lease ends")
    assert store.get("gone") == b""
    assert store.is_exist("gone") == 0


def test_a_put_is_started_and_ended(caller: Caller, store: Any, schema: Any, cluster: Cluster) -> None:
    segment = cluster.segments()[1]
    started = caller.put_start("put", 3000, replica_num=2, with_soft_pin=True, preferred_segment=segment)
    assert started.status_code == 0
    assert len(started.replica_list) == 2
    for replica in started.replica_list:
        assert replica.status == schema.ReplicaInfo.PROCESSING
        assert [(handle.size, handle.status) for handle in replica.handles] == [(3000, schema.BufHandle.INIT)]
    places = [replica.handles[0].segment for replica in started.replica_list]
    assert sorted(places) == sorted(cluster.segments())
    assert places[0] == segment
    # Until it ends, nobody finds it, and nobody else may end it.
    assert store.is_exist("put") == 0
    other = Caller(schema, cluster.master_address)
    assert other.call("PutEnd", key="put").status_code == NOT_FOUND
    other.channel.close()
    assert caller.call("PutEnd", key="put").status_code == 0
    assert store.is_exist("put") == 1
    assert caller.call("PutEnd", key="put").status_code == NOT_FOUND
    assert caller.put_start("put", 3000).status_code == -705
    # No node has taken bytes under the grant, so no reader gets any.
    assert store.get("put") == b""


def test_a_put_that_cannot_be_is_refused(caller: Caller, schema: Any) -> None:
    for key, length, code in [("", 5, -400), ("k" * 4097, 5, -400), ("key", 0, -600), ("key", -1, -600)]:
        assert caller.put_start(key, length).status_code == code, (key, length)
    assert caller.put_start("key", 1 << 40).status_code == -200
    assert caller.put_start("key", 5, replica_num=1 << 40).status_code == -600
    config = schema.ReplicateConfig()
    for slices, code in [([2, 3], 0), ([2, 2], -600), ([1 << 63, 1 << 63, 5], -600)]:
        answer = caller.call("PutStart", key="sliced", value_length=5, config=config, slice_lengths=slices)
        assert answer.status_code == code, slices


def test_a_segment_is_mounted_as_long_as_its_connection_is_open(caller: Caller, schema: Any, cluster: Cluster) -> None:
    name = f"127.0.0.1:{free_port()}"

    def is_mounted(of: str) -> bool:
        return of in cluster.segments()

    assert caller.call("UnmountSegment", segment_name=name).status_code == -101
    mounted = caller.call("MountSegment", buffer=1 << 40, size=16 * MIB, segment_name=name)
    assert mounted.status_code == 0
    assert is_mounted(name)
    assert caller.call("MountSegment", buffer=0, size=16 * MIB, segment_name=name).status_code == -102
    # Nobody serves there, so nothing is put there.
    started = caller.put_start("elsewhere", 1000, preferred_segment=name)
    assert started.status_code == 0
    assert started.replica_list[0].handles[0].segment != name
    assert caller.call("UnmountSegment", segment_name=name).status_code == 0
    assert not is_mounted(name)
    assert caller.call("MountSegment", buffer=0, size=5, segment_name=name).status_code == -600

    other = Caller(schema, cluster.master_address)
    theirs = f"127.0.0.1:{free_port()}"
    assert other.call("MountSegment", buffer=0, size=16 * MIB, segment_name=theirs).status_code == 0
    assert caller.call("UnmountSegment", segment_name=theirs).status_code == -101
    other.channel.close()
    wait_until(lambda: not is_mounted(theirs), SECONDS, "the segment of a closed connection leaves")


def test_a_segment_is_longer_than_memories_are(caller: Caller, cluster: Cluster) -> None:
    before, name = cluster.segments(), f"127.0.0.1:{free_port()}"
    for size in (1 << 46, (1 << 44) + 1):
        assert caller.call("MountSegment", buffer=0, segment_name=name, size=size).status_code == -600
    assert cluster.segments() == before


def test_a_name_that_could_forge_lines_of_logs_is_refused(caller: Caller, cluster: Cluster) -> None:
    before = cluster.segments()
    name = "a\nforged\x1b[2J:1"
    assert caller.call("MountSegment", buffer=0, segment_name=name, size=1 << 20).status_code == -600
    assert cluster.segments() == before
    assert "\x1b[2J" not in cluster.master.output()


def test_health_and_reflection_answer(caller: Caller) -> None:
    check = "/grpc.health.v1.Health/Check"
    assert caller.raw(check, b"") == b"\x08\x01"
    assert caller.raw(check, b"\x0a\x0dMasterService") == b"\x08\x01"
    with pytest.raises(grpc.RpcError) as unknown:
        caller.raw(check, b"\x0a\x05Other")
    assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
    ask = caller.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    # list_services, of any name
    [answer] = ask(iter([b"\x3a\x00"]), timeout=SECONDS)
    assert b"MasterService" in answer
    assert b"grpc.health.v1.Health" in answer


def test_only_the_token_opens_the_service(schema: Any) -> None:
    with Cluster("--auth_token=secret") as cluster:
        for token in ["", "wrong"]:
            caller = Caller(schema, cluster.master_address, token)
            with pytest.raises(grpc.RpcError) as refused:
                caller.call("GetReplicaList", key="key")
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert caller.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
            caller.channel.close()
        caller = Caller(schema, cluster.master_address, "secret")
        assert caller.call("GetReplicaList", key="key").status_code == NOT_FOUND
        # One connection may carry calls with and without it.
        caller.metadata = []
        with pytest.raises(grpc.RpcError):
            caller.call("GetReplicaList", key="key")
        caller.channel.close()


def test_what_is_no_call_is_refused(caller: Caller, cluster: Cluster) -> None:
    for method, request, code in [
        ("/MasterService/Nothing", b"", grpc.StatusCode.UNIMPLEMENTED),
        ("/MasterService/Remove", b"\xff\xff\xff", grpc.StatusCode.INTERNAL),
        ("/MasterService/Remove", b"\x0a\xff\xff\xff\x7f" + bytes(2 << 20), grpc.StatusCode.OUT_OF_RANGE),
    ]:
        with pytest.raises(grpc.RpcError) as refused:
            caller.raw(method, request)
        assert refused.value.code() == code, method
    # A key that is missing is an empty one.
    assert caller.raw("/MasterService/Remove", b"") != b""
    assert caller.call("Remove", key="key").status_code == NOT_FOUND


def test_a_standby_says_which_master_leads(schema: Any, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    flags = ["--enable_ha", "--ha_backend_type=file", f"--ha_backend_connstring={tmp_path}", "--rpc_address=127.0.0.1"]
    masters = [Process("mooncake_master", f"--rpc_port={port}", "--metrics_port=0", *flags) for port in ports]
    callers = [Caller(schema, f"127.0.0.1:{port}") for port in ports]

    def health() -> list[bytes]:
        return [caller.raw("/grpc.health.v1.Health/Check", b"") for caller in callers]

    try:
        wait_until(lambda: sorted(health()) == [b"\x08\x01", b"\x08\x02"], SECONDS, "one of two leads")
        states = health()
        leader, standby = callers[states.index(b"\x08\x01")], callers[states.index(b"\x08\x02")]
        assert leader.call("GetReplicaList", key="key").status_code == NOT_FOUND
        with pytest.raises(grpc.RpcError) as refused:
            standby.call("GetReplicaList", key="key")
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert str(ports[states.index(b"\x08\x01")]) in refused.value.details()
    finally:
        for caller in callers:
            caller.channel.close()
        for master in masters:
            master.stop()


def test_a_call_is_about_the_tenant_that_its_metadata_name(schema: Any, cluster: Cluster, store: Any) -> None:
    blue = store.for_tenant("blue")
    assert (store.put("one", b"own"), blue.put("one", b"blue's"), blue.put("two", b"2")) == (0, 0, 0)
    callers = {name: Caller(schema, cluster.master_address, tenant=name) for name in ("", "blue", "red", "_x")}
    try:
        lengths = {}
        for name in ("", "blue", "red"):
            found = callers[name].call("GetReplicaListByRegex", key_regex=".*").object_map
            lengths[name] = {key: replicas.replica_list[0].handles[0].size for key, replicas in found.items()}
        assert lengths == {"": {"one": 3}, "blue": {"one": 6, "two": 1}, "red": {}}
        assert callers["red"].call("GetReplicaList", key="one").status_code == NOT_FOUND
        assert callers["blue"].call("Remove", key="two").status_code == 0
        assert callers["blue"].put_start("two", 7).status_code == 0
        assert callers[""].call("PutEnd", key="two").status_code == NOT_FOUND
        assert callers["blue"].call("PutEnd", key="two").status_code == 0
        assert (store.is_exist("two"), blue.is_exist("two")) == (0, 1)
        assert callers["red"].call("RemoveByRegex", key_regex="o").removed_count == 0
        assert store.is_exist("one") == 1
        with pytest.raises(grpc.RpcError) as refused:
            callers["_x"].call("GetReplicaList", key="one")
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "x-mooncake-tenant: a tenant has a name" in refused.value.details()
    finally:
        for caller in callers.values():
            caller.channel.close()
