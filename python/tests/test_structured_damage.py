"""A damaged object is refused with an error that says so, or its value is right. It is never wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from structured import DictStore, column, np, same
from test_structured import COLUMNS

sos: Any = pytest.importorskip("mooncake.structured_object_store")
pytest.importorskip("msgpack")
ERRORS = (ValueError, RuntimeError, KeyError)
PAYLOAD = {"raw": b"0123456789", "array": np.arange(6, dtype="<i4").reshape(3, 2)}


def stored(values: Any, chunk_bytes: int = 1 << 20) -> tuple[DictStore, Any, dict[str, Any]]:
    """A store with one column, its transfer, and the handle of the column."""
    store = DictStore()
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p", default_chunk_bytes=chunk_bytes)
    ref = transfer.put_dataproto({"batch": {"i": np.arange(4)}, "non_tensor_batch": {"x": values}})
    return store, transfer, sos.export_dataproto_ref(ref)


def check_refused_or_right(transfer: Any, handle: Any, values: Any, what: object) -> int:
    """Returns how many of the reads are refused. The others must return the right values."""
    refused = 0
    for rows in (None, [0, 1, 2, 3], [3, 1], slice(1, 4)):
        try:
            got = transfer.get_dataproto(handle, rows=rows)
        except ERRORS:
            refused += 1
            continue
        expected = values if rows is None else values[rows]
        assert same(got["non_tensor_batch"]["x"], expected), (what, rows, got)
        assert got["batch"]["i"].tolist() == np.arange(4)[slice(None) if rows is None else rows].tolist()
    return refused


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("chunk_bytes", [5, 1 << 20])
def test_objects_that_are_lost_or_of_another_length_are_refused(name: str, chunk_bytes: int) -> None:
    store, transfer, handle = stored(COLUMNS[name][1], chunk_bytes)
    damages: tuple[Callable[[bytes], bytes], ...] = (
        lambda _: b"",
        lambda content: content[:-1],
        lambda content: content + b"\0",
    )
    for key, content in list(store.objects.items()):
        for damage in damages:
            store.objects[key] = damage(content)
            with pytest.raises(ERRORS):
                transfer.get_dataproto(handle)
            store.objects[key] = content
    assert check_refused_or_right(transfer, handle, COLUMNS[name][1], "mended") == 0


# An array without elements may have any shape that contains a zero.
@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "empty arrays"])
@pytest.mark.parametrize("byte", [b"\xff", b"\x7f", b"\x01"])
def test_offsets_and_shapes_that_lead_elsewhere_are_refused(name: str, byte: bytes) -> None:
    store, transfer, handle = stored(COLUMNS[name][1])
    parts = ("offsets", "shapes", "ndims", "row_offsets", "byte_offsets", "lengths")
    for key, content in list(store.objects.items()):
        if key.rpartition(".")[2] in parts:
            for start in range(0, len(content), 8):
                store.objects[key] = content[:start] + byte * len(content[start : start + 8]) + content[start + 8 :]
                check_refused_or_right(transfer, handle, COLUMNS[name][1], (key, start))
            store.objects[key] = byte * len(content)
            check_refused_or_right(transfer, handle, COLUMNS[name][1], key)
            store.objects[key] = content


@pytest.mark.parametrize("name", COLUMNS)
def test_a_handle_that_lacks_a_part_is_refused(name: str) -> None:
    _, transfer, handle = stored(COLUMNS[name][1])

    def refused(change: Callable[[dict[str, Any]], object]) -> bool:
        damaged = copy.deepcopy(handle)
        change(damaged["encoded_non_tensor"]["x"])
        return check_refused_or_right(transfer, damaged, COLUMNS[name][1], damaged) == 4

    assert refused(lambda encoded: encoded.update(codec="none"))
    assert refused(lambda encoded: encoded.pop("codec"))
    assert refused(lambda encoded: encoded.update(payload_members=[]))
    assert refused(lambda encoded: encoded.update(metadata=[1]))
    for part in handle["encoded_non_tensor"]["x"]["payload_members"]:
        for stranger in ({}, {part: "batch.i"}):
            damaged = copy.deepcopy(handle)
            members = damaged["encoded_non_tensor"]["x"]["payload_members"]
            del members[part]
            members |= stranger
            assert check_refused_or_right(transfer, damaged, COLUMNS[name][1], damaged) == 4, (part, stranger)


MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "invalid bundle manifest": lambda m: m.update(version=2),
    "object_id": lambda m: m.update(object_id=7),
    "buffer_object_ids": lambda m: m.update(buffer_object_ids="default/x"),
    "payload key is outside": lambda m: m["meta"].update(key="p/default/other/meta"),
    "bytes must be non-negative": lambda m: m["meta"].update(bytes=-1),
    "bundle payload bytes": lambda m: m["meta"].update(bytes="9"),
    "chunks are invalid": lambda m: m["buffers"]["raw"].update(chunks=[]),
    "chunk must be a dict": lambda m: m["buffers"]["raw"].update(chunks=["k"]),
    "chunk key is outside": lambda m: m["buffers"]["raw"]["chunks"][0].update(key="p/default/other"),
    "keys must be unique": lambda m: m["buffers"]["raw"]["chunks"].append(m["buffers"]["raw"]["chunks"][0]),
    "chunks total": lambda m: m["buffers"]["raw"]["chunks"].pop(),
    "cleanup_keys": lambda m: m.update(cleanup_keys=["p/default/other/meta"]),
    "buffers must be a dict": lambda m: m.update(buffers=[]),
    "buffer name": lambda m: m["buffers"].update({"a/b": m["buffers"]["raw"]}),
    "payload spec must be a dict": lambda m: m["buffers"].update(raw=None),
}


@pytest.mark.parametrize("message", MANIFESTS)
def test_a_damaged_manifest_is_refused_before_its_keys_are_used(message: str) -> None:
    store = DictStore()
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p", default_chunk_bytes=4)
    ref = transfer.put_object(PAYLOAD)
    manifest = copy.deepcopy(ref.manifest)
    MANIFESTS[message](manifest)
    store.objects[ref.manifest_key] = json.dumps(manifest).encode()
    before = dict(store.objects)
    for call in (transfer.get_object, transfer.remove_bundle):
        with pytest.raises(ValueError, match=message):
            call({"manifest_key": ref.manifest_key})
    assert store.objects == before


NUMBERS = np.arange(3)
RAGGED = {
    "data": NUMBERS,
    "offsets": np.array([0, 1, 3]),
    "shapes": np.array([[1], [2]]),
    "ndims": np.array([1, 1]),
    "nulls": np.array([False, False]),
}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"data": NUMBERS.astype("i4")}, "elements of int32"),
        ({"data": b"1234567"}, "no elements of int64"),
        ({"offsets": np.array([0, 3])}, "offsets length 2 does not match rows 2"),
        ({"offsets": np.array([0, 1, 2])}, "offsets end at 2, the data at 3"),
        ({"offsets": np.array([0, 1, 4])}, "offsets end at 4, the data at 3"),
        ({"offsets": np.array([1, 1, 3])}, "do not rise from 0"),
        ({"offsets": np.array([0, 4, 3])}, "do not rise from 0"),
        ({"offsets": np.array([0.0, 1.0, 3.0])}, "offsets length"),
        ({"shapes": np.array([[1], [3]])}, "row 1 has 2 elements, but shape"),
        ({"shapes": np.array([[1, 1], [-1, -2]]), "ndims": np.array([1, 2])}, "row 1 has 2 elements, but shape"),
        ({"shapes": np.array([1, 2])}, "shapes do not match rows"),
        ({"ndims": np.array([1])}, "ndims do not match rows"),
        ({"ndims": np.array([1, 2])}, "ndims are outside"),
        ({"nulls": np.array([0, 0])}, "nulls length 2 does not match"),
        ({"nulls": np.array([False])}, "nulls length 1 does not match"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(part: dict[str, Any], message: str) -> None:
    metadata = {"dtype": "int64", "row_format": "list"}
    assert sos._decode_typed_ragged_values(RAGGED, 2, metadata) == [[0], [1, 2]]
    with pytest.raises(ValueError, match=message):
        sos._decode_typed_ragged_values({**RAGGED, **part}, 2, metadata)
    for name in part:
        with pytest.raises(ValueError, match=f"payload is missing {name}"):
            sos._decode_typed_ragged_values({key: RAGGED[key] for key in RAGGED if key != name}, 2, metadata)


def test_the_manifest_of_another_object_is_refused() -> None:
    store = DictStore()
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p")
    one, other = transfer.put_object(PAYLOAD), transfer.put_object(PAYLOAD)
    store.objects[one.manifest_key] = store.objects[other.manifest_key]
    with pytest.raises(ValueError, match="manifest_key does not match"):
        transfer.get_object({"manifest_key": one.manifest_key})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    store = DictStore()
    store.objects["p/default/x/manifest"] = content
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p")
    with pytest.raises(ValueError, match="bundle manifest"):
        transfer.get_object({"manifest_key": "p/default/x/manifest"})
    with pytest.raises(ValueError, match="manifest_key"):
        transfer.get_object({})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"dtype": "<i8"}, "its shape says"),
        ({"dtype": "O"}, "cannot be stored"),
        ({"dtype": "no such"}, "unknown element type"),
        ({"dtype": None}, "missing dtype or shape"),
        ({"shape": None}, "missing dtype or shape"),
        ({"shape": [-3, -2]}, "missing dtype or shape"),
        ({"shape": [3, 3]}, "its shape says"),
        ({"encoding": "pickle"}, "unsupported structured field encoding"),
        ({"encoding": "torch_tensor", "nested": True, "format": "x"}, "unsupported nested tensor"),
        ({"encoding": "torch_tensor", "nested": True, "format": "tensor_parts"}, "invalid part metadata"),
    ],
)
def test_a_member_that_is_not_what_its_metadata_say_is_refused(spec: dict[str, Any], message: str) -> None:
    store = DictStore()
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p")
    ref = transfer.put_object(PAYLOAD)
    key = ref.manifest["meta"]["key"]
    metadata = json.loads(store.objects[key])
    metadata[sos.STRUCTURED_FIELD_SPECS_KEY]["array"].update(spec)
    bundle = transfer.put_bundle(json.dumps(metadata).encode(), {"array": PAYLOAD["array"].tobytes()})
    with pytest.raises(ValueError, match=message):
        transfer.get_object(bundle)


def test_a_tensor_that_is_not_what_its_metadata_say_is_refused() -> None:
    torch = pytest.importorskip("torch")
    store = DictStore()
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p")
    ref = transfer.put_object({"x": torch.arange(6).reshape(3, 2)})
    other = transfer.put_object({"x": torch.arange(6.0, dtype=torch.float64).reshape(2, 3)})
    keys = [r.manifest["buffers"]["x"]["key"] for r in (ref, other)]
    store.objects[keys[0]] = store.objects[keys[1]]
    with pytest.raises(ValueError, match="structured tensor payload"):
        transfer.get_object(ref)
    with pytest.raises(ValueError, match="does not match its manifest"):
        transfer.materialize(transfer.read_spec(ref).slice_member("x", 0, 0, 1))
    store.objects[keys[0]] = b"\0" * len(store.objects[keys[1]])
    with pytest.raises(ValueError, match="invalid serialized"):
        transfer.get_object(ref)


@pytest.mark.parametrize("torch_save", [False, True])
def test_a_damaged_nested_tensor_is_refused(monkeypatch: pytest.MonkeyPatch, torch_save: bool) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(sos, "_has_tensor_codec_helpers", lambda: not torch_save)
    store = DictStore()
    transfer = sos.MooncakeBundleTransfer(store, key_prefix="p")
    dense = torch.arange(6).reshape(3, 2)
    jagged = torch.nested.as_nested_tensor([torch.arange(2), torch.arange(3)], layout=torch.jagged)
    ref = transfer.put_object({"x": dense if torch_save else jagged})
    key = ref.manifest["buffers"]["x"]["key"]
    content = store.objects[key]
    assert same(transfer.get_object(ref)["x"], dense if torch_save else jagged)
    store.objects[key] = content[:-8] + b"\xff" * 8 if not torch_save else b"\0" * len(content)
    with pytest.raises(ValueError, match="invalid"):
        transfer.get_object(ref)


def test_a_put_that_fails_half_way_leaves_nothing() -> None:
    def put(refused: int) -> DictStore:
        store = DictStore(refused)
        transfer = sos.MooncakeBundleTransfer(store, key_prefix="p", default_chunk_bytes=60)
        try:
            transfer.put_object({"raw": b"x" * 150})
        except RuntimeError as error:
            assert "put failed for p/default/" in str(error)  # noqa: PT017
        return store

    puts = put(0).puts
    assert puts > 5
    for refused in range(1, puts + 1):
        assert put(refused).objects == {}, refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "other"}, "not a Mooncake DataProto"),
        ({"version": 3}, "version"),
        ({"version": None}, "version"),
        ({"kind": "x"}, "kind"),
        ({"batch_size": -1}, "batch_size"),
        ({"batch_size": "4"}, "batch_size"),
        ({"stage_refs": []}, "stage_refs must be a mapping"),
        ({"stage_refs": {"default": {"manifest_key": 7}}}, "non-empty string"),
        ({"field_index": {"x": {"stage": "default", "member": "m", "section": "meta_info"}}}, "section"),
        ({"field_index": {"x": None}}, "must be a mapping"),
        ({"meta_info": None}, "meta_info must be a mapping"),
        ({"global_indexes": [True]}, "global_indexes"),
        ({"storage_group_id": 7}, "storage_group_id"),
    ],
)
def test_a_damaged_handle_is_refused(change: dict[str, Any], message: str) -> None:
    _, _, handle = stored(column("a", None, "b", "c"))
    with pytest.raises(ValueError, match=message):
        sos.import_dataproto_ref({**handle, **change})
