"""Traces: the spans of a call, from the caller in Python to the node, at a collector of OpenTelemetry."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cluster import MIB, Cluster, free_port, wait_until


@dataclass
class Span:
    service: str
    trace: str
    id: str
    parent: str
    name: str
    began: int
    ended: int
    facts: dict[str, str] = field(default_factory=dict)


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP with JSON, as a collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Span] = []
        self.paths: set[tuple[str, str | None]] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def named(self, service: str, name: str) -> list[Span]:
        return [span for span in self.spans if (span.service, span.name) == (service, name)]


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.paths.add((self.path, self.headers["content-type"]))
        for resource in body["resourceSpans"]:
            service = facts(resource["resource"])["service.name"]
            for span in resource["scopeSpans"][0]["spans"]:
                times = (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
                ids = (span["traceId"], span["spanId"], span["parentSpanId"])
                self.server.spans.append(Span(service, *ids, span["name"], *times, facts(span)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def facts(of: dict[str, list[dict[str, object]]]) -> dict[str, str]:
    def text(value: object) -> str:
        assert isinstance(value, dict)
        return str(next(iter(value.values())))

    return {str(fact["key"]): text(fact["value"]) for fact in of["attributes"]}


@contextmanager
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


# What the package `opentelemetry` offers for this: the current span has a context with ids and flags.
APPLICATION = """
import sys, types
from mooncake.store import MooncakeDistributedStore
now = types.SimpleNamespace(trace_id=0, span_id=0, trace_flags=0)
package = types.ModuleType("opentelemetry.trace")
package.get_current_span = lambda: types.SimpleNamespace(get_span_context=lambda: now)
sys.modules["opentelemetry.trace"] = package
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
value = bytes(1 << 20)
now.trace_id, now.span_id, now.trace_flags = 0xABCD << 100, 0x1234, 1
assert store.put("k", value) == 0
assert store.get("k") == value
now.trace_flags = 0
assert store.get("k") == value
now.trace_id = 0
assert store.is_exist("k") == 1
store.close()
"""


def run(master: str, endpoint: str) -> str:
    settings = [f"MOONCAKE_OTEL_ENDPOINT={endpoint}", "MOONCAKE_TRANSPORTS=tcp"]
    command = ["env", *settings, sys.executable, "-c", APPLICATION, master]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_put_and_a_get_are_one_trace_from_the_caller_to_the_node() -> None:
    with collector() as spans:
        flag = f"--otel_endpoint={spans.endpoint}"
        with Cluster(flag) as cluster:
            cluster.start_node(64 * MIB, env={"MOONCAKE_OTEL_ENDPOINT": spans.endpoint})
            run(cluster.master_address, spans.endpoint)

            def have_come() -> bool:
                return bool(spans.named("mooncake-node", "read") and spans.named("mooncake-master", "exist_key"))

            wait_until(have_come, 10, "the last spans are there")
        assert spans.paths == {("/v1/traces", "application/json")}
        trace = f"{0xABCD << 100:032x}"
        [put], [get] = spans.named("mooncake-client", "put"), spans.named("mooncake-client", "get")
        assert {(put.trace, put.parent), (get.trace, get.parent)} == {(trace, f"{0x1234:016x}")}
        assert put.facts["mooncake.bytes"] == str(MIB)
        for service, name, call in [
            ("mooncake-client", "master", put),
            ("mooncake-client", "tcp", put),
            ("mooncake-master", "put_start", put),
            ("mooncake-master", "put_end", put),
            ("mooncake-node", "write", put),
            ("mooncake-client", "tcp", get),
            ("mooncake-master", "get_replica_list", get),
            ("mooncake-node", "read", get),
        ]:
            found = [span for span in spans.named(service, name) if span.parent == call.id]
            assert found, (service, name, spans.spans)
            assert all(span.trace == trace and span.began <= span.ended for span in found)
        # The caller's own span decides: the second get is not recorded, and the look-up begins a trace.
        [exist] = spans.named("mooncake-client", "exist")
        [asked] = spans.named("mooncake-master", "exist_key")
        assert (exist.parent, asked.parent, asked.trace) == ("", exist.id, exist.trace)
        assert exist.trace != trace
        assert exist.facts["mooncake.request"] == asked.facts["mooncake.request"]
        assert len({span.id for span in spans.spans}) == len(spans.spans)


def test_no_collector_costs_a_call_nothing_but_a_line_in_the_log() -> None:
    with Cluster() as cluster:
        cluster.start_node(64 * MIB)
        log = run(cluster.master_address, f"http://127.0.0.1:{free_port()}")
        assert "spans were not sent" in log, log
        assert len(log.splitlines()) == 1, log


def test_what_is_no_address_of_a_collector_is_refused() -> None:
    code = """
import os
from mooncake.store import MooncakeDistributedStore
os.environ["MOONCAKE_OTEL_ENDPOINT"] = "collector:4318"
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", "local://") == -600
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "MOONCAKE_OTEL_ENDPOINT" in done.stderr
    assert "a URL like http://collector:4318" in done.stderr
