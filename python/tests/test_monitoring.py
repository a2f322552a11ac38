"""The dashboards and alerts of `deploy/monitoring`, asked of a real Prometheus that reads a pool's metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import MIB, Cluster, free_port, wait_until
from mooncake.store import MooncakeDistributedStore
from servers import Server

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
ALERTS = MONITORING / "alerts.yaml"
# What Grafana puts in place of its variables.
VARIABLES = {"$namespace": ".*", "$job": "mooncake.*", "$__rate_interval": "10s"}


class Prometheus(Server):
    """Debian's Prometheus, which reads these targets each second and keeps the alerts."""

    def __init__(self, targets: list[str]) -> None:
        super().__init__()
        folder = Path(self.folder.name)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "mooncake", "static_configs": [{"targets": targets}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        arguments = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        self.start(arguments, lambda: self.is_ready())

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def __enter__(self) -> Prometheus:
        return self

    def ask(self, path: str, **query: str) -> Any:
        """The answer of the HTTP API. An expression that cannot be parsed is an error."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=20) as reply:
            answer = json.loads(reply.read())
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found


class Pool:
    """A pool whose master, node and engine export their metrics, and have done some work."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster("--enable_offload", "--default_kv_lease_ttl=300")
        node_http, self.engine_http = free_port(), free_port()
        disk = folder / "disk"
        disk.mkdir()
        self.cluster.start_node(
            64 * MIB,
            "--enable_http_server",
            "--http_host=127.0.0.1",
            f"--http_port={node_http}",
            "--enable_offload",
            f"--ssd_offload_path={disk}",
            "--ssd_offload_size=64MB",
        )
        ports = (self.cluster.http_port, node_http, self.engine_http)
        self.targets = [f"127.0.0.1:{port}" for port in ports]
        self.engine = MooncakeDistributedStore()
        self.cluster.stores.append(self.engine)
        code = self.engine.setup(
            *("localhost", "P2PHANDSHAKE", 0, 64 * MIB, "tcp", "", self.cluster.master_address),
            enable_client_http_server=True,
            client_http_port=self.engine_http,
        )
        assert code == 0
        self.rounds = 0

    def work(self) -> None:
        """Puts, gets and looks for objects, so that all counters of that move."""
        self.rounds += 1
        one, *keys = [f"round-{self.rounds}-{number}" for number in range(4)]
        assert self.engine.put(one, b"value" * 100) == 0
        assert self.engine.put_batch(keys, [b"value" * 100] * len(keys)) == 0
        self.engine.get_batch([*keys, "absent"])
        self.engine.get(one)
        self.engine.is_exist("absent")
        self.engine.batch_is_exist([one, "absent"])

    def exported(self) -> dict[str, str]:
        """The kinds of all metrics by their names, as the processes export them."""
        found: dict[str, str] = {}
        for target in self.targets:
            with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as reply:
                found.update(re.findall(r"^# TYPE (\S+) (\S+)$", reply.read().decode(), re.MULTILINE))
        return found


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    pool = Pool(tmp_path_factory.mktemp("monitored"))
    with pool.cluster:
        yield pool


@pytest.fixture(scope="module")
def prometheus(pool: Pool) -> Iterator[Prometheus]:
    with Prometheus(pool.targets) as prometheus:

        def has_rates() -> bool:
            pool.work()
            return len(prometheus.series("rate(process_cpu_seconds_total[10s])")) == len(pool.targets)

        wait_until(has_rates, 60, "Prometheus has read all targets twice")
        yield prometheus


def panels(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions(path: Path) -> list[tuple[str, str]]:
    """The title of the panel, and the expression, for each expression of a dashboard."""
    found = []
    for panel in panels(path):
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            assert "$" not in text, text
            found.append((panel["title"], text))
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def metrics_in(expression: str) -> set[str]:
    """The names of metrics in an expression: words with an underscore that are no labels and no functions."""
    bare = re.sub(r"\{[^}]*\}", "", expression)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    return {word for word in re.findall(r"\b([a-z]\w+)\b(?!\s*\()", bare) if "_" in word}


def test_every_metric_in_every_expression_is_one_that_a_process_exports(pool: Pool) -> None:
    kinds = pool.exported()
    for name, kind in list(kinds.items()):
        if kind == "histogram":
            kinds.update({f"{name}_{part}": kind for part in ("bucket", "sum", "count")})
    texts = [text for path in DASHBOARDS for _, text in expressions(path)] + [rule["expr"] for rule in rules()]
    assert len(texts) > 100
    for text in texts:
        metrics = metrics_in(text)
        assert metrics or "up{" in text, text
        for metric in metrics:
            assert metric in kinds, f"{metric} of {text}"
            # A rate of a gauge, and the value of a counter alone, mean nothing.
            is_rate = re.search(rf"(rate|increase)\({metric}\b", text) is not None
            is_gauge = kinds[metric] == "gauge" or metric == "process_start_time_seconds"
            assert is_rate != is_gauge, f"{metric} is a {kinds[metric]}: {text}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_prometheus_answers_every_panel_with_series(path: Path, prometheus: Prometheus) -> None:
    for title, text in expressions(path):
        assert prometheus.series(text), f"{title}: {text}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_can_be_imported(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    assert dashboard["uid"] == f"mooncake-{path.stem}"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"datasource", "namespace", "job"}
    all_panels = panels(path)
    for panel in all_panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}
        others = [it["gridPos"] for it in all_panels if it is not panel]
        for other in others:
            is_beside = place["x"] + place["w"] <= other["x"] or other["x"] + other["w"] <= place["x"]
            is_above = place["y"] + place["h"] <= other["y"] or other["y"] + other["h"] <= place["y"]
            assert is_beside or is_above, panel["title"]


def test_the_alerts_are_good_and_none_fires_in_a_healthy_pool(prometheus: Prometheus) -> None:
    promtool = shutil.which("promtool")
    assert promtool
    subprocess.run([promtool, "check", "rules", str(ALERTS)], check=True, capture_output=True)
    for rule in rules():
        prometheus.series(rule["expr"])
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
    active = prometheus.ask("alerts")["alerts"]
    # Alerts that wait for their time would be listed too.
    assert [alert["labels"]["alertname"] for alert in active] == []


def test_a_lost_node_raises_its_alerts(pool: Pool, prometheus: Prometheus) -> None:
    node = pool.cluster.nodes[0]
    node.kill()

    def raised() -> set[str]:
        return {alert["labels"]["alertname"] for alert in prometheus.ask("alerts")["alerts"]}

    wanted = {"MooncakeNodeOutOfSight", "MooncakeProcessDown"}
    wait_until(lambda: wanted <= raised(), 30, "the alerts of a lost node are pending")
