"""Values that describe themselves: a test detects wrong bytes, and right bytes in the wrong place. They are cheap."""

from __future__ import annotations

import struct
import zlib
from array import array

LONGEST = 4 << 20
# Word number n holds n in its lower half; `stamped` overwrites the upper half.
NUMBERED = array("Q", range(LONGEST // 8)).tobytes()


def stamped(key: str, version: int, length: int) -> bytes:
    """`length` bytes, a multiple of 8. The first word is the version; the others hold offset, key and version."""
    words = length // 8
    stamp = struct.pack("<I", zlib.crc32(f"{key} {version} {length}".encode()))
    value = bytearray(NUMBERED[:length])
    for i, byte in enumerate(stamp):
        value[4 + i :: 8] = bytes([byte]) * words
    value[:8] = struct.pack("<Q", version)
    return bytes(value)


def version_of(key: str, value: bytes) -> int | None:
    """The version of these bytes if they were put under this key, else None."""
    if len(value) < 8 or len(value) % 8 or len(value) > LONGEST:
        return None
    (version,) = struct.unpack("<Q", value[:8])
    return version if value == stamped(key, version, len(value)) else None
