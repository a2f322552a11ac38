"""Models that are told apart by their content, whatever their folders are called."""

from __future__ import annotations

import json
import logging
import shutil
import struct
from pathlib import Path

import pytest
from mooncake.vllm.config import model_tag
from mooncake.vllm.weights import Source, digest_of, folder_of, identity

TENSORS = {"embed": 40_000, "layer.0": 1_000, "layer.1": 300, "norm": 8, "none": 0}
CONFIG = {"num_hidden_layers": 2, "_name_or_path": "here", "transformers_version": "4.0"}


def safetensors(tensors: dict[str, bytes]) -> bytes:
    header, end = {}, 0
    for name, content in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": [end, end + len(content)]}
        end += len(content)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


def model(folder: Path, changed: dict[str, bytes] | None = None) -> Path:
    """A model in two files. `changed`: tensors with other bytes than usual."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tensors = {name: bytes([7]) * size for name, size in TENSORS.items()} | (changed or {})
    (folder / "model-1.safetensors").write_bytes(safetensors(tensors))
    (folder / "model-2.safetensors").write_bytes(safetensors({"head": bytes(500)}))
    return folder


def test_two_fine_tunes_in_folders_of_one_name_share_no_block(tmp_path: Path) -> None:
    folders = [model(tmp_path / "base" / "final")]
    for name, size in TENSORS.items():
        if size > 0:
            folders.append(model(tmp_path / name / "final", {name: bytes([8]) * size}))
    assert len({tuple(path.stat().st_size for path in sorted(folder.iterdir())) for folder in folders}) == 1
    tags = [model_tag(str(folder), identity(Source(str(folder))), "", {}) for folder in folders]
    assert len(set(tags)) == len(folders)
    assert {tag.split("-")[0] for tag in tags} == {"final"}


def test_one_model_in_two_folders_shares_its_blocks(tmp_path: Path) -> None:
    one, other = model(tmp_path / "a"), tmp_path / "b"
    shutil.copytree(one, other)
    (other / "config.json").write_text(json.dumps({**CONFIG, "_name_or_path": "there", "transformers_version": "5.0"}))
    (other / "tokenizer.json").write_text("{}")
    assert digest_of(one) == digest_of(other)
    (other / "config.json").write_text(json.dumps({**CONFIG, "rope_theta": 1e6}))
    assert digest_of(one) != digest_of(other)


def test_a_file_that_is_missing_or_has_another_name_makes_another_model(tmp_path: Path) -> None:
    folders = [model(tmp_path / name) for name in "abc"]
    (folders[1] / "model-2.safetensors").unlink()
    (folders[2] / "model-2.safetensors").rename(folders[2] / "model-3.safetensors")
    assert len({digest_of(folder) for folder in folders}) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 1 << 63) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 9) + b'{"a": 17}',
        struct.pack("<Q", 31) + b'{"a": {"data_offsets": [9, -4]}}',
        struct.pack("<Q", 34) + b'{"a": {"data_offsets": ["x", "y"]}}',
        safetensors({"a": bytes(9000)})[:4000],
    ],
)
def test_files_that_make_no_sense_are_told_apart_by_their_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "config.json").write_bytes(b"no JSON")
    first = digest_of(tmp_path)
    assert first == digest_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content + b"more")
    assert first != digest_of(tmp_path)


def test_weights_without_known_tensors_are_read_all_over(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(bytes(1_000_000))
    first = digest_of(tmp_path)
    content = bytearray(1_000_000)
    content[400_000:404_000] = bytes([1]) * 4_000
    path.write_bytes(content)
    assert first != digest_of(tmp_path)


def test_a_model_without_files_here_is_named_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        one, other = (identity(Source("org/model", revision)) for revision in (None, "v2"))
    assert one != other
    assert "org/model" in caplog.text
    assert "model_name" in caplog.text


def test_random_weights_need_no_files(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    assert identity(Source(str(folder), load_format="dummy")) != identity(Source(str(folder)))
    assert caplog.text == ""


def test_the_files_of_a_snapshot_are_found_by_the_name_of_the_model(tmp_path: Path) -> None:
    commit = "a" * 40
    repository = tmp_path / "models--org--m"
    model(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    found = folder_of(Source("org/m", None, str(tmp_path)))
    assert found == repository / "snapshots" / commit
    assert folder_of(Source("org/other", None, str(tmp_path))) is None
    assert folder_of(Source("s3://bucket/a/b", None, str(tmp_path))) is None
