"""The configuration from files, from the environment and from text, and every kind of mistake in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from mooncake import mooncake_config
from mooncake.mooncake_config import MooncakeConfig, _parse_bool, _parse_segment_size

REQUIRED = {"local_hostname": "host", "metadata_server": "P2PHANDSHAKE", "master_server_address": "master:50051"}
DEFAULT = MooncakeConfig("host", "P2PHANDSHAKE", 3_355_443_200, 1 << 30, "tcp", "", "master:50051")
FULL = {
    **REQUIRED,
    "global_segment_size": "50gb",
    "local_buffer_size": 4_194_304,
    "protocol": "RDMA",
    "device_name": "mlx5_0",
    "enable_ssd_offload": "yes",
    "ssd_offload_path": "/nvme",
    "tenant_id": "blue",
    "enable_client_http_server": True,
    "client_http_port": "19300",
    "segment_path": "/dev/shm/segment",
    "segment_reset": "on",
    "domain": "rack=r7,zone=east",
}
ALL_SET = MooncakeConfig(
    local_hostname="host",
    metadata_server="P2PHANDSHAKE",
    global_segment_size=50 << 30,
    local_buffer_size=4_194_304,
    protocol="rdma",
    device_name="mlx5_0",
    master_server_address="master:50051",
    enable_ssd_offload=True,
    ssd_offload_path="/nvme",
    tenant_id="blue",
    enable_client_http_server=True,
    client_http_port=19_300,
    segment_path="/dev/shm/segment",
    segment_reset=True,
    domain="rack=r7,zone=east",
)
VARIABLES = {
    "MOONCAKE_LOCAL_HOSTNAME": "host",
    "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
    "MOONCAKE_MASTER": "master:50051",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "50gb",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "4194304",
    "MOONCAKE_PROTOCOL": "rdma",
    "MOONCAKE_DEVICE": "mlx5_0",
    "MOONCAKE_OFFLOAD_ENABLED": "True",
    "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "/nvme",
    "MOONCAKE_TENANT_ID": "blue",
    "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER": "1",
    "MOONCAKE_CLIENT_HTTP_PORT": "19300",
    "MOONCAKE_SEGMENT_PATH": "/dev/shm/segment",
    "MOONCAKE_SEGMENT_RESET": "1",
    "MOONCAKE_DOMAIN": "rack=r7,zone=east",
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MOONCAKE_CONFIG_PATH", *VARIABLES):
        monkeypatch.delenv(variable, raising=False)


def written(folder: Path, content: object) -> str:
    """Writes a configuration file and returns its path. Bytes are written as they are, other content as JSON."""
    path = folder / "mooncake.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(path)


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [
        (0, 0),
        (1024, 1024),
        (1.5, 1),
        ("1024", 1024),
        (" 2048 ", 2048),
        ("4096b", 4096),
        ("512k", 512 << 10),
        ("1.5KB", 1536),
        ("3 gb", 3 << 30),
        ("1g", 1 << 30),
        ("16MB", 16 << 20),
        ("1m", 1 << 20),
        ("2tb", 2 << 40),
        ("1T", 1 << 40),
        ("4GiB", 4 << 30),
        ("4Gi", 4 << 30),
        ("1.5 mib", 3 << 19),
        ("512Ki", 512 << 10),
        ("1TiB", 1 << 40),
        ("1e9", 1_000_000_000),
        ("9007199254740993", 9_007_199_254_740_993),
        ("-1", -1),
    ],
)
def test_a_size_is_read(value: object, bytes_: int) -> None:
    assert _parse_segment_size(value) == bytes_


@pytest.mark.parametrize("value", ["", "  ", "gb", "abc", "1.2.3mb", "5 apples", "nan", "inf", "1e400", "9e30gb"])
def test_text_that_is_no_size_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="Invalid segment size"):
        _parse_segment_size(value)


@pytest.mark.parametrize("value", [None, True, [1], {"gb": 1}, b"1gb"])
def test_a_size_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="neither a number nor text"):
        _parse_segment_size(value)


def test_truth_values_are_read() -> None:
    true: list[object] = [True, 1, 2.5, "true", "TRUE", "1", "yes", " on ", "enable"]
    false: list[object] = [False, 0, None, "", "false", "0", "No", "off", "disable"]
    neither: list[object] = ["maybe", "2", [], b"true"]
    for value in true:
        assert _parse_bool(value) is True, value
    for value in false:
        assert _parse_bool(value) is False, value
    for value in neither:
        with pytest.raises(ValueError, match="Invalid boolean value"):
            _parse_bool(value)


@pytest.mark.parametrize(
    ("content", "config"),
    [
        (REQUIRED, DEFAULT),
        (FULL, ALL_SET),
        ({**REQUIRED, "unknown": 1}, DEFAULT),
        ({**REQUIRED, "tenant_id": None, "ssd_offload_path": None, "device_name": None, "protocol": None}, DEFAULT),
    ],
)
def test_a_file_is_read(tmp_path: Path, content: object, config: MooncakeConfig) -> None:
    assert MooncakeConfig.from_file(written(tmp_path, content)) == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "mooncake.json: not JSON: "),
        (b"{", "mooncake.json: not JSON: "),
        (b"\xff\xfe{", "mooncake.json: not JSON: "),
        (b"[" * 100_000, "mooncake.json: not JSON: "),
        (b" " * (1 << 20) + b"{}", "mooncake.json: longer than 1048576 bytes"),
        ([1], "mooncake.json: must hold a JSON object, holds list"),
        ({}, "mooncake.json: Missing required config field: local_hostname"),
        ({**REQUIRED, "local_hostname": " "}, "mooncake.json: local_hostname=' ': must be a non-empty string"),
        ({**REQUIRED, "metadata_server": 5}, "mooncake.json: metadata_server=5: must be a non-empty string"),
        ({**REQUIRED, "master_server_address": None}, "mooncake.json: master_server_address=None: must be a non-empty"),
        ({**REQUIRED, "global_segment_size": "50%"}, "mooncake.json: global_segment_size='50%': Invalid segment size"),
        ({**REQUIRED, "global_segment_size": True}, "mooncake.json: global_segment_size=True: Invalid segment size"),
        ({**REQUIRED, "local_buffer_size": -1}, "mooncake.json: local_buffer_size=-1: -1 is negative"),
        ({**REQUIRED, "local_buffer_size": [1]}, "mooncake.json: local_buffer_size=[1]: Invalid segment size"),
        ({**REQUIRED, "protocol": ""}, "mooncake.json: protocol='': Invalid protocol"),
        ({**REQUIRED, "protocol": 7}, "mooncake.json: protocol=7: Invalid protocol"),
        ({**REQUIRED, "device_name": 7}, "mooncake.json: device_name=7: must be text"),
        ({**REQUIRED, "enable_ssd_offload": "oui"}, "mooncake.json: enable_ssd_offload='oui': Invalid boolean value"),
        ({**REQUIRED, "ssd_offload_path": 7}, "mooncake.json: ssd_offload_path=7: must be text"),
        ({**REQUIRED, "tenant_id": 7}, "mooncake.json: tenant_id=7: must be text"),
        ({**REQUIRED, "enable_client_http_server": []}, "mooncake.json: enable_client_http_server=[]: Invalid boolean"),
        ({**REQUIRED, "client_http_port": 70_000}, "mooncake.json: client_http_port=70000: 70000 is not a port"),
        ({**REQUIRED, "client_http_port": 1.5}, "mooncake.json: client_http_port=1.5: 1.5 is not a port"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_key(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MooncakeConfig.from_file(written(tmp_path, content))


def test_a_path_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, REQUIRED)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert MooncakeConfig.from_file("~/mooncake.json") == DEFAULT
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", "~/mooncake.json")
    assert MooncakeConfig.load_from_env() == DEFAULT


def test_overrides_give_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master = {"master_server_address": "master:50051"}
    names = {"local_hostname": "host", "metadata_server": "P2PHANDSHAKE"}
    assert MooncakeConfig.load_from_env({**master, **names}) == DEFAULT
    assert MooncakeConfig.from_file(written(tmp_path, names), master) == DEFAULT
    with pytest.raises(ValueError, match="-D master_server_address='': must be a non-empty"):
        MooncakeConfig.load_from_env({"master_server_address": ""}, "-D ")
    with pytest.raises(ValueError, match="-D colour: no such setting"):
        MooncakeConfig.load_from_env({**master, "colour": "blue"}, "-D ")
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", written(tmp_path, names))
    assert MooncakeConfig.load_from_env(master) == DEFAULT


def test_each_required_key_is_missed(tmp_path: Path) -> None:
    for key in REQUIRED:
        rest = {name: value for name, value in REQUIRED.items() if name != key}
        with pytest.raises(ValueError, match=f"Missing required config field: {key}"):
            MooncakeConfig.from_file(written(tmp_path, rest))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        MooncakeConfig.from_file(str(tmp_path / "nowhere.json"))


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_MASTER", "master:50051")
    expected = MooncakeConfig("localhost", "P2PHANDSHAKE", 3_355_443_200, 1 << 30, "tcp", "", "master:50051")
    assert MooncakeConfig.load_from_env() == expected
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    assert MooncakeConfig.load_from_env() == ALL_SET


def test_a_file_in_the_environment_wins_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", written(tmp_path, REQUIRED))
    assert MooncakeConfig.load_from_env() == DEFAULT
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", "")
    assert MooncakeConfig.load_from_env() == ALL_SET


def test_without_file_and_master_there_is_no_configuration() -> None:
    with pytest.raises(ValueError, match="Neither the environment variable 'MOONCAKE_CONFIG_PATH' nor 'MOONCAKE_MAST"):
        MooncakeConfig.load_from_env()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MOONCAKE_LOCAL_HOSTNAME", "", "must be a non-empty string"),
        ("MOONCAKE_TE_META_DATA_SERVER", " ", "must be a non-empty string"),
        ("MOONCAKE_MASTER", " ", "must be a non-empty string"),
        ("MOONCAKE_GLOBAL_SEGMENT_SIZE", "lots", "Invalid segment size"),
        ("MOONCAKE_GLOBAL_SEGMENT_SIZE", "-4gb", "is negative"),
        ("MOONCAKE_LOCAL_BUFFER_SIZE", "", "Invalid segment size"),
        ("MOONCAKE_PROTOCOL", "", "Invalid protocol"),
        ("MOONCAKE_OFFLOAD_ENABLED", "perhaps", "Invalid boolean value"),
        ("MOONCAKE_ENABLE_CLIENT_HTTP_SERVER", "2", "Invalid boolean value"),
        ("MOONCAKE_CLIENT_HTTP_PORT", "http", "is not a port"),
        ("MOONCAKE_CLIENT_HTTP_PORT", "65536", "is not a port"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv("MOONCAKE_MASTER", "master:50051")
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{variable}={value!r}: ')}.*{message}"):
        MooncakeConfig.load_from_env()


def test_overrides_are_read_as_text_and_checked() -> None:
    changed = DEFAULT.with_overrides({"global_segment_size": "1gb", "protocol": "RDMA", "enable_ssd_offload": "on"})
    expected = MooncakeConfig("host", "P2PHANDSHAKE", 1 << 30, 1 << 30, "rdma", "", "master:50051", True)
    assert (changed, DEFAULT.protocol) == (expected, "tcp")
    with pytest.raises(ValueError, match=r"^-D local_hostnam: no such setting; there are local_hostname, "):
        DEFAULT.with_overrides({"local_hostnam": "x"}, where="-D ")
    with pytest.raises(ValueError, match=r"^-D client_http_port='x': 'x' is not a port"):
        DEFAULT.with_overrides({"client_http_port": "x"}, where="-D ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("local_hostname", ""),
        ("metadata_server", " "),
        ("master_server_address", None),
        ("global_segment_size", -1),
        ("global_segment_size", "1gb"),
        ("local_buffer_size", 1.5),
        ("protocol", " "),
        ("protocol", None),
        ("client_http_port", -1),
    ],
)
def test_a_configuration_made_by_hand_is_checked(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        MooncakeConfig(**{**DEFAULT.__dict__, field: value})


def test_a_misspelt_key_of_a_file_is_named_with_the_nearest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, {**REQUIRED, "global_segment_sise": "1gb", "xyzzy": 1})
    with caplog.at_level("WARNING", logger=mooncake_config.__name__):
        assert MooncakeConfig.from_file(path).global_segment_size == mooncake_config.DEFAULT_GLOBAL_SEGMENT_SIZE
    first, second = (record.getMessage() for record in caplog.records)
    hint = "there is no setting 'global_segment_sise', and it changes nothing; did you mean 'global_segment_size'?"
    assert first == f"{path}: {hint}"
    assert second == f"{path}: there is no setting 'xyzzy', and it changes nothing"


def test_an_unknown_protocol_is_passed_on_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger=mooncake_config.__name__):
        assert DEFAULT.with_overrides({"protocol": "RMDA"}).protocol == "rmda"
        assert DEFAULT.with_overrides({"protocol": " Rpc_Only "}).protocol == "rpc_only"
    assert [record.args for record in caplog.records if "rmda" in record.getMessage()] != []
    assert len(caplog.records) == 1
