"""Chromium without a window, driven by its DevTools protocol over two pipes. Used in a `with`."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from cluster import wait_until

# It opens no connection of its own accord, and needs neither a window, a GPU nor a sandbox.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
]
ANSWER_SECONDS = 20.0


class Browser:
    """A Chromium with one tab and an empty profile."""

    def __init__(self) -> None:
        program = shutil.which("chromium")
        assert program, "there is no chromium: make servers installs it"
        # Its helper processes may write to the profile a moment after it has ended.
        self.folder = tempfile.TemporaryDirectory(prefix="mooncake-browser-", ignore_cleanup_errors=True)
        ours_read, its_write = os.pipe()
        its_read, ours_write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        script = f'exec 3<&{its_read} 4>&{its_write}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(its_read, its_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_read)
        os.close(its_write)
        self.pipes = (ours_read, ours_write)
        self.answers = select.poll()
        self.answers.register(ours_read, select.POLLIN)
        self.rest = b""
        self.number = 0
        self.session: str | None = None
        # Complaints of pages: exceptions, and what their content security policy refused.
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(10)
        finally:
            self.process.kill()
        for pipe in self.pipes:
            os.close(pipe)
        self.folder.cleanup()

    def message(self) -> dict[str, Any]:
        """The next message, which ends with a zero byte."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\0" not in self.rest:
            left_ms = max(0.0, deadline - time.monotonic()) * 1000
            assert self.answers.poll(left_ms), "Chromium does not answer"
            more = os.read(self.pipes[0], 1 << 20)
            assert more, "Chromium ended"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        self.number += 1
        command: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            command["sessionId"] = self.session
        os.write(self.pipes[1], json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message}"
                result: dict[str, Any] = message["result"]
                return result
            self.note(message)

    def note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["source"] in ("security", "violation"):
            self.complaints.append(parameters["entry"]["text"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, address: str, *, width: int = 1320, height: int = 900, scheme: str = "light") -> None:
        """Opens a page, as wide as this, with `light` or `dark` colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=address)

    def text(self, selector: str = "body") -> str:
        """What stands in an element, as a reader sees it; empty if there is none, or it is hidden."""
        found = f"document.querySelector({json.dumps(selector)})"
        return str(self.evaluate(f"{found}?.checkVisibility() ? {found}.innerText : ''"))

    def wait(self, condition: str, what: str, seconds: float = ANSWER_SECONDS) -> None:
        """Waits until an expression is true in the page."""
        wait_until(lambda: bool(self.evaluate(f"Boolean({condition})")), seconds, f"{what}: {condition}")

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Writes a picture of the page as PNG: all of it, or what fits the window."""
        if whole:
            height = self.evaluate("document.documentElement.scrollHeight")
            width = self.evaluate("document.documentElement.clientWidth")
            self.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=width < 600,
            )
        picture = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(picture["data"]))
