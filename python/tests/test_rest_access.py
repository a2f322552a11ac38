"""Who may change something over the store's REST service, and which files it lends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from mooncake._rest import access
from mooncake._rest.request import RequestError
from namespaces import Namespaces, run
from rest import JSON, OK, Api, error

CHANGES_OF_THE_PROCESS = [
    ("/api/mount_shm", {"name": "segment", "size": 4096}),
    ("/api/unmount_shm", {"segment_ids": ["id"]}),
    ("/api/mount", {"size": 4096}),
    ("/api/unmount", {"segment_ids": ["id"]}),
    ("/api/unmount_local_disk", {}),
    ("/api/reconfigure", {"mode": "prefill"}),
]
CHANGES = [("PUT", "/api/put", {"key": "k", "value": "v"}), *(("POST", *change) for change in CHANGES_OF_THE_PROCESS)]

# Every request, and whether another machine needs the token for it: to change the process or to remove many objects.
REQUESTS = {
    ("GET", "/health"): False,
    ("GET", "/version"): False,
    ("PUT", "/api/put"): False,
    ("GET", "/api/get/{key:[^/]+}"): False,
    ("GET", "/api/exist/{key:[^/]+}"): False,
    ("DELETE", "/api/remove/{key:[^/]+}"): False,
    ("DELETE", "/api/remove_all"): True,
    ("GET", "/api/query_by_regex"): False,
    ("DELETE", "/api/remove_by_regex"): True,
    **{("POST", path): True for path, _ in CHANGES_OF_THE_PROCESS},
}


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    mounted = {"ret": 0, "segment_ids": ["id"], "allocated_size": 4096}
    api.store.answers = {"mount_segment": mounted, "allocate_and_mount_segment": mounted}
    yield api
    api.close()


@pytest.fixture
def far(api: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """A service to which all callers seem to be on other machines."""
    monkeypatch.setattr(access, "_is_local", lambda _: False)
    return api


@pytest.mark.parametrize(("path", "body"), CHANGES_OF_THE_PROCESS)
def test_another_machine_changes_the_process(far: Api, path: str, body: object) -> None:
    status, answer = far.ask("POST", path, body)
    assert (status, far.store.calls) == (403, [])
    assert answer["error"].startswith("Only callers of this machine may ask this, or those with the token")
    for sent in ("Bearer ", "Bearer x", "Basic x"):
        assert far.ask("POST", path, body, {**JSON, "Authorization": sent})[0] == 403, "there is no token"


def test_each_request_asks_another_machine_for_the_token_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(auth_token="secret")
    monkeypatch.setattr(access, "_is_local", lambda _: False)
    assert REQUESTS.keys() == {(route.method, route.path) for route in api.service._routes()}
    for (method, path), needs_token in REQUESTS.items():
        asked = path.replace("{key:[^/]+}", "key")
        for token in ("", "nonsense", "secret"):
            headers = {**JSON, "Authorization": f"Bearer {token}"} if token else JSON
            status, _ = api.ask(method, asked, None if method in ("GET", "DELETE") else {}, headers)
            assert (status == 403) is (needs_token and token != "secret"), (method, path, token, status)
    api.close()


def test_another_machine_reads_and_puts_objects(far: Api) -> None:
    assert far.ask("PUT", "/api/put", {"key": "k", "value": "v"}) == OK
    assert far.ask("GET", "/api/exist/k") == (200, {"exists": False})
    assert far.ask("DELETE", "/api/remove/k") == OK


def test_the_token_opens_what_is_for_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(auth_token="s\u00e9cret")
    assert api.ask("POST", "/api/unmount", {"segment_ids": ["id"]}) == OK, "callers of the machine need none"
    monkeypatch.setattr(access, "_is_local", lambda _: False)
    for sent, status in (
        ("", 403),
        ("s\u00e9cret", 403),
        ("Basic s\u00e9cret", 403),
        ("Bearer secret", 403),
        ("Bearer s\u00e9cret", 200),
        ("bearer s\u00e9cret", 200),
    ):
        headers = {**JSON, "Authorization": sent.encode().decode("latin-1")}
        assert api.ask("POST", "/api/unmount", {"segment_ids": ["id"]}, headers)[0] == status, sent
    api.close()


@pytest.mark.parametrize("path", ["/api/remove_all", "/api/remove_by_regex?regex=.*"])
def test_another_machine_removes_all_objects(far: Api, path: str) -> None:
    assert far.ask("DELETE", path)[0] == 403
    assert far.store.calls == []


def test_which_callers_are_on_this_machine() -> None:
    for remote, headers, expected in [
        ("127.0.0.1", {}, True),
        ("127.3.2.1", {}, True),
        ("::1", {}, True),
        ("::ffff:127.0.0.1", {}, True),
        ("10.0.0.1", {}, False),
        ("::ffff:10.0.0.1", {}, False),
        ("0.0.0.0", {}, False),
        ("", {}, False),
        (None, {}, False),
        ("127.0.0.1", {"X-Forwarded-For": "10.0.0.1"}, False),
        ("::1", {"Forwarded": "for=10.0.0.1"}, False),
    ]:
        request = cast(web.Request, SimpleNamespace(remote=remote, headers=headers))
        assert access._is_local(request) == expected, (remote, headers)


@pytest.mark.parametrize(("method", "path", "body"), [*CHANGES, ("DELETE", "/api/remove_all", None)])
def test_a_web_page_changes_something(api: Api, method: str, path: str, body: object) -> None:
    here = f"127.0.0.1:{api.port}"
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{api.port + 1}", "http://[", ""):
        refusal = error(403, f"The origin {origin!r} is foreign: pages may change nothing")
        assert api.ask(method, path, body, {**JSON, "Origin": origin}) == refusal
    rebound = {**JSON, "Origin": "http://evil.example:8080", "Host": "evil.example:8080"}
    assert api.ask(method, path, body, rebound)[0] == 403, "the site has its name resolve to this machine"
    assert api.store.calls == []
    assert api.ask(method, path, body, {**JSON, "Origin": f"http://{here}"})[0] == 200


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_body_of_a_type_that_pages_may_send_changes_something(api: Api, method: str, path: str, body: object) -> None:
    refusal = error(415, "The body must be JSON: send the header 'Content-Type: application/json'")
    for sent in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        assert api.ask(method, path, body, sent) == refusal
    assert api.store.calls == []
    assert api.ask(method, path, body, {"Content-Type": "application/json; charset=utf-8"})[0] == 200


def test_a_removal_has_no_body_and_needs_no_type(api: Api) -> None:
    assert api.ask("DELETE", "/api/remove/k", None, {}) == OK
    assert api.ask("DELETE", "/api/remove/k", b"x", {})[0] == 415


def test_a_file_outside_of_the_folder_is_lent(api: Api, tmp_path: Path) -> None:
    folder, other = tmp_path / "lent", tmp_path / "other"
    for made in (folder, other, folder / "below"):
        made.mkdir()
    for file in (folder / "file", folder / "below" / "file", other / "file", tmp_path / "lent-file"):
        file.write_bytes(bytes(4096))
    (folder / "link").symlink_to(other / "file")
    (folder / "inside").symlink_to(folder / "file")
    (folder / "up").symlink_to(tmp_path)
    api.service.mount_folder = str(folder)

    def lend(path: object) -> tuple[int, Any]:
        return api.ask("POST", "/api/reconfigure", {"mode": "decode", "path": str(path), "size": 4096})

    for path in [
        "/etc/passwd",
        "/dev/shm/segment",
        other / "file",
        tmp_path / "lent-file",
        folder / "link",
        folder / "up" / "other" / "file",
        f"{folder}/../other/file",
        folder,
        f"{folder}/.",
    ]:
        reason = f"{path} is not a file in {folder}; the flag --mount-folder names another folder"
        assert lend(path) == error(403, reason)
    assert api.store.calls == []
    for path, real in [
        (folder / "file", folder / "file"),
        (folder / "below" / "file", folder / "below" / "file"),
        (folder / "inside", folder / "file"),
        (folder / "new", folder / "new"),
    ]:
        assert lend(path)[0] == 200
        assert api.store.calls[0] == ("mount_segment", str(real), 4096, 0, "tcp", "")
        api.store.calls.clear()


def test_a_shared_memory_object_that_is_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    link = Path("/dev/shm") / f"mooncake-{tmp_path.name}-{id(tmp_path)}"
    link.symlink_to(tmp_path / "file")
    try:
        with pytest.raises(RequestError, match="is not a file in /dev/shm"):
            access.path_within("/dev/shm", str(link))
    finally:
        link.unlink()


def test_the_token_comes_from_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MOONCAKE_AUTH_TOKEN", "MOONCAKE_AUTH_TOKEN_FILE"):
        monkeypatch.delenv(variable, raising=False)
    assert access.token_of_environment() == ""
    monkeypatch.setenv("MOONCAKE_AUTH_TOKEN", "secret")
    assert access.token_of_environment() == "secret"
    file = tmp_path / "token"
    file.write_text(" two words \r\n")
    monkeypatch.setenv("MOONCAKE_AUTH_TOKEN_FILE", str(file))
    with pytest.raises(ValueError, match="are both set"):
        access.token_of_environment()
    monkeypatch.delenv("MOONCAKE_AUTH_TOKEN")
    assert access.token_of_environment() == "two words"
    for content in ("", "\n", "x" * 513):
        file.write_text(content)
        with pytest.raises(ValueError, match="at most 512 bytes"):
            access.token_of_environment()
    file.write_text("secret")
    file.chmod(0o620)
    with pytest.raises(ValueError, match="other users may write it"):
        access.token_of_environment()
    file.unlink()
    with pytest.raises(OSError, match="No such file"):
        access.token_of_environment()


# Serves on an address that is not one of loopback, and asks there: the connections come from that address.
ASK_FROM_ELSEWHERE = """
import json, sys
from rest import Api
api = Api(host=sys.argv[1])
asked = [("POST", "/api/mount", {"size": 4096}), ("GET", "/api/exist/k", None)]
print(json.dumps([api.ask(*request, host=sys.argv[1]) for request in asked]))
api.close()
"""


def test_another_machine_is_known_by_its_address() -> None:
    """An address of a network namespace's own stands for another machine."""
    address, here = "192.0.2.7", str(Path(__file__).parent)
    with Namespaces() as namespaces:
        enter = namespaces.namespace()
        run([*enter, "ip", "link", "set", "lo", "up"])
        run([*enter, "ip", "address", "add", f"{address}/32", "dev", "lo"])
        path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        asked = subprocess.run(
            [*enter, sys.executable, "-c", ASK_FROM_ELSEWHERE, address],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": path},
        )
    assert asked.returncode == 0, asked.stderr
    (refused, _), exists = json.loads(asked.stdout)
    assert (refused, exists) == (403, [200, {"exists": False}])
