"""`ReplicateConfig`, the enumerations, and their effects on puts."""

import copy
import pickle
from enum import IntEnum
from typing import Any

import mooncake.store
import pytest
from cluster import MIB, Cluster, Memory, content
from mooncake.store import MooncakeDistributedStore, ObjectDataType, ReplicaStatus, ReplicateConfig, SoftPinAction

Store = MooncakeDistributedStore
DEFAULTS: dict[str, Any] = {
    "replica_num": 1,
    "nof_replica_num": 0,
    "dfs_replica_num": 0,
    "soft_pin_action": SoftPinAction.PRESERVE,
    "soft_pin_ttl_ms": None,
    "with_soft_pin": False,
    "with_hard_pin": False,
    "preferred_segments": [],
    "preferred_segment": "",
    "preferred_nof_segments": [],
    "prefer_alloc_in_same_node": False,
    "data_type": ObjectDataType.UNKNOWN,
    "group_ids": None,
    "session_ids": None,
    "residency_affinity_ids": None,
    "preferred_hca_names": None,
    "per_key_preferred_hca_names": None,
}
OTHERS: dict[str, Any] = {
    "replica_num": 2,
    "nof_replica_num": 1,
    "dfs_replica_num": 1,
    "soft_pin_action": SoftPinAction.ENABLE,
    "soft_pin_ttl_ms": (1 << 64) - 1,
    "with_soft_pin": True,
    "with_hard_pin": True,
    "preferred_segments": ["a:1", "b:2"],
    "preferred_segment": "c:3",
    "preferred_nof_segments": ["d:4"],
    "prefer_alloc_in_same_node": True,
    "data_type": ObjectDataType.TENSOR,
    "group_ids": ["g", "h"],
    "session_ids": ["s", "t"],
    "residency_affinity_ids": ["r"],
    "preferred_hca_names": ["mlx5_0"],
    "per_key_preferred_hca_names": [["mlx5_0"], []],
}


def config(**attributes: object) -> ReplicateConfig:
    made = ReplicateConfig()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def test_defaults() -> None:
    made = ReplicateConfig()
    assert {name: getattr(made, name) for name in DEFAULTS} == DEFAULTS
    assert hasattr(ReplicateConfig, "group_ids")


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_set_is_read(name: str) -> None:
    made = config(**{name: OTHERS[name]})
    expected = DEFAULTS | {name: OTHERS[name]}
    assert {name: getattr(made, name) for name in DEFAULTS} == expected
    assert type(getattr(made, name)) is type(OTHERS[name])


def test_its_text() -> None:
    text = str(config(**OTHERS))
    assert text == (
        "ReplicateConfig: { replica_num: 2, nof_replica_num: 1, dfs_replica_num: 1, soft_pin_action: ENABLE, "
        "soft_pin_ttl_ms: 18446744073709551615, with_soft_pin: true, with_hard_pin: true, "
        'preferred_segments: ["a:1", "b:2"], preferred_segment: "c:3", preferred_nof_segments: ["d:4"], '
        'prefer_alloc_in_same_node: true, data_type: TENSOR, group_ids: ["g", "h"], session_ids: ["s", "t"], '
        'residency_affinity_ids: ["r"], preferred_hca_names: ["mlx5_0"], '
        'per_key_preferred_hca_names: [["mlx5_0"], []] }'
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("replica_num", [None, -1, 1 << 64, "1", 1.5]),
        ("soft_pin_ttl_ms", [-1, 1 << 64, "1", 1.5]),
        ("soft_pin_action", [None, 3, -1, "ENABLE"]),
        ("data_type", [None, 10, "TENSOR"]),
        ("with_soft_pin", ["yes", [1]]),
        ("with_hard_pin", ["yes", [1]]),
        ("prefer_alloc_in_same_node", ["yes", [1]]),
        ("preferred_segment", [None, 5]),
        ("preferred_segments", [None, "a:1", [5]]),
        ("group_ids", ["g", [5]]),
        ("session_ids", ["s", [5]]),
        ("residency_affinity_ids", ["r", [5]]),
        ("preferred_hca_names", ["mlx5_0", [5]]),
        ("per_key_preferred_hca_names", ["mlx5_0", ["mlx5_0"], [[5]]]),
    ],
)
def test_a_wrong_type_raises_and_changes_nothing(name: str, values: list[Any]) -> None:
    made = ReplicateConfig()
    for value in values:
        with pytest.raises(TypeError, match=f"ReplicateConfig.{name} must "):
            setattr(made, name, value)
        assert getattr(made, name) == DEFAULTS[name]


