"""The header of a tensor and the manifest of its shards: written, read, and refused if they are inconsistent."""

from __future__ import annotations

import struct

import pytest
from mooncake._values.tensor import layout, manifest
from mooncake._values.tensor.layout import HEADER_BYTES, Layout, LayoutAxis, full_layout

PLAIN = full_layout(0, (2, 3))
AXES = (LayoutAxis(0, 0, 1, 2, -1, 0, 0), LayoutAxis(2, 1, 0, 4, -1, 9, 0), LayoutAxis(1, 2, 1, 3, 1, 0, 2))
SHARD = Layout(12, (4, 6), (4, 2), AXES, is_shard=True)


def test_the_length_never_changes() -> None:
    assert (HEADER_BYTES, manifest.MANIFEST_BYTES) == (304, 96)


@pytest.mark.parametrize(
    "made",
    [PLAIN, SHARD, full_layout(14, ()), full_layout(1, (0,)), full_layout(10, (1,) * 8), full_layout(3, (1 << 40,))],
)
def test_what_was_packed_is_parsed(made: Layout) -> None:
    raw = made.pack()
    assert len(raw) == HEADER_BYTES
    assert layout.parse(raw, made.total_bytes) == made
    for wrong in (made.total_bytes - 1, made.total_bytes + 1, 0, HEADER_BYTES - 1):
        assert layout.parse(raw, wrong) is None


# Offset in the header, format, value: each makes the header of PLAIN, an object of 328 bytes, inconsistent.
LIES = [
    (0, "<I", 0x4D4F4F4F),
    (4, "<H", 2),
    (6, "<H", 303),
    (8, "<i", -1),
    (8, "<i", 15),
    (8, "<i", 1),
    (12, "<i", -1),
    (12, "<i", 9),
    (12, "<i", 1 << 30),
    (12, "<i", 1),
    (12, "<i", 3),
    (16, "<I", 2),
    (24, "<Q", 303),
    (24, "<Q", 305),
    (24, "<Q", 329),
    (24, "<Q", (1 << 64) - 1),
    (32, "<Q", 23),
    (32, "<Q", 25),
    (32, "<Q", (1 << 64) - 304),
    (40, "<q", -1),
    (56, "<q", 0),
    (104, "<q", 3),
    (104, "<q", -2),
    (104, "<q", 1 << 62),
    (120, "<q", 7),
    (168, "<I", 5),
    (168, "<I", (1 << 32) - 1),
]
# The same for the axis of SHARD_OF_ONE, which starts at byte 176.
AXIS_LIES = [(0, -1), (0, 5), (8, -1), (8, 2), (12, 0), (12, -1), (16, -2), (16, 2)]
SHARD_OF_ONE = Layout(0, (4, 3), (2, 3), (LayoutAxis(1, 0, 1, 2, 0, 0, 2),), is_shard=True)


@pytest.mark.parametrize(("offset", "form", "value"), LIES)
def test_a_header_that_lies_is_none(offset: int, form: str, value: int) -> None:
    raw = bytearray(PLAIN.pack())
    struct.pack_into(form, raw, offset, value)
    assert layout.parse(bytes(raw), PLAIN.total_bytes) is None


@pytest.mark.parametrize(("offset", "value"), AXIS_LIES)
def test_an_axis_that_lies_is_none(offset: int, value: int) -> None:
    raw = bytearray(SHARD_OF_ONE.pack())
    assert layout.parse(bytes(raw), SHARD_OF_ONE.total_bytes) == SHARD_OF_ONE
    struct.pack_into("<i", raw, 176 + offset, value)
    assert layout.parse(bytes(raw), SHARD_OF_ONE.total_bytes) is None


def test_a_shape_whose_product_overflows_is_none_even_with_a_zero() -> None:
    raw = bytearray(full_layout(0, (1, 1, 0)).pack())
    for shape in (40, 104):
        struct.pack_into("<2q", raw, shape, 1 << 62, 1 << 62)
    assert layout.parse(bytes(raw), HEADER_BYTES) is None


def test_elements_may_start_later() -> None:
    raw = bytearray(PLAIN.pack())
    struct.pack_into("<Q", raw, 24, 400)
    assert layout.parse(bytes(raw), 424) == Layout(0, (2, 3), (2, 3), data_offset=400)
    assert layout.parse(bytes(raw), 328) is None


MANIFEST = manifest.Manifest(5, (4, 6), 1, 3)


def test_a_manifest_is_parsed() -> None:
    raw = MANIFEST.pack()
    assert len(raw) == manifest.MANIFEST_BYTES
    assert manifest.parse(raw) == MANIFEST
    assert manifest.parse(raw[:-1]) is None


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (0, "<I", 0),
        (4, "<H", 2),
        (6, "<H", 95),
        (8, "<i", 15),
        (8, "<i", -1),
        (12, "<i", 9),
        (12, "<i", -1),
        (12, "<i", 1),
        (16, "<i", 2),
        (16, "<i", -1),
        (20, "<i", 0),
        (20, "<i", -1),
        (32, "<q", -4),
        (48, "<q", 1),
    ],
)
def test_a_manifest_that_lies_is_none(offset: int, form: str, value: int) -> None:
    raw = bytearray(MANIFEST.pack())
    struct.pack_into(form, raw, offset, value)
    assert manifest.parse(bytes(raw)) is None
