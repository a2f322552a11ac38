"""etcd and Redis servers for tests. Both are used in a `with`."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from cluster import free_port, wait_until


class Server:
    """An installed server program, which listens on a port of this host."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory(prefix="mooncake-server-")

    def start(self, arguments: list[str], is_up: Callable[[], bool]) -> None:
        env = dict(os.environ)
        # Debian's etcd runs on this architecture only if this variable is set.
        if platform.machine() == "aarch64":
            env["ETCD_UNSUPPORTED_ARCH"] = "arm64"
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=self.folder.name
        )

        def is_ready() -> bool:
            assert self.process.poll() is None, f"{arguments[0]} ended early"
            return is_up()

        wait_until(is_ready, 60, f"{arguments[0]} is up")

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)
        self.folder.cleanup()


class Redis(Server):
    """A Redis server without persistence."""

    def __init__(self, password: str | None = None) -> None:
        super().__init__()
        self.password = password

    def __enter__(self) -> Redis:
        arguments = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        arguments += ["--save", "", "--appendonly", "no"]
        if self.password is not None:
            arguments += ["--requirepass", self.password]
        self.start(arguments, lambda: self.answers())
        return self

    def answers(self) -> bool:
        try:
            return self.call("PING")[:1] in (b"+", b"-")
        except OSError:
            return False

    def call(self, *words: str, database: int = 0) -> bytes:
        """Sends a command. Returns the reply as it is, which must fit one packet."""
        commands = [["AUTH", self.password]] if self.password is not None else []
        commands += [["SELECT", str(database)]] if database else []
        reply = b""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.settimeout(5)
            for command in [*commands, list(words)]:
                parts = [word.encode() for word in command if word is not None]
                text = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
                connection.sendall(b"*%d\r\n%s" % (len(parts), text))
                reply = connection.recv(1 << 16)
        return reply


class Etcd(Server):
    """An etcd with one member."""

    def __enter__(self) -> Etcd:
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        settings = {
            "name": "m",
            "data-dir": f"{self.folder.name}/data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"m={peer}",
        }
        self.start(["etcd", *(f"--{name}={value}" for name, value in settings.items())], self.is_healthy)
        return self

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as reply:
                return b"true" in reply.read()
        except (urllib.error.URLError, OSError):
            return False

    def call(self, path: str, body: dict[str, Any], token: str | None = None) -> Any:
        """The answer of the JSON gateway."""
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    def require_password(self, password: str) -> str:
        """Turns authentication on. Returns a token of root."""
        self.call("/v3/auth/user/add", {"name": "root", "password": password})
        self.call("/v3/auth/role/add", {"name": "root"})
        self.call("/v3/auth/user/grant", {"user": "root", "role": "root"})
        self.call("/v3/auth/enable", {})
        token: str = self.call("/v3/auth/authenticate", {"name": "root", "password": password})["token"]
        return token