@pytest.mark.parametrize(("value", "expected"), [(None, False), (0, False), (0.0, False), (1, True), (2**70, True)])
def test_a_flag_may_be_none_or_a_number(value: Any, expected: bool) -> None:
    made = ReplicateConfig()
    for name in ("with_soft_pin", "with_hard_pin", "prefer_alloc_in_same_node"):
        setattr(made, name, value)
        assert getattr(made, name) is expected


def test_an_unknown_attribute_raises() -> None:
    with pytest.raises(AttributeError):
        ReplicateConfig().sessions = ["s"]  # type: ignore[attr-defined]


def test_enumerations() -> None:
    members = {kind: {m.name: int(m) for m in kind} for kind in (SoftPinAction, ObjectDataType, ReplicaStatus)}
    assert members == {
        SoftPinAction: {"PRESERVE": 0, "ENABLE": 1, "DISABLE": 2},
        ObjectDataType: {
            "UNKNOWN": 0,
            "KVCACHE": 1,
            "TENSOR": 2,
            "WEIGHT": 3,
            "SAMPLE": 4,
            "ACTIVATION": 5,
            "GRADIENT": 6,
            "OPTIMIZER_STATE": 7,
            "METADATA": 8,
            "GENERAL": 9,
        },
        ReplicaStatus: {"UNDEFINED": 0, "INITIALIZED": 1, "PROCESSING": 2, "COMPLETE": 3, "REMOVED": 4, "FAILED": 5},
    }
    assert (repr(SoftPinAction.ENABLE), str(SoftPinAction.ENABLE)) == (
        "<SoftPinAction.ENABLE: 1>",
        "SoftPinAction.ENABLE",
    )
    assert (SoftPinAction(2), SoftPinAction.DISABLE.value) == (SoftPinAction.DISABLE, 2)
    assert pickle.loads(pickle.dumps(ObjectDataType.TENSOR)) is copy.copy(ObjectDataType.TENSOR)


@pytest.mark.parametrize("kind", [ObjectDataType, ReplicaStatus])
def test_members_stand_at_module_level(kind: type[IntEnum]) -> None:
    for member in kind:
        assert getattr(mooncake.store, member.name).name == member.name
    assert not hasattr(mooncake.store, "PRESERVE")


@pytest.mark.parametrize(
    "attributes",
    [
        {"soft_pin_action": SoftPinAction.ENABLE},
        {"soft_pin_action": SoftPinAction.ENABLE, "soft_pin_ttl_ms": 60_000},
        {"soft_pin_action": SoftPinAction.ENABLE, "soft_pin_ttl_ms": 0},
        {"soft_pin_action": SoftPinAction.DISABLE},
        {"with_soft_pin": True},
        {"with_hard_pin": True},
        {"replica_num": 2},
        {"replica_num": 7},
        {"preferred_segment": "nowhere:1"},
        {"preferred_segments": ["nowhere:1", "nowhere:2"]},
        {"data_type": ObjectDataType.TENSOR},
        {"group_ids": ["g"]},
        {"group_ids": []},
        {"session_ids": ["s"], "residency_affinity_ids": ["r"], "preferred_hca_names": ["mlx5_0"]},
        {"per_key_preferred_hca_names": [["mlx5_0"]]},
    ],
    ids=str,
)
def test_puts_that_follow_the_rules(store: Store, memory: Memory, attributes: dict[str, Any]) -> None:
    rules = config(**attributes)
    value = content("k", 1000)
    assert store.put("put", value, rules) == 0
    assert store.put_parts("parts", value[:10], value[10:], config=rules) == 0
    assert store.put_from("from", memory.write(0, value), 1000, rules) == 0
    assert store.batch_put_from(["batch"], [memory.address], [1000], rules) == [0]
    assert store.batch_put_from_multi_buffers(["multi"], [[memory.address]], [[1000]], rules) == [0]
    assert store.put_batch(["many"], [value], config=rules) == 0
    assert store.get_batch(["put", "parts", "from", "batch", "multi", "many"]) == [value] * 6


