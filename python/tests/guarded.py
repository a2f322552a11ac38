"""A pool with a token and roles, and what its doors are asked."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from cluster import Cluster

ROLES = ("read", "write", "admin", "metrics", "read,write")
TOKEN = "token-all"

# Every request to the admin server, with the rights of which one is enough. None: it is open to everybody.
ADMIN = {
    "GET /query_key?key=key": "read admin",
    "GET /batch_query_keys?keys=key": "read admin",
    "POST /batch_query_keys": "read admin",
    "GET /get_all_keys": "read admin",
    "GET /query_by_regex?regex=k": "read admin",
    "GET /metrics": "metrics admin",
    "GET /metrics/summary": "metrics admin",
    "GET /get_all_segments": "metrics admin",
    "GET /get_segments_detail": "metrics admin",
    "GET /query_segment?segment=s": "metrics admin",
    "GET /api/v1/segments/status?segment=s": "metrics admin",
    "GET /api/v1/drain_jobs": "metrics admin",
    "GET /api/v1/drain_jobs/query?job_id=1": "metrics admin",
    "GET /api/v1/tenant_quotas": "metrics admin",
    "GET /kv_events/status": "metrics admin",
    "GET /api/v1/live?turns=1": "metrics admin",
    "POST /api/v1/drain_jobs": "admin",
    "POST /api/v1/drain_jobs/cancel": "admin",
    "POST /api/v1/segments/undrain": "admin",
    "POST /api/v1/remove_all": "admin",
    "POST /api/v1/remove_by_regex": "admin",
    "POST /api/v1/soft_pin": "admin",
    "POST /api/v1/soft_unpin": "admin",
    "PUT /api/v1/tenant_quotas": "admin",
    "DELETE /api/v1/tenant_quotas": "admin",
    "GET /": "",
    "GET /health": "",
    "GET /version": "",
    "GET /role": "",
    "GET /leader": "",
    "GET /ha_status": "",
}


def token_of(role: str) -> str:
    return f"token-{role}"


def write_roles(path: Path) -> Path:
    """A file with a token for each role."""
    path.write_text("".join(f"{role} {token_of(role)}\n" for role in ROLES))
    path.chmod(0o600)
    return path


def status_of(address: str, request: str, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """What a server answers to a request, as `METHOD /PATH`, with an empty JSON object if it is a POST or PUT."""
    method, _, path = request.rpartition(" ")
    body = b"{}" if method in ("POST", "PUT") else None
    scheme = "http" if context is None else "https"
    asked = urllib.request.Request(f"{scheme}://{address}{path}", method=method or "GET", data=body)
    asked.add_header("Content-Type", "application/json")
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=5, context=context) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class GuardedCluster(Cluster):
    """A cluster with a token for each role. The whole environment knows the token that allows everything."""

    token = TOKEN

    def __init__(self, *master_flags: str, context: ssl.SSLContext | None = None) -> None:
        self.context = context
        super().__init__(*master_flags)

    def ask(self, request: str, token: str = "") -> int:
        return status_of(f"127.0.0.1:{self.http_port}", request, token, self.context)[0]

    def http(self, path: str) -> str | None:
        try:
            status, body = status_of(f"127.0.0.1:{self.http_port}", path, self.token, self.context)
        except OSError:
            return None
        return body.decode() if status == 200 else None
