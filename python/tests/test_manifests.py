"""The manifests of `deploy/`: what Helm renders from the chart with each file of values, the files of kustomize, and
the plain ones. They are checked against the schemas of Kubernetes, the flags of the commands, and each other.

Not checked: how a cluster runs them, and the kinds of the Prometheus operator, whose schemas are not at hand.
"""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cluster import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "mooncake"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
# The oldest version that the chart allows, and a new one.
KUBERNETES = ("1.25", "1.36")
OPERATOR_KINDS = ("ServiceMonitor", "PrometheusRule")
# The wheel with Helm is only made for this processor.
HAS_HELM = platform.machine() == "x86_64"

Manifest = dict[str, Any]
Values = dict[str, Any]


def rendered(values: Values) -> dict[str, str]:
    """The texts that Helm renders, by the paths of their templates."""
    if not HAS_HELM:
        pytest.skip("Helm is not in a package for this processor")
    import helm_python

    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        texts: dict[str, str] = chart.render(values, name="pool", namespace="kv")
        return texts


def manifests_in(texts: Iterator[str]) -> list[Manifest]:
    return [found for text in texts for found in yaml.safe_load_all(text) if found]


def of_chart(values: Values) -> list[Manifest]:
    texts = rendered(values)
    return manifests_in(text for path, text in texts.items() if path.endswith(".yaml"))


