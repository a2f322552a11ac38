"""Every endpoint of the store's REST service, and every bad request, with a store that records its calls."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import mooncake
import pytest
from cluster import wait_until
from mooncake import mooncake_store_service
from mooncake._rest import request as rest_request
from rest import JSON, OK, Answer, Api, HeadOnly, error

FIRST, SECOND, THIRD = "id-1", "id-2", "id-3"


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


MOUNTED = {"ret": 0, "segment_ids": [FIRST]}
ALLOCATED = {"ret": 0, "segment_ids": [FIRST, SECOND], "allocated_size": 4096}
REFUSED = {"ret": -600, "segment_ids": []}

# The request, the store's results, the response, and the calls on the store.
Row = tuple[str, str, object, dict[str, Any], Answer, list[tuple[Any, ...]]]
OBJECTS: list[Row] = [
    ("PUT", "/api/put", {"key": "k", "value": "h\u00e9"}, {}, OK, [("put", "k", "h\u00e9".encode())]),
    (
        "PUT",
        "/api/put",
        {"key": "k", "value": "v"},
        {"put": -200},
        error(500, "PUT operation failed", error_code=-200),
        [("put", "k", b"v")],
    ),
    (
        "GET",
        "/api/get/a%2Fb",
        None,
        {"is_exist": 1, "get": b"\0\xff"},
        (200, b"\0\xff"),
        [("is_exist", "a/b"), ("get", "a/b")],
    ),
    ("GET", "/api/get/k", None, {}, error(404, "Key not found"), [("is_exist", "k")]),
    (
        "GET",
        "/api/get/k",
        None,
        {"is_exist": -900},
        error(500, "Exist check failed", error_code=-900),
        [("is_exist", "k")],
    ),
    (
        "GET",
        "/api/get/k",
        None,
        {"is_exist": 1, "get": None},
        error(500, "GET operation failed"),
        [("is_exist", "k"), ("get", "k")],
    ),
    (
        "GET",
        "/api/get/k",
        None,
        {"is_exist": 1, "get": b"", "get_size": 5},
        error(500, "GET operation failed"),
        [("is_exist", "k"), ("get", "k"), ("is_exist", "k"), ("get_size", "k")],
    ),
    (
        "GET",
        "/api/get/k",
        None,
        {"is_exist": 1, "get": b"", "get_size": 0},
        (200, b""),
        [("is_exist", "k"), ("get", "k"), ("is_exist", "k"), ("get_size", "k")],
    ),
    ("GET", "/api/exist/k", None, {"is_exist": 1}, (200, {"exists": True}), [("is_exist", "k")]),
    ("GET", "/api/exist/k", None, {"is_exist": 0}, (200, {"exists": False}), [("is_exist", "k")]),
    (
        "GET",
        "/api/exist/k",
        None,
        {"is_exist": -1},
        error(500, "Exist check failed", error_code=-1),
        [("is_exist", "k")],
    ),
    ("DELETE", "/api/remove/k", None, {}, OK, [("remove", "k")]),
    (
        "DELETE",
        "/api/remove/k",
        None,
        {"remove": -706},
        error(500, "Remove operation failed", error_code=-706),
        [("remove", "k")],
    ),
    ("DELETE", "/api/remove/k", None, {"remove": OSError("gone")}, error(500, "gone"), [("remove", "k")]),
    ("DELETE", "/api/remove/k", None, {"remove": StopIteration("odd")}, (500, None), [("remove", "k")]),
    (
        "DELETE",
        "/api/remove_all",
        None,
        {"remove_all": 7},
        (200, {"status": "success removed 7 keys"}),
        [("remove_all",)],
    ),
    (
        "DELETE",
        "/api/remove_all",
        None,
        {"remove_all": -900},
        error(500, "RemoveAll operation failed", error_code=-900),
        [("remove_all",)],
    ),
]
SEGMENTS: list[Row] = [
    (
        "POST",
        "/api/mount_shm",
        {"name": "/seg", "size": 4096},
        {"mount_segment": MOUNTED},
        (200, {"status": "success", "segment_ids": [FIRST]}),
        [("mount_segment", "/dev/shm/seg", 4096, 0, "tcp", "")],
    ),
    (
        "POST",
        "/api/mount_shm",
        {"name": "seg", "size": 1, "offset": 2, "protocol": "rdma", "location": "cpu:0"},
        {"mount_segment": REFUSED},
        error(500, "Mount failed, ret=-600"),
        [("mount_segment", "/dev/shm/seg", 1, 2, "rdma", "cpu:0")],
    ),
    (
        "POST",
        "/api/unmount_shm",
        {"segment_ids": FIRST, "grace_period_seconds": 3},
        {},
        OK,
        [("unmount_segment", [FIRST], 3)],
    ),
    (
        "POST",
        "/api/unmount_shm",
        {"segment_ids": [FIRST, SECOND]},
        {"unmount_segment": lambda ids, _: -101 if FIRST in ids else 0},
        error(500, "Unmount failed for one or more segments", failed_segment_ids=[FIRST]),
        [("unmount_segment", [FIRST], 0), ("unmount_segment", [SECOND], 0)],
    ),
    (
        "POST",
        "/api/mount",
        {"size": 1, "location": "cpu:0"},
        {"allocate_and_mount_segment": ALLOCATED},
        (200, {"status": "success", "segment_ids": [FIRST, SECOND], "allocated_size": 4096}),
        [("allocate_and_mount_segment", 1, "tcp", "cpu:0")],
    ),
    (
        "POST",
        "/api/mount",
        {"size": 1},
        {"allocate_and_mount_segment": REFUSED},
        error(500, "Allocate and mount failed, ret=-600"),
        [("allocate_and_mount_segment", 1, "tcp", "")],
    ),
    (
        "POST",
        "/api/unmount",
        {"segment_ids": [FIRST, SECOND], "grace_period_seconds": 3600},
        {},
        OK,
        [("unmount_and_free_segment", [FIRST, SECOND], 3600)],
    ),
    (
        "POST",
        "/api/unmount",
        {"segment_ids": [FIRST]},
        {"unmount_and_free_segment": -101},
        error(500, "Unmount and free failed, ret=-101"),
        [("unmount_and_free_segment", [FIRST], 0)],
    ),
    ("POST", "/api/unmount_local_disk", {"grace_period_seconds": 2}, {}, OK, [("unmount_local_disk_segment", 2)]),
    (
        "POST",
        "/api/unmount_local_disk",
        {},
        {"unmount_local_disk_segment": -1},
        error(500, "Unmount local disk failed, ret=-1"),
        [("unmount_local_disk_segment", 0)],
    ),
    (
        "POST",
        "/api/unmount_local_disk",
        {},
        {"unmount_local_disk_segment": -101},
        error(404, "This store lends no SSD to the pool"),
        [("unmount_local_disk_segment", 0)],
    ),
]


@pytest.mark.parametrize("row", OBJECTS + SEGMENTS, ids=lambda row: f"{row[1]} {row[4][0]}")
def test_an_endpoint_calls_the_store_and_answers(api: Api, row: Row) -> None:
    method, path, body, answers, expected, calls = row
    api.store.answers = answers
    status, answer = api.ask(method, path, body)
    assert api.store.calls == calls
    assert (status, answer if expected[1] is not None else None) == expected


MALFORMED = error(400, "Malformed JSON body")
NO_IDS = error(400, "Missing segment_ids")
BAD_IDS = error(400, "Invalid segment_ids, must be at most 1024 strings")
BAD_SIZE = error(400, "Invalid size, must be a positive integer")
BAD_GRACE = error(400, "Invalid grace_period_seconds, must be a non-negative integer no greater than 3600")
NO_NAME = error(400, "Missing or invalid name or size")
NO_PATH = error(400, "Missing path or size for decode mode")
BAD_MODE = error(400, "Invalid mode. Use 'decode' or 'prefill'")
BODIES = {
    "/api/put": "PUT",
    "/api/mount_shm": "POST",
    "/api/unmount_shm": "POST",
    "/api/mount": "POST",
    "/api/unmount": "POST",
    "/api/unmount_local_disk": "POST",
    "/api/reconfigure": "POST",
}


@pytest.mark.parametrize("path", BODIES)
def test_a_body_that_is_no_object_is_refused_everywhere(api: Api, path: str) -> None:
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000):
        assert api.ask(BODIES[path], path, body) == MALFORMED, body[:10]
    others: list[object] = [[], "text", 5, None, True]
    for value in others:
        refusal = error(400, "Request body must be a JSON object")
        assert api.ask(BODIES[path], path, json.dumps(value).encode()) == refusal, value
    assert api.store.calls == []


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/api/put", {}, error(400, "Missing key or value")),
        ("/api/put", {"key": "k"}, error(400, "Missing key or value")),
        ("/api/put", {"value": "v"}, error(400, "Missing key or value")),
        ("/api/put", {"key": "", "value": "v"}, error(400, "Missing key or value")),
        ("/api/put", {"key": 1, "value": "v"}, error(400, "Invalid key, must be a string")),
        ("/api/put", {"key": "k", "value": ""}, error(400, "The value is empty: an object has at least one byte")),
        ("/api/put", {"key": "k", "value": 5}, error(400, "Invalid value, must be a string")),
        ("/api/put", {"key": "k", "value": ["v"]}, error(400, "Invalid value, must be a string")),
        ("/api/put", {"key": "\ud800", "value": "v"}, error(400, "Invalid key, must be valid Unicode")),
        ("/api/put", {"key": "k", "value": "\udc00"}, error(400, "Invalid value, must be valid Unicode")),
        ("/api/mount_shm", {"name": "seg"}, NO_NAME),
        *(
            ("/api/mount_shm", {"name": name, "size": 1}, NO_NAME)
            for name in (None, "", ".", "..", "/", "//x", "a/b", 5)
        ),
        ("/api/mount_shm", {"name": "a\0b", "size": 1}, NO_NAME),
        *(("/api/mount_shm", {"name": "seg", "size": size}, BAD_SIZE) for size in (0, -1, 1.5, "1", True, 1 << 63)),
        *(
            (
                "/api/mount_shm",
                {"name": "s", "size": 1, "offset": offset},
                error(400, "Invalid offset, must be a non-negative integer"),
            )
            for offset in (-1, 0.5, "0", None, False)
        ),
        ("/api/mount_shm", {"name": "s", "size": 1, "protocol": 5}, error(400, "Invalid protocol, must be a string")),
        (
            "/api/mount_shm",
            {"name": "s", "size": 1, "location": None},
            error(400, "Invalid location, must be a string"),
        ),
        *(("/api/mount", {"size": size}, BAD_SIZE) for size in (None, 0, -1, 1.5, "1", True)),
        ("/api/mount", {}, BAD_SIZE),
        *((path, {"segment_ids": []}, NO_IDS) for path in ("/api/unmount", "/api/unmount_shm")),
        *((path, {}, NO_IDS) for path in ("/api/unmount", "/api/unmount_shm")),
        *(
            (path, {"segment_ids": ids}, BAD_IDS)
            for path in ("/api/unmount", "/api/unmount_shm")
            for ids in (5, [5], {"a": 1}, ["x"] * 1025)
        ),
        *(
            (path, {"segment_ids": [FIRST], "grace_period_seconds": grace}, BAD_GRACE)
            for path in ("/api/unmount", "/api/unmount_shm", "/api/unmount_local_disk")
            for grace in (-1, 3601, 1.5, "30", True, None)
        ),
        *(("/api/reconfigure", {"mode": mode}, BAD_MODE) for mode in (None, "", "both", 5, ["decode"])),
        ("/api/reconfigure", {}, BAD_MODE),
        ("/api/reconfigure", {"mode": "decode"}, NO_PATH),
        ("/api/reconfigure", {"mode": "decode", "size": 1}, NO_PATH),
        ("/api/reconfigure", {"mode": "decode", "path": "/dev/shm/x"}, NO_PATH),
        ("/api/reconfigure", {"mode": "decode", "path": 5, "size": 1}, error(400, "Invalid path, must be a string")),
        ("/api/reconfigure", {"mode": "decode", "path": "/dev/shm/x", "size": -5}, BAD_SIZE),
        *(
            (
                "/api/reconfigure",
                {"mode": "decode", "path": path, "size": 1},
                error(400, "Invalid path, must be absolute"),
            )
            for path in ("x", "~/x", "/dev/shm/a\0b")
        ),
    ],
)
def test_a_wrong_field_is_refused_and_reaches_no_store(api: Api, path: str, body: object, expected: Answer) -> None:
    assert api.ask(BODIES[path], path, body) == expected
    assert api.store.calls == []


def test_a_key_that_is_too_long_is_the_callers_mistake(api: Api) -> None:
    api.store.answers = dict.fromkeys(("put", "is_exist", "remove"), -400)
    refusal = error(400, "The key is empty or longer than 4096 bytes", error_code=-400)
    assert api.ask("PUT", "/api/put", {"key": "k" * 5000, "value": "v"}) == refusal
    for method, path in (("GET", "get"), ("GET", "exist"), ("DELETE", "remove")):
        assert api.ask(method, f"/api/{path}/{'k' * 5000}") == refusal


def test_other_paths_methods_and_lengths_are_json_errors(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for method, path in (
        ("POST", "/api/put"),
        ("GET", "/api/remove/k"),
        ("DELETE", "/api/get/k"),
        ("PUT", "/api/mount"),
    ):
        assert api.ask(method, path, {}) == error(405, "Method Not Allowed")
    assert api.ask("GET", "/api/nothing") == error(404, "Not Found")
    assert api.ask("GET", "/api/get/") == error(404, "Not Found")
    too_long = error(413, f"The body is longer than {100 << 20} bytes")
    with HeadOnly(api.port, "PUT", "/api/put", {"Content-Length": str((100 << 20) + 1)}) as reply:
        assert (reply.status, json.loads(reply.read())) == too_long
    assert api.store.calls == []


def test_a_body_without_a_length_is_cut_off_too(api: Api) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
    chunk = bytes(1 << 20)
    connection.request(
        "PUT",
        "/api/put",
        iter([chunk] * 101),
        encode_chunked=True,
        headers={**JSON, "Transfer-Encoding": "chunked"},
    )
    reply = connection.getresponse()
    assert (reply.status, json.loads(reply.read())) == error(413, f"The body is longer than {100 << 20} bytes")
    connection.close()


@pytest.mark.parametrize("key", ["{key}", "a{b", "a/b", "a%2Fb", "%", "a?b#c", "..", " ", "a+b", "\n", "\0", "\u00fc"])
def test_any_key_can_be_named_in_a_path(api: Api, key: str) -> None:
    place = quote(key, safe="")
    assert api.ask("GET", f"/api/exist/{place}") == (200, {"exists": False})
    assert api.ask("DELETE", f"/api/remove/{place}") == OK
    assert api.ask("GET", f"/api/get/{place}") == error(404, "Key not found")
    assert api.store.calls == [("is_exist", key), ("remove", key), ("is_exist", key)]


def test_a_body_that_cannot_be_unpacked_is_refused(api: Api) -> None:
    with HeadOnly(api.port, "PUT", "/api/put", {"Content-Length": "2", "Content-Encoding": "gzip"}, b"{}") as reply:
        assert (reply.status, json.loads(reply.read())) == error(400, "The body cannot be read")
    assert api.store.calls == []


def test_a_body_that_does_not_come_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_request, "BODY_SECONDS", 0.2)
    with HeadOnly(api.port, "PUT", "/api/put", {"Content-Length": "10"}) as reply:
        assert (reply.status, json.loads(reply.read())) == error(408, "The body did not come within 0.2 s")


def test_a_call_that_waits_holds_up_no_other_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mooncake_store_service, "MAX_REQUESTS", 2)
    api = Api()
    gate = api.store.gate = threading.Event()
    answers: list[Answer] = []

    def unmount(segment: str) -> None:
        answers.append(api.ask("POST", "/api/unmount", {"segment_ids": [segment], "grace_period_seconds": 60}))

    waiting = [threading.Thread(target=unmount, args=[segment]) for segment in (FIRST, SECOND)]
    waiting[0].start()
    wait_until(lambda: len(api.store.calls) == 1, 20, "the first unmount waits")
    api.store.gate = None
    assert api.ask("GET", "/api/exist/k") == (200, {"exists": False})
    api.store.gate = gate
    waiting[1].start()
    wait_until(lambda: len(api.store.calls) == 3, 20, "both unmounts wait")
    refusal = error(503, "2 requests are being worked on; try again later")
    assert api.ask("GET", "/api/exist/k") == refusal
    gate.set()
    for thread in waiting:
        thread.join()
    assert answers == [OK, OK]
    api.close()


def test_a_call_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mooncake_store_service, "FAREWELL_SECONDS", 0.1)
    api = Api()
    gate = api.store.gate = threading.Event()

    def exist() -> None:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            api.ask("GET", "/api/exist/k")

    asking = threading.Thread(target=exist)
    asking.start()
    wait_until(lambda: len(api.store.calls) == 1, 20, "the call hangs")
    api.store.gate = None
    api.close()
    asking.join()
    assert not gate.is_set()
    assert api.store.calls == [("is_exist", "k"), ("close",)]
    gate.set()


def test_a_store_that_is_closed_is_503(api: Api) -> None:
    api.service.store = None
    assert api.ask("GET", "/api/exist/k") == error(503, "The store is not running")


DECODE = {"mode": "decode", "path": "/dev/shm/a", "size": 4096}


def test_reconfiguring_mounts_the_new_segment_before_the_old_one_goes(api: Api) -> None:
    ids = iter([[FIRST], [SECOND], [THIRD]])
    failing: set[str] = set()
    api.store.answers = {
        "mount_segment": lambda *_: {"ret": 0, "segment_ids": next(ids)},
        "unmount_segment": lambda ids, _: -1 if failing & set(ids) else 0,
    }
    mount = ("mount_segment", "/dev/shm/a", 4096, 0, "tcp", "")
    failed = error(500, "Unmount failed, ret=-1", failed_segment_ids=[SECOND])
    steps: list[tuple[object, set[str], Answer, list[tuple[Any, ...]], list[str]]] = [
        (DECODE, set(), (200, {"mode": "decode", "segment_ids": [FIRST]}), [mount], [FIRST]),
        (
            DECODE,
            set(),
            (200, {"mode": "decode", "segment_ids": [SECOND]}),
            [mount, ("unmount_segment", [FIRST], 0)],
            [SECOND],
        ),
        (
            {**DECODE, "mode": "DECODE"},
            {SECOND},
            (200, {"mode": "decode", "segment_ids": [THIRD, SECOND]}),
            [mount, ("unmount_segment", [SECOND], 0)],
            [THIRD, SECOND],
        ),
        (
            {"mode": "prefill"},
            {SECOND},
            failed,
            [("unmount_segment", [THIRD], 0), ("unmount_segment", [SECOND], 0)],
            [SECOND],
        ),
        ({"mode": "prefill"}, set(), (200, {"mode": "prefill"}), [("unmount_segment", [SECOND], 0)], []),
        ({"mode": "prefill"}, set(), (200, {"mode": "prefill"}), [], []),
    ]
    for body, fails, (status, fields), calls, mounted in steps:
        api.store.calls.clear()
        failing.clear()
        failing.update(fails)
        expected = (status, {"status": "success", **fields} if status == 200 else fields)
        assert api.ask("POST", "/api/reconfigure", body) == expected
        assert api.store.calls == calls
        assert api.service.mounted_segment_ids == mounted
    assert (api.service.current_mode, api.service.last_mount_info) == ("prefill", {})


def test_a_mount_that_fails_keeps_what_is_mounted(api: Api) -> None:
    api.store.answers = {"mount_segment": REFUSED}
    gone = error(500, "Mount failed, ret=-600; rolled back to prefill", mode="prefill")
    assert api.ask("POST", "/api/reconfigure", DECODE) == gone
    api.service.current_mode, api.service.mounted_segment_ids = "decode", [FIRST]
    kept = error(500, "Mount failed, ret=-600; keeping previous decode segments", mode="decode")
    assert api.ask("POST", "/api/reconfigure", DECODE) == kept
    assert (api.service.current_mode, api.service.mounted_segment_ids) == ("decode", [FIRST])
    assert [call[0] for call in api.store.calls] == ["mount_segment"] * 2


def test_what_is_mounted_already_stays_as_it_is(api: Api) -> None:
    answers: list[dict[str, Any]] = [MOUNTED]
    api.store.answers = {"mount_segment": lambda *_: answers[-1]}
    decoding: Answer = (200, {"status": "success", "mode": "decode", "segment_ids": [FIRST]})
    assert api.ask("POST", "/api/reconfigure", DECODE) == decoding
    answers.append({"ret": -102, "segment_ids": []})
    assert api.ask("POST", "/api/reconfigure", DECODE) == decoding
    overlaps = error(500, "Mount failed, ret=-102; keeping previous decode segments", mode="decode")
    assert api.ask("POST", "/api/reconfigure", {**DECODE, "size": 8192}) == overlaps
    assert {call[0] for call in api.store.calls} == {"mount_segment"}
    assert api.ask("POST", "/api/unmount_shm", {"segment_ids": FIRST}) == OK
    foreign = error(500, "Mount failed, ret=-102; rolled back to prefill", mode="prefill")
    assert api.ask("POST", "/api/reconfigure", DECODE) == foreign


def test_unmounting_the_last_segment_is_prefill(api: Api) -> None:
    api.service.current_mode, api.service.mounted_segment_ids = "decode", [FIRST, SECOND]
    for segment, mode in ((FIRST, "decode"), (SECOND, "prefill")):
        assert api.ask("POST", "/api/unmount_shm", {"segment_ids": segment}) == OK
        assert api.service.current_mode == mode


def test_the_service_says_how_it_is_and_what_it_is(api: Api) -> None:
    versions = {"version": mooncake.__version__, "protocol_version": mooncake.__protocol_version__}
    assert api.ask("GET", "/version") == (200, versions)
    for code, status, word in [
        (0, 200, "healthy"),
        (1, 503, "not_initialized"),
        (2, 503, "master_unreachable"),
        (3, 503, "broken"),
    ]:
        api.store.answers["health_check"] = code
        assert api.ask("GET", "/health") == (status, {"status": word, "code": code, **versions})
    api.service.store = None
    assert api.ask("GET", "/health") == (503, {"status": "not_initialized", "code": 1, **versions})
