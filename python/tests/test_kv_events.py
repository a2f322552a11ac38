"""KV events for a consumer with libzmq: the stream, the replay of missed batches, and snapshots."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
import zmq
from cluster import MIB, Cluster, Process, free_port, wait_until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

SECONDS = 10.0
END = (-1).to_bytes(8, "big", signed=True)


class Follower:
    """A consumer. It tracks the set of keys and their tiers."""

    def __init__(self, ports: tuple[int, int], token: str = "") -> None:
        self.context = zmq.Context()
        self.stream = self.context.socket(zmq.SUB)
        self.asking = self.context.socket(zmq.DEALER)
        if token:
            for socket in (self.stream, self.asking):
                socket.plain_username, socket.plain_password = b"mooncake", token.encode()
        self.stream.subscribe(b"")
        self.stream.connect(f"tcp://127.0.0.1:{ports[0]}")
        self.asking.connect(f"tcp://127.0.0.1:{ports[1]}")
        self.known: set[tuple[str, str]] = set()
        self.events: list[dict[str, Any]] = []
        self.last = 0
        self.gaps = 0

    def close(self) -> None:
        self.context.destroy(linger=0)

    def take(self, payload: bytes) -> None:
        time_ms, events, rank = msgpack.unpackb(payload)
        assert time_ms > 1_700_000_000_000
        assert rank == 0
        for event in events:
            self.events.append(event)
            if event["event_type"] == "cleared":
                self.known.clear()
                continue
            place = (event["object_key"], event["medium"])
            (self.known.add if event["event_type"] == "stored" else self.known.discard)(place)

    def read(self) -> None:
        """Processes the batches that have arrived."""
        while self.stream.poll(0):
            topic, sequence, payload = self.stream.recv_multipart()
            assert topic == b""
            number = int.from_bytes(sequence, "big")
            if number <= self.last:
                continue
            self.gaps += number - self.last - 1
            self.last = number
            self.take(payload)

    def ask(self, request: bytes) -> list[tuple[int, bytes]]:
        self.asking.send_multipart([b"", request])
        answers: list[tuple[int, bytes]] = []
        while True:
            assert self.asking.poll(int(SECONDS * 1000)), "an answer comes"
            empty, sequence, payload = self.asking.recv_multipart()
            assert empty == b""
            if sequence == END:
                assert payload == b""
                return answers
            answers.append((int.from_bytes(sequence, "big"), payload))

    def begin(self) -> None:
        """Clears its state and loads a snapshot."""
        self.known.clear()
        self.gaps = 0
        for number, payload in self.ask(b"snapshot"):
            self.last = number
            self.take(payload)


class Events:
    """A cluster that publishes events, and its followers."""

    def __init__(self, *flags: str) -> None:
        self.ports = (free_port(), free_port())
        self.cluster = Cluster(
            "--default_kv_lease_ttl=50",
            "--enable_kv_events",
            f"--kv_events_bind_endpoint=tcp://127.0.0.1:{self.ports[0]}",
            f"--kv_events_replay_endpoint=tcp://*:{self.ports[1]}",
            "--kv_events_backend_id=pool-1",
            *flags,
        )
        self.followers: list[Follower] = []

    def __enter__(self) -> Events:
        self.cluster.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for follower in self.followers:
            follower.close()
        self.cluster.__exit__(*error)

    def follow(self) -> Follower:
        """Starts a follower, and waits until its subscription has arrived."""
        before = self.status()["subscribers"]
        follower = Follower(self.ports)
        self.followers.append(follower)
        wait_until(lambda: self.status()["subscribers"] == before + 1, SECONDS, "it is there")
        return follower

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.cluster.http("/kv_events/status") or "")
        return status

    def keys(self) -> set[str]:
        return set((self.cluster.http("/get_all_keys") or "").split())


@pytest.fixture
def events() -> Iterator[Events]:
    with Events() as made:
        yield made


def probe(store: MooncakeDistributedStore, follower: Follower) -> None:
    """Waits until an event reaches the follower: the subscription arrives later than the connection."""
    number = 0

    def comes() -> bool:
        nonlocal number
        number += 1
        assert store.put(f"probe-{number}", b"x") == 0
        follower.read()
        return bool(follower.events)

    wait_until(comes, SECONDS, "events come")


def settled(events: Events, follower: Follower, keys: set[str]) -> None:
    """Waits until the follower knows exactly these keys."""

    def is_so() -> bool:
        follower.read()
        return {key for key, _ in follower.known} == keys

    wait_until(is_so, SECONDS, f"it follows; it knows {sorted(follower.known)[:5]}, there are {sorted(keys)[:5]}")


def test_the_form_of_an_event(events: Events) -> None:
    store = events.cluster.store(16 * MIB)
    follower = events.follow()
    probe(store, follower)
    assert store.put("17", b"value") == 0
    assert store.put("m@ab", b"value") == 0
    follower.begin()
    assert store.remove("17", True) == 0
    settled(events, follower, events.keys())
    by_key = {(event["object_key"], event["event_type"]): event for event in follower.events if "object_key" in event}
    stored, removed, named = by_key["17", "stored"], by_key["17", "removed"], by_key["m@ab", "stored"]
    assert {name: stored[name] for name in ("type", "medium", "backend_id", "tenant_id", "seq_hashes")} == {
        "type": "BlockStored",
        "medium": "cpu",
        "backend_id": "pool-1",
        "tenant_id": "default",
        "seq_hashes": [17],
    }
    nothing = ("model_name", "block_size", "additional_salt", "lora_name", "group_id", "dp_rank", "parent_hash")
    assert [stored[name] for name in nothing] == [None] * len(nothing)
    assert (stored["block_hashes"], stored["base_block_idx"], stored["token_ids"]) == ([17], 0, None)
    assert (removed["type"], removed["block_hashes"], removed["base_block_idx"]) == ("BlockRemoved", [17], None)
    assert (named["seq_hashes"], named["block_hashes"]) == ([], [])
    assert stored["event_id"] < removed["event_id"]
    status = events.status()
    assert status["enabled"] is True
    assert status["endpoint"] == f"tcp://127.0.0.1:{events.ports[0]}"
    assert status["dropped_events"] == 0
    assert status["published_events"] >= len(by_key) > status["published_batches"] * 0
    assert status["skipped_unparsed_keys"] >= 1


def test_events_tell_groups_and_sessions(events: Events) -> None:
    store = events.cluster.store(16 * MIB)
    follower = events.follow()
    probe(store, follower)
    config = ReplicateConfig()
    config.group_ids, config.session_ids = ["7", ""], ["session-1", ""]
    assert store.put_batch(["1", "2"], [b"value"] * 2, config) == 0
    dropped = ReplicateConfig()
    dropped.session_ids = ["session-2"]
    assert store.put("3", b"value", dropped) == 0
    settled(events, follower, events.keys())
    told = [event for event in follower.events if event["event_type"] == "stored"]
    by_key = {event["object_key"]: (event["group_id"], event["session_id"]) for event in told}
    expected = {"1": ("7", "session-1"), "2": (None, None), "3": (None, "session-2")}
    assert {key: by_key[key] for key in expected} == expected
    # A follower that begins now learns the same.
    late = events.follow()
    late.begin()
    by_key = {event["object_key"]: (event["group_id"], event["session_id"]) for event in late.events}
    assert {key: by_key[key] for key in expected} == expected
    assert store.put("4", b"value", config) == -600, "two sessions, and one key"


def test_a_follower_knows_the_keys_of_a_pool_under_eviction(events: Events) -> None:
    store = events.cluster.store(8 * MIB)
    follower = events.follow()
    probe(store, follower)
    follower.begin()
    chance = random.Random(1)
    for number in range(300):
        key = f"key-{chance.randrange(60)}"
        action = chance.randrange(10)
        if action < 7:
            assert store.put(key, bytes(chance.randrange(1, 600_000))) in (0, -200)
        elif action < 8:
            store.upsert(key, bytes(1000))
        else:
            store.remove(key, True)
        if number % 50 == 0:
            follower.read()
    settled(events, follower, events.keys())
    assert 1 <= len(follower.known) < 60
    assert follower.gaps == 0
    # A follower that starts now gets the same keys from a snapshot.
    late = events.follow()
    late.begin()
    assert late.known == follower.known
    # A follower that missed batches asks for them.
    missed = Follower(events.ports)
    events.followers.append(missed)
    batches = missed.ask((1).to_bytes(8, "big"))
    numbers = [number for number, _ in batches]
    assert numbers == list(range(numbers[0], follower.last + 1))
    assert numbers[0] > 1_700_000_000_000_000
    for _, payload in batches:
        missed.take(payload)
    assert missed.known == follower.known
    assert store.remove_all(True) >= 0
    settled(events, follower, set())


def test_disks_are_a_tier_of_their_own(tmp_path: Path) -> None:
    with Events("--enable_offload=true") as events:
        store = MooncakeDistributedStore()
        config = {
            "local_hostname": "localhost",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_addr": events.cluster.master_address,
            "global_segment_size": 16 * MIB,
            "local_buffer_size": 16 * MIB,
            "enable_ssd_offload": "true",
            "ssd_offload_path": str(tmp_path),
        }
        assert store.setup(config) == 0
        events.cluster.stores.append(store)
        follower = events.follow()
        assert store.put("a", bytes(100_000)) == 0

        def is_on_both() -> bool:
            follower.begin()
            return follower.known == {("a", "cpu"), ("a", "disk")}

        wait_until(is_on_both, SECONDS, "it is in memory and on the disk")


def test_a_new_master_tells_anew_what_the_nodes_hold() -> None:
    with Events() as events:
        node = events.cluster.start_node(32 * MIB)
        store = events.cluster.store()
        assert [store.put(f"key-{number}", b"value", ReplicateConfig()) for number in range(20)] == [0] * 20
        events.cluster.master.kill()
        events.cluster.start_master()
        follower = events.follow()

        def knows_all() -> bool:
            follower.begin()
            return len(follower.known) == 20

        wait_until(knows_all, 30, "it knows what the nodes told")
        first = msgpack.unpackb(follower.ask((1).to_bytes(8, "big"))[0][1])[1][0]
        assert (first["event_type"], first["type"]) == ("cleared", "AllBlocksCleared")
        assert node.pid


def test_nothing_is_published_unless_it_is_asked_for(cluster: Cluster) -> None:
    status = json.loads(cluster.http("/kv_events/status") or "")
    assert (status["enabled"], status["endpoint"], status["published_events"]) == (False, None, 0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--kv_events_bind_endpoint=tcp://*:1"], "needs --kv_events_backend_id"),
        (["--kv_events_backend_id=b"], "--kv_events_bind_endpoint=: it must be like tcp://"),
        (["--kv_events_backend_id=b", "--kv_events_bind_endpoint=ipc:///x"], "it must be like tcp://0.0.0.0:5557"),
        (
            ["--kv_events_backend_id=b", "--kv_events_bind_endpoint=tcp://*:*", "--kv_events_queue_capacity=0"],
            "least 1",
        ),
    ],
)
def test_flags_that_are_wrong_are_refused(flags: list[str], message: str) -> None:
    master = Process("mooncake_master", "--rpc_port=0", "--metrics_port=0", "--enable_kv_events", *flags)
    wait_until(lambda: master.process.poll() is not None, SECONDS, "it ends")
    assert message in master.output()
    assert master.process.returncode == 2


def test_with_a_token_consumers_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_AUTH_TOKEN", "secret")
    with Events() as events:
        strangers = [Follower(events.ports), Follower(events.ports, "guess")]
        member = Follower(events.ports, "secret")
        events.followers += [*strangers, member]
        store = events.cluster.store(16 * MIB)
        probe(store, member)
        assert member.ask(b"snapshot")
        for stranger in strangers:
            # Once the publisher has turned it away, there is nobody to send to.
            with suppress(zmq.Again):
                stranger.asking.send_multipart([b"", b"snapshot"], zmq.NOBLOCK)
            assert not stranger.asking.poll(200)
            stranger.read()
            assert stranger.events == []
