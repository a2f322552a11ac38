"""The calls that copy: put, put_parts, put_batch, get, get_batch, get_buffer, and the calls that ask about keys."""

import ctypes
import gc
import weakref

import pytest
from cluster import MIB, Cluster, Memory, content, wait_until
from mooncake.store import BufferHandle, MooncakeDistributedStore

Store = MooncakeDistributedStore
POOLS = ["master", "local", "fabric"]
LENGTHS = [1, 7, 4096, 65_535, 65_536, 65_537, 256 << 10, MIB, 5 * MIB + 3]


@pytest.mark.parametrize("length", LENGTHS)
def test_what_was_put_is_got(store: Store, length: int) -> None:
    value = content("k", length)
    assert store.put("k", value) == 0
    assert (store.get("k"), store.get_size("k"), store.is_exist("k")) == (value, length, 1)
    handle = store.get_buffer("k")
    assert handle is not None
    assert bytes(handle) == value


def test_a_batch_of_short_and_long_values_with_misses_among_them(store: Store) -> None:
    values = {f"k{length}": content(f"k{length}", length) for length in LENGTHS}
    assert store.put_batch(list(values), list(values.values())) == 0
    keys = ["none", *values, "k7", "none either", f"k{MIB}"]
    assert store.get_batch(keys) == [values.get(key, b"") for key in keys]


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda v: memoryview(bytearray(v))])
def test_any_bytes_like_value(store: Store, make: type) -> None:
    value = content("k", 1024)
    assert store.put("k", make(value)) == 0
    assert store.get("k") == value


def test_a_value_with_wide_items_is_stored_whole(store: Store) -> None:
    numbers = (ctypes.c_double * 100)(*range(100))
    assert store.put("k", numbers) == 0
    assert store.get("k") == bytes(numbers)


def test_a_key_that_exists_keeps_its_value(store: Store) -> None:
    assert (store.put("k", b"first"), store.put("k", b"second"), store.get("k")) == (0, 0, b"first")


def test_two_stores_that_put_the_same_key(cluster: Cluster, store: Store) -> None:
    other = cluster.store()
    assert (store.put("k", b"mine"), other.put("k", b"theirs")) == (0, 0)
    assert (store.get("k"), other.get("k")) == (b"mine", b"mine")


def test_a_put_into_memory_that_was_just_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster("--default_kv_lease_ttl=2000") as cluster:
        cluster.start_node(16 * MIB)
        impatient = cluster.store()
        monkeypatch.setenv("MOONCAKE_PUT_WAIT_MS", "20000")
        patient = cluster.store()
        keys = [f"k{number}" for number in range(16)]
        assert impatient.put_batch(keys, [content(key, MIB) for key in keys]) == 0
        assert all(impatient.get_batch(keys))
        assert impatient.put("refused", content("refused", MIB)) == -200
        assert patient.put("new", content("new", MIB)) == 0
        assert patient.get("new") == content("new", MIB)


def test_a_miss(store: Store) -> None:
    assert (store.get("none"), store.get_buffer("none")) == (b"", None)
    assert (store.is_exist("none"), store.get_size("none")) == (0, -704)
    assert store.get_batch(["none", "none"]) == [b"", b""]


def test_an_empty_value(store: Store) -> None:
    assert store.put("k", b"") == -600
    assert store.put_parts("k", b"", bytearray()) == 0
    assert store.put_parts("k") == 0
    assert store.put_batch(["j", "k"], [b"v", b""]) == -600
    assert (store.is_exist("k"), store.get("j")) == (0, b"v")


def test_parts_are_joined(store: Store) -> None:
    value = content("k", 3000)
    parts = (value[:1], b"", bytearray(value[1:100]), memoryview(value)[100:])
    assert store.put_parts("k", *parts) == 0
    assert store.get("k") == value


def test_parts_must_be_rows_of_bytes(store: Store) -> None:
    with pytest.raises(RuntimeError, match="part 1 must be one-dimensional"):
        store.put_parts("k", b"v", memoryview(bytes(8)).cast("I"))
    with pytest.raises(RuntimeError, match="part 0 must be one-dimensional"):
        store.put_parts("k", memoryview(bytes(8)).cast("B", (2, 4)))
    assert store.is_exist("k") == 0


def test_put_batch_and_get_batch(store: Store) -> None:
    keys = [f"k{i}" for i in range(300)]
    values = [content(key, 100 + i) for i, key in enumerate(keys)]
    assert store.put_batch(keys, values) == 0
    assert store.get_batch([*keys, "none"]) == [*values, b""]
    assert store.batch_is_exist([*keys, "none"]) == [1] * 300 + [0]
    handles = store.batch_get_buffer([keys[7], "none"])
    assert handles[1] is None
    assert isinstance(handles[0], BufferHandle)
    assert bytes(handles[0]) == values[7]


def test_a_prefix_ends_where_the_first_object_is_missing(store: Store) -> None:
    keys = [f"k{i}" for i in range(300)]
    assert store.put_batch(keys, [b"v"] * 300) == 0
    assert [store.batch_prefix_len(asked) for asked in ([], ["none", *keys], keys)] == [0, 0, 300]
    assert store.batch_prefix_len([*keys[:7], "none", *keys[7:]]) == 7
    assert store.batch_prefix_len(keys * 40) == 12_000
    for wrong in ("", "k" * 5000):
        assert [store.batch_prefix_len(["k0", wrong]), store.is_exist(wrong)] == [-400, -400]
    assert store.remove("k0") == -706, "it is leased"