def of_folder(folder: Path) -> list[Manifest]:
    """The manifests that a kustomization names. Those here only list files, and set a namespace."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization.keys() <= {"apiVersion", "kind", "namespace", "resources"}, folder
    found = []
    for resource in kustomization["resources"]:
        path = folder / resource
        assert path.exists(), path
        found += of_folder(path) if path.is_dir() else manifests_in(iter([path.read_text()]))
    return found


SOURCES = [
    "helm",
    *[f"helm/{path.stem}" for path in EXAMPLES],
    "kustomize/pool",
    "kustomize/each-host",
    "plain/mooncake.yaml",
]


def of_source(name: str) -> list[Manifest]:
    """The manifests of a source of `SOURCES`."""
    kind, _, part = name.partition("/")
    if kind == "helm":
        return of_chart(yaml.safe_load((CHART / "examples" / f"{part}.yaml").read_text()) if part else {})
    if kind == "kustomize":
        return of_folder(DEPLOY / name)
    return manifests_in(iter([(DEPLOY / name).read_text()]))


@pytest.fixture(params=SOURCES)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    found = of_source(request.param)
    assert {"StatefulSet", "Service"} <= {manifest["kind"] for manifest in found}
    return found


def workloads(manifests: list[Manifest]) -> list[Manifest]:
    return [it for it in manifests if it["kind"] in ("StatefulSet", "DaemonSet", "Deployment")]


def containers(manifests: list[Manifest]) -> list[Manifest]:
    return [it for workload in workloads(manifests) for it in workload["spec"]["template"]["spec"]["containers"]]


def flags_of(command: list[str]) -> set[str]:
    """The names of all flags that the help of a command lists."""
    words = [str(COMMANDS / command[0]), *command[1:], "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--([a-z][a-z0-9_-]+)", text))


def test_every_manifest_fits_the_schemas_of_kubernetes(manifests: list[Manifest]) -> None:
    for manifest in manifests:
        if manifest["kind"] in OPERATOR_KINDS:
            assert manifest["apiVersion"] == "monitoring.coreos.com/v1"
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_the_commands_know_all_flags_and_the_code_all_variables(manifests: list[Manifest]) -> None:
    known = {command: flags_of([command]) for command in ("mooncake_master", "mooncake_client")}
    known_drain = flags_of(["mooncake", "drain"])
    code = "\n".join(path.read_text() for path in (ROOT / "crates").glob("*/src/**/*.rs"))
    for container in containers(manifests):
        (command,) = container["command"]
        for argument in container["args"]:
            name = re.fullmatch(r"--([a-z_]+)(=.*)?", argument)
            assert name, argument
            assert name[1] in known[command], argument
        for variable in container.get("env", []):
            if variable["name"].startswith(("MOONCAKE_", "MC_")):
                assert f'"{variable["name"]}"' in code, variable
        hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if hook:
            assert hook[:2] == ["sh", "-c"], hook
            words = shlex.split(hook[2])
            assert words[:3] == ["exec", "mooncake", "drain"], words
            assert {word.removeprefix("--") for word in words if word.startswith("--")} <= known_drain


def test_variables_in_arguments_are_set_in_the_container(manifests: list[Manifest]) -> None:
    for container in containers(manifests):
        names = {variable["name"] for variable in container.get("env", [])}
        for argument in container["args"]:
            assert set(re.findall(r"\$\((\w+)\)", argument)) <= names, argument


def is_selected(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_services_budgets_and_policies_select_pods_and_their_ports_exist(manifests: list[Manifest]) -> None:
    pods = [workload["spec"]["template"] for workload in workloads(manifests)]
    for manifest in manifests:
        spec = manifest.get("spec", {})
        selectors = {
            "Service": lambda spec=spec: spec["selector"],
            "PodDisruptionBudget": lambda spec=spec: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda spec=spec: spec["podSelector"]["matchLabels"],
        }
        if manifest["kind"] not in selectors:
            continue
        selector = {name: value for name, value in selectors[manifest["kind"]]().items() if "store-role" not in name}
        chosen = [pod for pod in pods if is_selected(selector, pod["metadata"]["labels"])]
        assert len(chosen) == 1, manifest["metadata"]["name"]
        ports = {port["name"]: port["containerPort"] for port in chosen[0]["spec"]["containers"][0]["ports"]}
        for port in spec.get("ports", []):
            assert port["targetPort"] in ports, port
        for rule in spec.get("ingress", []):
            assert {port["port"] for port in rule["ports"]} <= set(ports.values()), rule
    for container in containers(manifests):
        named = {port["name"] for port in container["ports"]}
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if kind in container:
                assert container[kind]["httpGet"]["path"] == "/health"
                assert container[kind]["httpGet"]["port"] in named


def test_nodes_name_every_master_as_its_pod_is_called(manifests: list[Manifest]) -> None:
    masters = next(it for it in workloads(manifests) if "mooncake_master" in str(it))
    name, port = masters["metadata"]["name"], 50051
    services = {it["metadata"]["name"] for it in manifests if it["kind"] == "Service"}
    if masters["kind"] == "StatefulSet":
        service = masters["spec"]["serviceName"]
        wanted = [f"{name}-{number}.{service}" for number in range(masters["spec"]["replicas"])]
        assert service in services
    else:
        wanted = [name]
        assert name in services
    nodes = [it for it in containers(manifests) if it["command"] == ["mooncake_client"]]
    assert nodes
    for node in nodes:
        argument = next(it for it in node["args"] if it.startswith("--master_server_address="))
        named = argument.split("=", 1)[1].split(",")
        assert [re.sub(r"\.kv\.svc", "", it) for it in named] == [f"{it}:{port}" for it in wanted]
        hook = str(node.get("lifecycle", ""))
        assert not hook or all(f"{it}" in hook for it in wanted)


def argument(container: Manifest, flag: str) -> str | None:
    found = [it.split("=", 1)[1] for it in container["args"] if it.startswith(f"--{flag}=")]
    return found[0] if found else None


def mebibytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "Gi" else 1)


def test_nodes_have_room_for_what_they_lend_and_time_to_hand_it_over(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        pod = workload["spec"]["template"]["spec"]
        (node,) = pod["containers"]
        if node["command"] != ["mooncake_client"]:
            continue
        lent = int((argument(node, "global_segment_size") or "").removesuffix("GB")) * 1024
        path = argument(node, "segment_path")
        # The file has a record of at most 1.6 % and 2 MiB.
        file = lent + lent * 16 // 1000 + 2 if path else lent
        assert mebibytes(node["resources"]["limits"]["memory"]) >= file + 128
        claims = workload["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"]: volume for volume in pod.get("volumes") or []}
        volumes |= {claim["metadata"]["name"]: claim for claim in claims}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in node.get("volumeMounts") or []}
        grace = pod.get("terminationGracePeriodSeconds", 30)
        hook = re.search(r"--timeout-sec (\d+)", str(node.get("lifecycle", "")))
        if path:
            memory = mounts["/dev/shm"]
            assert path.startswith("/dev/shm/")
            if "emptyDir" in memory:
                assert mebibytes(memory["emptyDir"]["sizeLimit"]) >= file
                # Such memory ends with the pod, so others take over what lies there.
                assert hook
                assert grace >= int(hook[1]) + 10
            else:
                assert not hook
        else:
            assert grace >= int(argument(node, "drain_timeout_sec") or 20) + 5
        disk = argument(node, "ssd_offload_path")
        assert not disk or disk in mounts
        assert (disk is not None) == ("--enable_offload" in node["args"])


def test_no_container_runs_as_root_or_can_gain_rights(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"]["drop"] == ["ALL"]
            assert set(context["capabilities"].get("add", [])) <= {"IPC_LOCK"}


def test_kubectl_reads_the_kustomizations_as_this_test_does() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    for name in ("pool", "each-host"):
        folder = DEPLOY / "kustomize" / name
        built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True)

        def names(manifests: list[Manifest]) -> list[tuple[str, str]]:
            return sorted((it["kind"], it["metadata"]["name"]) for it in manifests)

        found = manifests_in(iter([built.stdout]))
        assert names(found) == names(of_folder(folder))
        namespaces = {it["metadata"].get("namespace") for it in found if it["kind"] != "Namespace"}
        assert namespaces == {"mooncake"}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"masters": {"replica": 3}}, "replica"),
        ({"masters": {"replicas": 0}}, "replicas"),
        ({"masters": {"coordinator": "zookeeper"}}, "coordinator"),
        ({"masters": {"coordinator": "etcd"}}, "etcdEndpoints"),
        ({"nodes": {"memory": {"medium": "disk"}}}, "medium"),
        ({"nodes": {"memory": {"sizeGiB": "16Gi"}}}, "sizeGiB"),
        ({"nodes": {"dataPort": 70000}}, "dataPort"),
        ({"nodes": {"domains": [{"name": "zone"}]}}, "label"),
        ({"nodes": {"extraArgs": ["put_wait_ms=5"]}}, "extraArgs"),
        ({"nodes": {"kind": "DaemonSet", "disk": {"enabled": True}}}, "hostPath"),
    ],
)
def test_wrong_values_are_refused_by_name(values: Values, reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        rendered(values)


def test_helm_has_no_warning_about_the_chart() -> None:
    if not HAS_HELM:
        pytest.skip("Helm is not in a package for this processor")
    import helm_python

    for values in [{}, *(yaml.safe_load(path.read_text()) for path in EXAMPLES)]:
        report = helm_python.lint(CHART, values, strict=True)
        # An icon is recommended: an information, and no warning.
        assert [it for it in report["messages"] if it["severity"] > 1] + report["errors"] == []


def test_values_reach_the_manifests() -> None:
    values: Values = {
        "clusterId": "blue",
        "auth": {"existingSecret": "mooncake-token"},
        "masters": {"rpcPort": 6000, "extraArgs": ["--eviction_policy=lru"]},
        "nodes": {
            "rdma": {"enabled": True, "resource": "nvidia.com/hca"},
            "domains": [{"name": "rack", "label": "example.com/rack"}, {"name": "zone", "label": "zone"}],
        },
    }
    master, node = containers(of_chart(values))
    for container in (master, node):
        assert argument(container, "cluster_id") == "blue"
        assert {"name": "MOONCAKE_AUTH_TOKEN_FILE", "value": "/etc/mooncake/token"} in container["env"]
    assert argument(master, "rpc_port") == "6000"
    assert "--eviction_policy=lru" in master["args"]
    assert ":6000" in (argument(node, "master_server_address") or "")
    assert argument(node, "domain") == "rack=$(DOMAIN_0),zone=$(DOMAIN_1)"
    label = {"fieldRef": {"fieldPath": "metadata.labels['example.com/rack']"}}
    assert {"name": "DOMAIN_0", "valueFrom": label} in node["env"]
    assert node["resources"]["limits"]["nvidia.com/hca"] == "1"
    notes = rendered(values)["mooncake/templates/NOTES.txt"]
    assert "MC_STORE_CLUSTER_ID=blue" in notes
    assert "auth.existingSecret" not in notes


def test_the_chart_has_the_version_of_the_package() -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert version
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version[1], version[1])