@pytest.mark.parametrize(
    "attributes",
    [
        {"replica_num": 0},
        {"replica_num": 1 << 40},
        {"nof_replica_num": 1},
        {"dfs_replica_num": 1},
        {"soft_pin_ttl_ms": 1000},
        {"soft_pin_ttl_ms": 1000, "soft_pin_action": SoftPinAction.DISABLE},
        {"soft_pin_ttl_ms": 1000, "with_soft_pin": True},
        {"soft_pin_ttl_ms": (1 << 64) - 1, "soft_pin_action": SoftPinAction.ENABLE},
        {"group_ids": ["one", "too many"]},
        {"session_ids": ["one", "too many"]},
        {"residency_affinity_ids": ["one", "too many"]},
        {"per_key_preferred_hca_names": [[], ["too many"]]},
    ],
    ids=str,
)
def test_rules_that_cannot_be_followed(store: Store, memory: Memory, attributes: dict[str, Any]) -> None:
    rules = config(**attributes)
    assert store.put("k", b"value", rules) == -600
    assert store.put_parts("k", b"value", config=rules) == -600
    assert store.put_batch(["k"], [b"value"], rules) == -600
    assert store.put_from("k", memory.address, 10, rules) == -600
    assert store.batch_put_from(["k"], [memory.address], [10], rules) == [-600]
    assert store.batch_put_from_multi_buffers(["k"], [[memory.address]], [[10]], rules) == [-600]
    assert store.is_exist("k") == 0


def test_prefer_alloc_in_same_node_is_for_batches(store: Store, memory: Memory) -> None:
    rules = config(prefer_alloc_in_same_node=True)
    assert store.put("k", b"value", rules) == -600
    assert store.put_from("k", memory.address, 10, rules) == -600
    assert store.batch_put_from_multi_buffers(["k"], [[memory.address]], [[10]], rules) == [0]


def test_objects_of_a_batch_lie_on_one_node_if_asked_to(cluster: Cluster, store: Store, memory: Memory) -> None:
    for _ in range(3):
        cluster.store(segment_bytes=16 * MIB)
    rules = config(prefer_alloc_in_same_node=True)
    keys = [f"k{i}" for i in range(40)]
    pieces = [[memory.address]] * len(keys)
    assert store.batch_put_from_multi_buffers(keys, pieces, [[10]] * len(keys), rules) == [0] * len(keys)
    places = [store.get_replica_desc(key)[0].get_memory_descriptor().buffer_descriptor for key in keys]
    assert len({place.transport_endpoint for place in places}) == 1


def test_a_preferred_segment_is_taken(cluster: Cluster, store: Store) -> None:
    here = cluster.store(segment_bytes=16 * MIB)
    rules = config(preferred_segment=here.get_hostname())
    assert [store.put(f"k{i}", b"value", rules) for i in range(20)] == [0] * 20
    here.close()
    assert store.get_batch([f"k{i}" for i in range(20)]) == [b""] * 20, "all of them lay on the segment that left"


def test_a_replica_survives_the_store_that_held_the_other() -> None:
    with Cluster() as pair:
        first, second = pair.store(16 * MIB), pair.store(16 * MIB)
        value = content("k", MIB)
        assert first.put("k", value, config(replica_num=2)) == 0
        assert (first.get("k"), second.get("k")) == (value, value)
        first.close()
        assert second.get("k") == value
        assert pair.setup(first, 16 * MIB) == 0
        assert (first.get("k"), second.get("k")) == (value, value)
