"""What a model is, by its content: two sets of weights in folders of the same name never share a block."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)

# Values of `config.json` that say nothing about what the model computes.
IGNORED = ("_name_or_path", "transformers_version")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
MAX_HEADER_BYTES = 100 << 20
# Of each tensor, and of a file whose tensors are not known, so many pieces of this length are read.
PIECES_PER_TENSOR = 3
PIECES_PER_FILE = 512
PIECE_BYTES = 256


class Source(NamedTuple):
    """Where an engine has its weights from, as vLLM's configuration says."""

    model: str
    revision: str | None = None
    download_dir: str | None = None
    load_format: str = "auto"


def identity(source: Source) -> str:
    """A text that differs between sets of weights: a digest over what the model's folder holds. If there is no such
    folder here, the name of the model has to do, and a warning says so.
    """
    folder = None if source.load_format == "dummy" else folder_of(source)
    if folder is not None:
        return digest_of(folder)
    if source.load_format != "dummy":
        logger.warning(
            "the files of %s are not found here: its blocks are named after it alone. If other weights have the same "
            "name, set model_name or cache_prefix",
            source.model,
        )
    return f"{source.load_format}:{source.revision or ''}:{source.model}"


def folder_of(source: Source) -> Path | None:
    """The folder with the model's files: its path, or that of its snapshot in the cache of the Hugging Face Hub."""
    if Path(source.model).is_dir():
        return Path(source.model)
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(
            source.model, "config.json", cache_dir=source.download_dir, revision=source.revision
        )
    except ValueError:
        # It is a path of another kind, or no name of a model.
        return None
    return Path(found).parent if isinstance(found, str) else None


def digest_of(folder: Path) -> str:
    """The SHA-256 digest over the configuration of a model, and over the names, lengths and headers of its files of
    weights, and pieces of each tensor. It reads a small part of the files.
    """
    digest = hashlib.sha256(_configuration(folder))
    for path in sorted(path for path in folder.iterdir() if path.suffix in WEIGHTS):
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            header = _header(file.fileno(), length) if path.suffix == ".safetensors" else b""
            digest.update(f"\0{path.name}\0{length}\0{len(header)}\0".encode())
            digest.update(header)
            for offset in _places(header, length):
                digest.update(os.pread(file.fileno(), PIECE_BYTES, offset))
    return digest.hexdigest()


def _configuration(folder: Path) -> bytes:
    path = folder / "config.json"
    if not path.is_file():
        return b""
    content = path.read_bytes()
    try:
        values: dict[str, Any] = json.loads(content)
        kept = {name: value for name, value in values.items() if name not in IGNORED}
        return json.dumps(kept, sort_keys=True).encode()
    except (ValueError, AttributeError):
        return content


def _header(file: int, length: int) -> bytes:
    """The header of a safetensors file, with its length; empty if it makes no sense."""
    start = os.pread(file, 8, 0)
    if len(start) < 8:
        return b""
    (header_bytes,) = struct.unpack("<Q", start)
    if header_bytes > min(MAX_HEADER_BYTES, length - 8):
        return b""
    return start + os.pread(file, header_bytes, 8)


def _places(header: bytes, length: int) -> Iterator[int]:
    """Where pieces of a file are read: in each tensor, or all over the file if its tensors are not known."""
    try:
        tensors: dict[str, Any] = json.loads(header[8:])
        spans = [tensor["data_offsets"] for name, tensor in sorted(tensors.items()) if name != "__metadata__"]
        spans = [(len(header) + int(begin), len(header) + int(end)) for begin, end in spans]
        pieces = PIECES_PER_TENSOR
    except (ValueError, TypeError, KeyError, AttributeError):
        spans, pieces = [(0, length)], PIECES_PER_FILE
    for begin, end in spans:
        last = max(begin, min(end, length) - PIECE_BYTES)
        if 0 <= begin <= last:
            yield from (begin + (last - begin) * number // (pieces - 1) for number in range(pieces))
