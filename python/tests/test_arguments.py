"""Arguments of a wrong type raise a TypeError that names the argument; no other argument raises."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster, Memory
from mooncake.store import ExistOptions, MooncakeDistributedStore, ReplicateConfig

CALLS: dict[str, tuple[list[Any], dict[str, list[Any]]]] = {
    # Each method with good arguments, and with bad values for each argument.
    "put": (
        ["k", b"v"],
        {"key": [None, 5, "\ud800", ["k"]], "value": [None, "text", 5, [b"v"], memoryview(b"abcd")[::2]]},
    ),
    "put_parts": (["k", b"v"], {"key": [None, 5], "parts": [None, "text", 5]}),
    "put_batch": ([["k"], [b"v"]], {"keys": [None, "k", [None], [5], {"k": 1}], "values": [None, b"v", [None], ["v"]]}),
    "put_from": (
        ["k", 1, 1],
        {"key": [None], "buffer_ptr": [None, "1", -1, 1.5, 1 << 64], "size": [None, "1", -1, 1.5]},
    ),
    "batch_put_from": (
        [["k"], [1], [1]],
        {"keys": [None, "k", [5]], "buffer_ptrs": [None, 1, [None], [-1]], "sizes": [None, 1, [-1], [1 << 64], ["1"]]},
    ),
    "batch_put_from_multi_buffers": (
        [["k"], [[1]], [[1]]],
        {"keys": [None, b"k"], "all_buffer_ptrs": [None, [1], [[None]]], "all_sizes": [None, [1], [[-1]], [["1"]]]},
    ),
    "get": (["k"], {"key": [None, 5, b"\xff"]}),
    "get_batch": ([["k"]], {"keys": [None, "k", [None]]}),
    "get_buffer": (["k"], {"key": [None, 5]}),
    "batch_get_buffer": ([["k"]], {"keys": [None, "k", [None]]}),
    "get_into": (["k", 1, 1], {"key": [None], "buffer_ptr": [None, -1], "size": [None, -1, 1 << 64]}),
    "batch_get_into": ([["k"], [1], [1]], {"keys": [None], "buffer_ptrs": [None, [-1]], "sizes": [None, [-1]]}),
    "batch_get_into_multi_buffers": (
        [["k"], [[1]], [[1]], False],
        {"keys": [None], "all_buffer_ptrs": [[1]], "all_sizes": [[1]], "prefer_alloc_in_same_node": ["yes", None]},
    ),
    "is_exist": (["k"], {"key": [None, 5]}),
    "batch_is_exist": ([["k"], ExistOptions()], {"keys": [None, "k", [5]], "options": [5, "x", {}]}),
    "batch_prefix_len": ([["k"], 0], {"keys": [None, "k", [5]], "lease_from": ["0", -1, 1.5]}),
    "probe_key": (["k"], {"key": [None, 5]}),
    "batch_probe_key": ([["k"], "none", 1], {"keys": [None, "k", [5]], "policy": [5], "candidate_size": ["1", -1]}),
    "prefetch": ([["k"]], {"keys": [None, "k", [5]]}),
    "get_size": (["k"], {"key": [None, 5]}),
    "remove": (["k", True], {"key": [None, 5], "force": ["yes", None]}),
    "batch_remove": ([["k"], True], {"keys": [None, "k"], "force": ["yes"]}),
    "remove_by_regex": (["k", True], {"regex_pattern": [None, 5], "force": ["yes"]}),
    "remove_all": ([True], {"force": ["yes"]}),
    "register_buffer": ([1, 1], {"buffer_ptr": [None, -1, "1"], "size": [None, -1, 1 << 64]}),
    "unregister_buffer": ([1], {"buffer_ptr": [None, -1, "1"]}),
    "put_from_with_metadata": (
        ["k", 1, 1, 1, 1],
        {
            "key": [None],
            "buffer_ptr": [None, -1],
            "metadata_buffer_ptr": ["1"],
            "size": [1.5],
            "metadata_size": [None, 1 << 64],
        },
    ),
    "upsert": (["k", b"v"], {"key": [None, 5], "value": [None, "text", 5]}),
    "upsert_parts": (["k", b"v"], {"key": [None, 5], "parts": [None, "text", 5]}),
    "upsert_batch": ([["k"], [b"v"]], {"keys": [None, "k", [None]], "values": [None, b"v", [None]]}),
    "upsert_from": (["k", 1, 1], {"key": [None], "buffer_ptr": [None, -1], "size": [None, "1"]}),
    "batch_upsert_from": (
        [["k"], [1], [1]],
        {"keys": [None, "k"], "buffer_ptrs": [None, [None]], "sizes": [None, [-1]]},
    ),
    "batch_upsert_from_multi_buffers": (
        [["k"], [[1]], [[1]]],
        {"keys": [None], "all_buffer_ptrs": [None, [1]], "all_sizes": [None, [1], [[-1]]]},
    ),
    "batch_put_session_start": ([["k"], [1]], {"keys": [None, "k"], "sizes": [None, 1, [-1]]}),
    "batch_put_from_multi_buffer_ranges": (
        [["k"], [[1]], [[1]], [[0]]],
        {"keys": [None], "all_buffer_ptrs": [[1]], "all_sizes": [[1]], "all_dst_offsets": [None, [0], [[-1]]]},
    ),
    "batch_put_session_end": ([["k"]], {"keys": [None, "k", [5]]}),
    "batch_put_session_revoke": ([["k"]], {"keys": [None, "k", [5]]}),
    "batch_get_session_start": ([["k"]], {"keys": [None, "k", [5]]}),
    "batch_get_into_multi_buffer_ranges": (
        [["k"], [[1]], [[1]], [[0]]],
        {"keys": [None], "all_buffer_ptrs": [[1]], "all_sizes": [[1]], "all_src_offsets": [None, [0], [[-1]]]},
    ),
    "batch_get_session_end": ([["k"]], {"keys": [None, "k", [5]]}),
    "get_into_ranges": (
        [[1], [["k"]], [[[0]]], [[[0]]], [[[1]]]],
        {
            "buffer_ptrs": [None, 1, [None]],
            "all_keys": [None, ["k"], [[5]]],
            "all_dst_offsets": [None, [0], [[0]]],
            "all_src_offsets": [None, [[[-1]]]],
            "all_sizes": [None, [[["1"]]]],
        },
    ),
    "get_replica_desc": (["k"], {"key": [None, 5]}),
    "batch_get_replica_desc": ([["k"]], {"keys": [None, "k", [5]]}),
    "batch_replica_clear": ([["k"], "s"], {"keys": [None, "k"], "segment_name": [5, ["s"]]}),
    "create_copy_task": (["k", ["s"]], {"key": [None], "targets": [None, "s", [5]]}),
    "create_move_task": (["k", "s", "t"], {"key": [None], "source": [5], "target": [None]}),
    "query_task": ([(1, 2)], {"task_id": [None, 1, (1,), ("a", "b"), (-1, 2)]}),
    "mount_segment": (
        ["/none", 4096, 0, "tcp", ""],
        {"path": [None, 5], "size": [None, -1], "offset": ["0", -1], "protocol": [5], "location": [5]},
    ),
    "allocate_and_mount_segment": ([4096, "tcp", ""], {"size": [None, -1], "protocol": [5], "location": [5]}),
    "unmount_segment": ([["1-2"], 0], {"segment_ids": [None, "1-2", [5]], "grace_period_seconds": ["1", -1]}),
    "unmount_and_free_segment": ([["1-2"], 0], {"segment_ids": [None, "1-2"], "grace_period_seconds": ["1", -1]}),
    "alloc_from_mem_pool": ([1], {"size": [None, -1, "1"]}),
    "setup_dummy": (
        [1, 1, "h"],
        {"mem_pool_size": [None, -1], "local_buffer_size": ["1"], "server_address": [None, 5]},
    ),
    "init_all": (["none", "", 0], {"protocol": [None, 5], "device_name": [5], "mount_segment_size": ["1", -1]}),
}


def shown(value: object) -> str:
    """The value without its address, so that all test processes give a test the same name."""
    return "strided memory" if isinstance(value, memoryview) else repr(value)


BAD = [
    pytest.param(method, position, name, value, id=f"{method}-{name}-{shown(value)}")
    for method, (_, bad) in CALLS.items()
    for position, (name, values) in enumerate(bad.items())
    for value in values
    if not (name in ("force", "prefer_alloc_in_same_node") and value is None)
]


def method_of(name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(MooncakeDistributedStore(), name)
    return method


@pytest.mark.parametrize(("method", "position", "name", "value"), BAD)
def test_a_wrong_type_is_named(method: str, position: int, name: str, value: object) -> None:
    arguments = [*CALLS[method][0]]
    arguments[position] = value
    with pytest.raises(TypeError) as error:
        method_of(method)(*arguments)
    assert str(error.value).startswith(f"{method}(): incompatible function arguments: '{name}' must ")


@pytest.mark.parametrize("method", [name for name in CALLS if name.startswith(("put", "upsert", "batch_upsert"))])
def test_a_wrong_config_is_named(method: str) -> None:
    for config in (5, [5], "config"):
        with pytest.raises(TypeError, match="'config' must be a ReplicateConfig"):
            method_of(method)(*CALLS[method][0], config=config)
    for good in (None, ReplicateConfig()):
        assert method_of(method)(*CALLS[method][0], config=good) in (-600, [-600])


@pytest.mark.parametrize("method", CALLS)
def test_an_unknown_keyword_is_named(method: str) -> None:
    with pytest.raises(TypeError, match="session_ids"):
        method_of(method)(*CALLS[method][0], session_ids=["s"])


@pytest.mark.parametrize("method", CALLS)
def test_a_missing_argument_is_named(method: str) -> None:
    first = next(iter(CALLS[method][1]))
    if first != "force":
        with pytest.raises(TypeError, match=first):
            method_of(method)()


# The result of a refused call with the arguments above. Where it is a number, any negative one.
REFUSED: dict[str, Any] = {
    "get": b"",
    "get_batch": [b""],
    "get_buffer": None,
    "batch_get_buffer": [None],
    "get_replica_desc": [],
    "batch_get_replica_desc": {},
    "batch_replica_clear": [],
    "alloc_from_mem_pool": 0,
}
# These methods need no pool, or open their own store.
ALONE = {"register_buffer", "unregister_buffer", "alloc_from_mem_pool", "setup_dummy", "init_all"}


def is_refusal(method: str, answer: Any) -> bool:
    if method in REFUSED:
        return bool(answer == REFUSED[method])
    match answer:
        case int():
            return answer < 0
        case dict():
            return bool(answer["ret"] < 0 and answer["segment_ids"] == [])
        case tuple():
            return bool(answer[0] in (None, (0, 0)) and answer[1] < 0)
        case list():
            return len(answer) == 1 and is_refusal("", answer[0])
    return False


@pytest.mark.parametrize("method", CALLS)
def test_a_store_that_is_not_set_up_refuses(method: str) -> None:
    assert is_refusal(method, method_of(method)(*CALLS[method][0]))


@pytest.mark.parametrize("method", sorted(set(CALLS) - {"setup_dummy", "init_all"}))
def test_a_store_that_is_closed_refuses(cluster: Cluster, method: str) -> None:
    store = MooncakeDistributedStore()
    assert cluster.setup(store) == 0
    assert store.close() == 0
    assert is_refusal(method, getattr(store, method)(*CALLS[method][0]))


def test_every_method_answers_without_a_master() -> None:
    """Without a master the connection is refused, so no call waits for its time limit."""
    memory = Memory(4096)
    with Cluster() as cluster:
        store = cluster.store()
        cluster.master.kill()
        for method in sorted(set(CALLS) - ALONE):
            arguments = with_memory(CALLS[method][0], memory.address)
            start = time.monotonic()
            answer = getattr(store, method)(*arguments)
            taken = time.monotonic() - start
            assert taken < 10, f"{method}: {taken} s"
            if method != "batch_get_session_end":
                assert is_refusal(method, answer), f"{method}: {answer}"


def with_memory(argument: Any, address: int) -> Any:
    """The same argument, with a valid address wherever it is an address."""
    if isinstance(argument, list):
        return [with_memory(item, address) for item in argument]
    return address if type(argument) is int and argument == 1 else argument


LENGTHS = [
    name
    for name, (good, _) in CALLS.items()
    if len(good) > 1 and all(isinstance(part, list) for part in good[:2])
    if name != "get_into_ranges"  # its shapes are in test_ranges.py
]


@pytest.mark.parametrize("method", LENGTHS)
def test_lists_of_different_lengths_are_refused_for_every_key(store: MooncakeDistributedStore, method: str) -> None:
    arguments = [*CALLS[method][0]]
    arguments[0] = ["k", "l", "m"]
    assert getattr(store, method)(*arguments) in (-600, [-600] * 3)


class Keys(list[Any]):
    """A subclass of list."""


class Key(str):
    """A subclass of str."""


@pytest.mark.parametrize("lent", [list, tuple, iter, Keys])
def test_answers_are_in_the_order_of_the_keys(store: MooncakeDistributedStore, lent: Callable[[Any], Any]) -> None:
    names = [f"order-{at}-\u00e9\u4e2d" for at in range(7)]
    for at in (1, 2, 5):
        assert store.put(names[at], bytes(at)) == 0
    keys = [names[0], Key(names[1]), names[2].encode(), *names[3:]]
    answers = store.batch_is_exist(lent(keys))
    assert answers == [0, 1, 1, 0, 0, 1, 0]
    assert {type(answer) for answer in answers} == {int}
    assert store.batch_is_exist(lent(keys[1:3])) == [1, 1]
    assert store.batch_is_exist(lent([])) == []


def test_the_position_of_a_wrong_item_is_named() -> None:
    with pytest.raises(TypeError, match=r"'keys' must hold a str that UTF-8 can hold at position 2, not 5"):
        method_of("batch_is_exist")(["a", "b", 5, None])
    with pytest.raises(TypeError, match=r"'all_sizes' must hold an integer .* at position 1, not NoneType"):
        method_of("batch_get_into_multi_buffers")(["a", "b"], [[1], [1]], [[1, 1], [1, None]])


def test_items_that_a_generator_gave_before_a_wrong_one_are_all_that_is_read() -> None:
    read = []

    def keys() -> Any:
        for key in ("a", 5, "b"):
            read.append(key)
            yield key

    with pytest.raises(TypeError, match="at position 1"):
        method_of("batch_is_exist")(keys())
    assert read == ["a", 5]


def test_a_list_that_its_items_empty_is_read_as_it_was() -> None:
    sizes: list[Any] = []

    class Emptying:
        def __index__(self) -> int:
            sizes.clear()
            return 1

    sizes.extend([Emptying(), 1, 1])
    assert method_of("batch_get_into")(["a", "b", "c"], [1, 1, 1], sizes) == [-600] * 3
    assert sizes == []


def test_keys_that_another_thread_drops_during_a_call_are_the_ones_asked_for(store: MooncakeDistributedStore) -> None:
    def names(turn: int) -> list[str]:
        return [f"turn-{turn % 2}-{at:0200d}" for at in range(100)]

    for key in names(0):
        assert store.put(key, key.encode()) == 0
    keys, ended = names(0), threading.Event()

    def replace() -> None:
        turn = 0
        while not ended.is_set():
            turn += 1
            keys[:] = names(turn)

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        answers = [store.batch_is_exist(keys) for _ in range(300)]
    finally:
        ended.set()
        replacing.join()
    assert {tuple(answer) for answer in answers} <= {(0,) * 100, (1,) * 100}


def test_lists_may_be_any_ordered_iterable() -> None:
    batch_is_exist = method_of("batch_is_exist")
    for keys in (["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}.keys(), Keys(["a", "b"])):
        assert batch_is_exist(keys) == [-600, -600]


def test_an_error_while_a_list_is_read_is_the_callers() -> None:
    def keys() -> Any:
        yield "a"
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        method_of("batch_is_exist")(keys())