def test_put_batch_with_lists_of_different_lengths(store: Store) -> None:
    assert store.put_batch(["a", "b"], [b"v"]) == -600
    assert store.batch_is_exist(["a", "b"]) == [0, 0]


def test_empty_batches(store: Store) -> None:
    assert store.put_batch([], []) == 0
    answers = [store.get_batch([]), store.batch_get_buffer([]), store.batch_is_exist([]), store.batch_remove([])]
    assert answers == [[], [], [], []]
    assert [store.batch_put_from([], [], []), store.batch_get_into([], [], [])] == [[], []]


def test_results_are_lists_of_exact_int(store: Store) -> None:
    for answer in (store.batch_is_exist(["a", "b"]), store.batch_remove(["a", "b"])):
        assert [type(answer), *map(type, answer)] == [list, int, int]


def test_a_pure_server_does_not_copy(cluster: Cluster) -> None:
    server = cluster.store(segment_bytes=16 * MIB, buffer_bytes=0)
    assert (server.put("k", b"v"), server.put_parts("k", b"v"), server.put_batch(["k"], [b"v"])) == (-600, -600, -600)
    assert server.is_exist("k") == 0
    memory = Memory(4096)
    assert server.put_from("k", memory.write(0, b"value"), 5) == 0
    assert server.get_into("k", memory.address, 5) == 5
    assert (server.get("k"), server.get_buffer("k"), server.get_batch(["k"])) == (b"", None, [b""])
    server.close()


def test_a_buffer_outlives_its_object(store: Store) -> None:
    value = content("k", MIB)
    assert store.put("k", value) == 0
    handle = store.get_buffer("k")
    assert handle is not None
    assert store.remove("k", True) == 0
    assert (handle.size(), len(handle), handle.ptr() != 0) == (MIB, MIB, True)
    assert ctypes.string_at(handle.ptr(), 16) == value[:16]
    view = memoryview(handle)
    assert (view.ndim, view.itemsize, view.shape, view.format, view.readonly) == (1, 1, (MIB,), "B", False)
    gone = weakref.ref(handle)
    del handle
    gc.collect()
    assert gone() is not None, "the view keeps the handle"
    assert bytes(view) == value
    del view
    gc.collect()
    assert gone() is None


def test_keys(store: Store) -> None:
    long = "k" * 4096
    for key in ("a", "ключ", "鍵/with spaces\n", long):
        assert (store.put(key, b"v"), store.get(key)) == (0, b"v"), key
    for key in ("", "k" * 4097):
        assert (store.put(key, b"v"), store.put_parts(key, b"v"), store.put_batch([key], [b"v"])) == (-400, -400, -400)
        assert (store.get(key), store.get_buffer(key), store.get_batch([key])) == (b"", None, [b""])
        assert (store.is_exist(key), store.batch_is_exist([key, "a"])) == (-400, [-400, 1])
        assert (store.get_size(key), store.remove(key), store.batch_remove([key])) == (-400, -400, [-400])
    assert store.put(b"as bytes", b"v") == 0  # type: ignore[arg-type]
    assert store.get("as bytes") == b"v"


def test_a_full_segment_keeps_what_it_has() -> None:
    with Cluster("--default_kv_lease_ttl=60000") as small:
        small.start_node(16 * MIB)
        store = small.store()
        value = {f"k{i}": content(f"k{i}", MIB) for i in range(20)}
        codes = [(store.put(key, value[key]), store.is_exist(key)) for key in value]
        stored = [key for key, (code, _) in zip(value, codes, strict=True) if code == 0]
        assert {code for code, _ in codes} == {0, -200}, "full, and nothing may be evicted while it is leased"
        assert len(stored) >= 12
        assert store.put("too large", bytes(17 * MIB)) == -200
        assert [store.get(key) for key in stored] == [value[key] for key in stored]


def test_leases_keep_objects_and_run_out(store: Store) -> None:
    assert store.put("k", b"v") == 0
    assert store.get("k") == b"v"
    assert store.remove("k") == -706
    wait_until(lambda: store.remove("k") == 0, 5, "the lease of 300 ms ran out")
    assert (store.remove("k"), store.is_exist("k")) == (-704, 0)


def test_a_probe_leases_nothing_and_the_last_whole_group_only_where_that_is_asked_for(store: Store) -> None:
    keys = list("abcdef")
    assert store.put_batch(keys, [b"value"] * 6) == 0
    assert [store.probe_key("a"), store.probe_key("none"), store.probe_key("")] == [1, 0, -400]
    assert store.batch_probe_key([*keys, "none"]) == [1] * 6 + [0]
    assert store.batch_probe_key(keys, policy="none", candidate_size=5) == [1] * 6
    assert store.remove("a") == 0, "nothing was leased"
    assert store.put("a", b"value") == 0
    assert store.remove("f") == 0
    assert store.batch_probe_key(keys, "LastHitOnly", 2) == [1] * 5 + [0]
    assert [store.remove(key) for key in keys] == [0, 0, -706, -706, 0, -704]
    for wrong in [("LastHitOnly", 4), ("LastHitOnly", 0), ("lastHit", 1), ("", 1)]:
        assert store.batch_probe_key(keys, *wrong) == [-600] * 6, wrong
    assert store.batch_probe_key([], "LastHitOnly", 2) == []


def test_a_prefix_is_leased_from_where_the_caller_says(store: Store) -> None:
    keys = list("abcd")
    assert store.put_batch(keys, [b"value"] * 4) == 0
    assert store.batch_prefix_len([*keys, "none"], lease_from=2) == 4
    assert [store.remove(key) for key in keys] == [0, 0, -706, -706]
    assert store.batch_prefix_len(["a"], 2**63) == 0
