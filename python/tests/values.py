"""Values that describe themselves: wrong bytes show, and so do right bytes in the wrong place. Cheap to make."""

from __future__ import annotations

import struct
import zlib
from array import array

LONGEST = 4 << 20
# Word number n holds n in its lower half; the upper half is stamped over.
NUMBERED = array("Q", range(LONGEST // 8)).tobytes()


def stamped(key: str, version: int, length: int) -> bytes:
    """`length` bytes, a multiple of 8. The first word is the version, the others name their place, key and version."""
    words = length // 8
    stamp = struct.pack("<I", zlib.crc32(f"{key} {version} {length}".encode()))
    value = bytearray(NUMBERED[:length])
    for i, byte in enumerate(stamp):
        value[4 + i :: 8] = bytes([byte]) * words
    value[:8] = struct.pack("<Q", version)
    return bytes(value)


def version_of(key: str, value: bytes) -> int | None:
    """The version that was put under the key with exactly these bytes; None if there is none."""
    if len(value) < 8 or len(value) % 8 or len(value) > LONGEST:
        return None
    (version,) = struct.unpack("<Q", value[:8])
    return version if value == stamped(key, version, len(value)) else None
