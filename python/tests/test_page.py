"""The page of the master in Chromium, of a real pool and of pools of many sizes that a stub tells of."""

from __future__ import annotations

import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from cluster import MIB, Cluster, Process, free_port, wait_until
from simulated_pool import STANDBY, Server, SimulatedPool

# A key that would run as a script if it became a part of the page's markup.
HOSTILE_KEY = "<img src=x onerror='window.hacked=1'>"
OBSERVE = [
    "--dynamic_replication_mode=observe",
    "--dynamic_replication_heat_window_seconds=1",
    "--dynamic_replication_admission_qps_threshold=0.5",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(autouse=True)
def nothing_hostile_runs(browser: Browser) -> Iterator[None]:
    """No page throws an exception, loads a thing from elsewhere, or runs what stands in a key or a name."""
    yield
    assert browser.evaluate("window.hacked") is None
    assert browser.complaints == []


class WatchedPool(Cluster):
    """A master that counts reads, and two nodes in two racks."""

    def __init__(self, *flags: str) -> None:
        super().__init__("--default_kv_lease_ttl=300", "--client_ttl=60", *OBSERVE, *flags)
        self.page = f"http://127.0.0.1:{self.http_port}/"

    def start_racks(self) -> None:
        for rack in ("r1", "r2"):
            self.start_node(64 * MIB, f"--domain=rack={rack},zone=east")


@pytest.fixture(scope="module")
def pool() -> Iterator[WatchedPool]:
    with WatchedPool() as pool:
        pool.start_racks()
        yield pool


def test_a_real_pool_is_shown_and_its_changes_without_another_look(browser: Browser, pool: WatchedPool) -> None:
    browser.open(pool.page)
    browser.wait("document.querySelectorAll('.cell.card').length === 2", "both nodes are shown")
    assert browser.text("#state") == "leader, serving"
    assert f"at 127.0.0.1:{pool.rpc_port}" in browser.text("header").replace("\n", " ")
    assert browser.text("#problems") == ""
    assert "0 B of 128 MB (0.0%) in 2 segments" in browser.text(".tier")
    groups = browser.evaluate("[...document.querySelectorAll('.rack')].map((it) => it.ariaLabel)")
    assert groups == ["rack=r1: 1 segment, 0.0% full", "rack=r2: 1 segment, 0.0% full"]

    store = pool.store()
    assert store.put(HOSTILE_KEY, bytes(8 * MIB)) == 0
    # A store that has to look the object up, so that the master counts the read.
    assert len(pool.store().get(HOSTILE_KEY)) == 8 * MIB
    assert store.is_exist("absent") == 0
    # The list of keys that are read often shows the key as a text, as logs do.
    browser.wait("document.querySelector('#hot td.mono')", "the key that is read often is shown")
    assert browser.text("#hot td.mono") == f'"{HOSTILE_KEY}"'
    browser.wait("document.querySelector('#tiles')?.innerText.includes('50.0')", "one of two reads is a hit")
    tiles = browser.text("#tiles").replace("\n", " ")
    assert "Memory 6.3% 8 MB of 128 MB" in tiles
    assert "Objects 1 " in tiles
    assert browser.text("#live") == "live"

    pool.nodes[0].kill()
    browser.wait("document.querySelector('#problems li')", "the node that died is a problem")
    problem = browser.text("#problems")
    assert "its node does not ping; what lies there cannot be read" in problem
    assert "→ start the node again; its log says why it stopped" in problem
    assert browser.evaluate("document.querySelectorAll('.cell.away').length") >= 1
    assert browser.evaluate("document.title").startswith("(")


def test_the_table_behind_the_picture_sorts_and_filters(browser: Browser) -> None:
    with Server(SimulatedPool(2000).events()) as server:
        browser.open(server.address)
        browser.wait("document.querySelectorAll('.cell[data-index]').length === 2000", "all segments are shown")
        browser.evaluate("document.querySelector('#list').open = true")
        rows = "[...document.querySelectorAll('#list-table tbody tr')]"
        browser.wait(f"{rows}.length === 100", "a page of the table is shown")
        browser.evaluate("document.querySelector('[data-sort=fill]').click()")
        fills = browser.evaluate(f"{rows}.map((row) => parseFloat(row.cells[6].innerText))")
        assert fills == sorted(fills, reverse=True)
        assert browser.evaluate("document.querySelector('th[aria-sort]').innerText").startswith("fill")
        browser.evaluate("document.querySelector('#all').click()")
        assert browser.evaluate(f"{rows}.length") == 2000
        browser.evaluate(
            "const f = document.querySelector('#filter'); f.value = 'OUT OF'; f.dispatchEvent(new Event('input'))"
        )
        browser.wait(f"{rows}.length === 4", "segments out of sight are listed")
        assert browser.evaluate("document.querySelectorAll('#tiers .cell').length") == 4
        browser.evaluate(
            "const g = document.querySelector('#group'); g.value = 'zone'; g.dispatchEvent(new Event('change'))"
        )
        groups = browser.evaluate("[...document.querySelectorAll('.rack')].map((it) => it.ariaLabel.split(':')[0])")
        assert set(groups) == {"zone=east", "zone=west"}


@pytest.mark.parametrize("count", [0, 3, 40, 2000])
def test_pools_of_all_sizes_fit_the_window_and_are_drawn_quickly(browser: Browser, count: int) -> None:
    with Server(SimulatedPool(count).events()) as server:
        for width, scheme in ((1320, "light"), (390, "dark")):
            browser.open(server.address, width=width, scheme=scheme)
            browser.wait("document.querySelector('#pool:not([hidden])')", "the pool is shown")
            assert browser.evaluate("document.querySelectorAll('#tiers [data-index]').length") == count
            # Nothing is wider than the window.
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(18, 22, 26)") is (scheme == "dark")
            # What happens every two seconds takes a part of a frame, and a new list of segments well under a second.
            took = browser.evaluate("let t = performance.now(); events.now(pool.now); performance.now() - t")
            assert took < 200, f"{took} ms"
            took = browser.evaluate("t = performance.now(); drawNodes(); performance.now() - t")
            assert took < 1000, f"{took} ms"
            # Pictures have words for those who do not see them.
            labels = browser.evaluate(
                "[...document.querySelectorAll('svg[role=img], .rack')].map((it) => it.ariaLabel)"
            )
            assert labels
            assert all(labels)


def test_names_keys_and_messages_are_texts_whatever_they_hold(browser: Browser) -> None:
    pool = SimulatedPool(40, hostile=True)
    with Server(pool.events()) as server:
        browser.open(server.address)
        browser.wait("document.querySelector('#hot td.mono') && document.querySelector('#problems li')", "all is shown")
        browser.evaluate("document.querySelector('#list').open = true")
        browser.wait("document.querySelector('#list-table td')", "the table is shown")
        assert browser.text("#hot td.mono") == "</script><script>window.hacked=1</script>"
        assert "<script>window.hacked=1</script>" in browser.text("#problems")
        assert browser.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert browser.evaluate("document.scripts.length") == 1
        browser.evaluate(
            "document.querySelector('.middle .cell').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
        )
        assert "<img src=x onerror=" in browser.text("#tip")


def test_a_standby_shows_the_address_of_the_leader(browser: Browser, tmp_path: Path) -> None:
    ports, admin = [free_port(), free_port()], [free_port(), free_port()]
    flags = ["--enable_ha", "--ha_backend_type=file", f"--ha_backend_connstring={tmp_path}", "--rpc_address=127.0.0.1"]
    masters = [
        Process("mooncake_master", f"--rpc_port={port}", f"--metrics_port={http}", *flags)
        for port, http in zip(ports, admin, strict=True)
    ]

    def role(http: int) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{http}/role", timeout=5) as reply:
                return str(reply.read().decode())
        except OSError:
            return ""

    try:
        wait_until(lambda: sorted(map(role, admin)) == ["leader", "standby"], 20, "one of two leads")
        at = [role(http) for http in admin].index("standby")
        browser.open(f"http://127.0.0.1:{admin[at]}/")
        browser.wait("document.querySelector('#standby-leader b')", "the leader is named")
        assert browser.text("#standby-leader b") == f"127.0.0.1:{ports[1 - at]}"
        assert browser.text("#state") == "standby"
        assert browser.text("#tiles") == ""
        masters[1 - at].stop()
        browser.wait("document.querySelector('#state')?.innerText === 'leader, serving'", "the standby leads")
    finally:
        for master in masters:
            master.stop()
    with Server([("now", STANDBY)]) as server:
        browser.open(server.address)
        browser.wait("document.querySelector('#standby-more a')", "the page of the leader is guessed")
        assert "knows the ledgers of 11 of 12 segments" in browser.text("#standby-more")


def test_a_page_asks_for_the_token_and_shows_what_that_allows(browser: Browser, tmp_path: Path) -> None:
    secret, roles = tmp_path / "secret", tmp_path / "roles"
    secret.write_text("token-all\n")
    roles.write_text("metrics token-metrics\nwrite token-write\nmetrics,read token-both\n")

    def enter(token: str) -> None:
        browser.evaluate(f"$('token').value = '{token}'; $('token-form').requestSubmit()")

    with WatchedPool(f"--auth_token_file={secret}", f"--auth_roles_file={roles}") as pool:
        browser.open(pool.page)
        browser.wait("document.querySelector('#ask:not([hidden])')", "the page asks for a token")
        assert browser.text("#tiers") == browser.text("#problems") == ""
        enter("token-none")
        browser.wait(
            "document.querySelector('#ask-why')?.innerText.includes('is not that of this master')", "a refusal"
        )
        enter("token-write")
        browser.wait(
            "document.querySelector('#ask-why')?.innerText.includes('allows write, and not metrics')", "a refusal"
        )
        enter("token-metrics")
        browser.wait("document.querySelector('#problems li')", "the pool is shown")
        assert "no node lends memory" in browser.text("#problems")
        assert browser.text("#hot") == "Names of keys need a token with the right read."
        assert browser.text("#ask") == ""
        browser.evaluate("$('forget').click()")
        browser.wait("document.querySelector('#ask:not([hidden])')", "the page asks for a token again")
        enter("token-both")
        browser.wait("document.querySelector('#hot')?.innerText === 'None.'", "keys may be known")


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ten_viewers_are_no_load(pool: WatchedPool) -> None:
    heard = []

    def look() -> None:
        with urllib.request.urlopen(f"{pool.page}api/v1/live?turns=3", timeout=20) as reply:
            heard.append(reply.read().count(b"event: now"))

    begun, spent = time.monotonic(), processor_seconds(pool.master.pid)
    viewers = [threading.Thread(target=look) for _ in range(10)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()
    share = (processor_seconds(pool.master.pid) - spent) / (time.monotonic() - begun)
    assert heard == [3] * 10
    assert share < 0.05, f"{share:.1%} of a processor"
