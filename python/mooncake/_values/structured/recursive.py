"""Rows that are dicts and lists with arrays, tensors or bytes in them: stored as a tree whose leaves are columns.

The metadata is `{"root_path", "nodes", "leaves"}`. Each node and each leaf has the path of its column. A node lists
its children, a leaf names its codec. Their parts are members named `node.<id>.<part>` and `leaf.<id>.<part>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mooncake._values.structured.array import np
from mooncake._values.structured.column import EncodedColumn, Payload, flags
from mooncake._values.structured.infer import (
    MAX_DEPTH,
    MISSING,
    CodecDecision,
    InferredLeaf,
    InferredNode,
    child_path,
    present,
)

CODEC = "structured_recursive"
NODE_PARTS = ("missing_payload", "row_mask_payload", "lengths_payload")
_OWN_COLUMN = ("ragged_tensor", "bytes_ragged", "media_bytes", "media_list_ragged")


def is_worth_a_tree(leaves: Sequence[InferredLeaf]) -> bool:
    """Whether a leaf holds values that deserve a column of their own, like arrays, tensors or bytes."""
    return any(
        leaf.decision.codec in _OWN_COLUMN
        or (leaf.decision.codec == "typed_ragged" and any(isinstance(x, np.ndarray) for x in present(leaf.values)))
        for leaf in leaves
    )


def encode_tree(
    path: str,
    rows: int,
    leaves: Sequence[InferredLeaf],
    nodes: Sequence[InferredNode],
    encode_leaf: Callable[[str, Sequence[Any], CodecDecision], EncodedColumn],
) -> EncodedColumn:
    """Encodes a column as a tree of the inferred leaves and nodes. Raises ValueError if a leaf cannot be stored."""
    payload: Payload = {}
    described = {
        "schema_source": "inferred_from_runtime_values",
        "structure_version": 1,
        "root_path": path,
        "nodes": [_encode_node(index, node, payload) for index, node in enumerate(nodes)],
        "leaves": [_encode_leaf(index, leaf, payload, encode_leaf) for index, leaf in enumerate(leaves)],
    }
    return EncodedColumn(CODEC, rows, payload, described)


def decode_tree(
    payload: Mapping[str, Any],
    rows: int,
    metadata: Mapping[str, Any],
    decode_column: Callable[[str, Mapping[str, Any], int, Mapping[str, Any] | None], list[Any]],
) -> list[Any]:
    """Decodes the rows. Raises ValueError if parts are missing or do not fit together."""
    columns: dict[str, list[Any]] = {}
    try:
        for leaf in metadata["leaves"]:
            members = leaf["payload_members"]
            parts = {name: payload[member] for name, member in members.items() if name != "missing"}
            values = decode_column(leaf["codec"], parts, rows, leaf.get("metadata"))
            missing = flags(payload, members["missing"], rows, CODEC)
            columns[leaf["path"]] = [MISSING if gone else value for gone, value in zip(missing, values, strict=True)]
        nodes = {node["path"]: node for node in metadata["nodes"]}
        column = _column(metadata["root_path"], nodes, columns, payload, rows, 0)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{CODEC} payload is damaged: {error!r}") from error
    return [None if value is MISSING else value for value in column]


def leaf_members(leaf: Mapping[str, Any], members: Mapping[str, str]) -> dict[str, str]:
    """The members of one leaf, under the names that its codec uses."""
    return {name: members[member] for name, member in leaf["payload_members"].items() if name != "missing"}


def _encode_node(index: int, node: InferredNode, payload: Payload) -> dict[str, Any]:
    parts = {
        "missing": np.asarray(node.missing, dtype=np.bool_),
        "row_mask": np.asarray(node.row_mask, dtype=np.bool_),
        "lengths": None if node.lengths is None else np.asarray(node.lengths, dtype=np.int64),
    }
    described = {"id": index, "path": node.path, "node_type": node.node_type, "children": node.children}
    for name, part in parts.items():
        if part is not None:
            described[f"{name}_payload"] = f"node.{index}.{name}"
            payload[f"node.{index}.{name}"] = part
    return described


def _encode_leaf(
    index: int,
    leaf: InferredLeaf,
    payload: Payload,
    encode_leaf: Callable[[str, Sequence[Any], CodecDecision], EncodedColumn],
) -> dict[str, Any]:
    values = [None if value is MISSING else value for value in leaf.values]
    encoded = encode_leaf(leaf.path, values, leaf.decision)
    missing = np.asarray([value is MISSING for value in leaf.values], dtype=np.bool_)
    members = {name: f"leaf.{index}.{name}" for name in [*encoded.payload, "missing"]}
    payload |= {members[name]: part for name, part in {**encoded.payload, "missing": missing}.items()}
    described = {"id": index, "path": leaf.path, "codec": encoded.codec, "rows": encoded.rows}
    return {**described, "metadata": encoded.metadata, "payload_members": members}


def _column(
    path: str,
    nodes: Mapping[str, Mapping[str, Any]],
    columns: Mapping[str, list[Any]],
    payload: Mapping[str, Any],
    rows: int,
    depth: int,
) -> list[Any]:
    """The values of a leaf, or the values of a node, built from its children."""
    if path in columns:
        return columns[path]
    if depth > MAX_DEPTH:
        raise ValueError(f"{CODEC} metadata are nested too deep")
    node = nodes[path]
    children = node["children"]
    parts = [_column(child_path(path, child), nodes, columns, payload, rows, depth + 1) for child in children]
    missing = _node_flags(node, "missing_payload", payload, rows, False)
    present_rows = _node_flags(node, "row_mask_payload", payload, rows, True)
    items: Iterator[Any] = (
        _dicts(children, parts, rows) if node["node_type"] == "dict" else _lists(node, children, parts, payload, rows)
    )
    values = []
    for row, item in enumerate(items):
        values.append(MISSING if missing[row] else item if present_rows[row] else None)
    return values


def _dicts(keys: Sequence[str], parts: Sequence[list[Any]], rows: int) -> Iterator[dict[str, Any]]:
    for row in range(rows):
        yield {key: part[row] for key, part in zip(keys, parts, strict=True) if part[row] is not MISSING}


def _lists(
    node: Mapping[str, Any],
    positions: Sequence[int],
    parts: Sequence[list[Any]],
    payload: Mapping[str, Any],
    rows: int,
) -> Iterator[list[Any]]:
    if list(positions) != list(range(len(positions))):
        raise ValueError(f"{CODEC} positions of a list are not in order")
    name = node.get("lengths_payload")
    lengths = [len(positions)] * rows if name is None else np.asarray(payload[name]).tolist()
    if len(lengths) != rows or not all(0 <= length <= len(positions) for length in lengths):
        raise ValueError(f"{CODEC} lengths do not match the rows")
    for row, length in enumerate(lengths):
        yield [None if part[row] is MISSING else part[row] for part in parts[:length]]


def _node_flags(node: Mapping[str, Any], part: str, payload: Mapping[str, Any], rows: int, default: bool) -> list[bool]:
    name = node.get(part)
    return [default] * rows if name is None else flags(payload, name, rows, CODEC)
