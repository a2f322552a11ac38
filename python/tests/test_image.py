"""The image of `deploy/docker`: what its file names, and its health check in a container's namespaces.

No image is built here: that needs base images from a registry, and a release build.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import wait_until
from namespaces import WireError
from pods import Pod, Pods, Role

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deploy" / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
HEALTH = DOCKER / "mooncake-health"


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, without comments."""
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def is_sent(path: str) -> bool:
    """Whether a path of the tree is part of what a build sees: the last rule that fits decides."""
    sent = True
    for rule in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines():
        pattern = rule.lstrip("!")
        if (
            rule
            and not rule.startswith("#")
            and any(fnmatch.fnmatch(part, pattern) for part in [path, *map(str, Path(path).parents)] if part != ".")
        ):
            sent = rule.startswith("!")
    return sent


def test_what_the_build_copies_is_in_the_tree_and_not_ignored() -> None:
    sources = [
        source
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
        if source != "."
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert is_sent(source), source
    needed = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml", "crates/cli/Cargo.toml"]
    needed += [
        "pyproject.toml",
        "packaging/backend.py",
        "python/mooncake/store.py",
        "proto/mooncake.proto",
        "README.md",
    ]
    for path in needed:
        assert (ROOT / path).exists(), path
        assert is_sent(path), path
    for path in [".git/config", "target/debug", ".venv/bin", "python/tests/cluster.py", "bench/compare.py"]:
        assert not is_sent(path), path


def test_the_image_runs_as_a_user_with_the_compiler_of_the_tree() -> None:
    stages = [stage.split("\n") for stage in re.split(r"(?m)^FROM ", DOCKERFILE)[1:]]
    last = stages[-1][0].strip()
    names = {stage[0].split(" AS ")[-1]: stage for stage in stages if " AS " in stage[0]}
    users = [line.split()[1] for line in names[last] if line.startswith("USER")]
    assert users == ["65532:65532"]
    assert [line for line in names["python"] if line.startswith("USER")][-1] == "USER 65532:65532"
    channel = re.search(r'channel = "([\d]+\.[\d]+)', (ROOT / "rust-toolchain.toml").read_text())
    assert channel
    assert set(re.findall(r"rust:([\d.]+)-", DOCKERFILE)) == {channel[1]}
    variables = re.findall(r"^ENV (MOONCAKE_\w+)=", DOCKERFILE, re.MULTILINE)
    code = "\n".join(path.read_text() for path in (ROOT / "crates").glob("*/src/**/*.rs"))
    assert variables
    assert all(f'"{name}"' in code for name in variables)


@pytest.mark.parametrize("script", ["build-commands", "mooncake-health"])
def test_the_scripts_have_no_errors_of_syntax(script: str) -> None:
    path = DOCKER / script
    shell = path.read_text().split("\n", 1)[0].removeprefix("#!")
    subprocess.run([shell, "-n", str(path)], check=True)


def test_an_architecture_without_an_image_is_an_error() -> None:
    command = [str(DOCKER / "build-commands"), "riscv64", "release", "/out"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (1, "there is no image for the architecture riscv64\n")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    try:
        pods = Pods(hosts)
    except WireError as error:
        pytest.fail(str(error))
    with pods:
        yield pods


def health(pod: Pod) -> int:
    """The status of the health check in the pod."""
    (first,) = Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()
    enter = ["nsenter", "--target", first, "--pid", "--mount", "--net"]
    return subprocess.run([*enter, str(HEALTH)], capture_output=True, timeout=20).returncode


def test_the_health_check_tells_a_master_and_a_node_that_work_from_those_that_do_not(pods: Pods) -> None:
    def role(command: str, port: int) -> Role:
        # The container's first process is the program itself.
        return Role("", 1, {"MOONCAKE_WAIT_FOR_MASTER": "1"}, f"exec {command}", port, [])

    master = Pod(pods, role("mooncake_master --state_dir=none", 9003))
    node: Pod | None = None
    try:
        wait_until(lambda: health(master) == 0, 10, "the master is healthy")
        address = shlex.quote(f"{master.address}:50051")
        command = f"mooncake_client --master_server_address={address} --global_segment_size=16MB --enable_http_server"
        node = Pod(pods, role(command, 9300))
        wait_until(lambda: health(node) == 0, 10, "the node is healthy")
        master.kill()
        wait_until(lambda: health(node) == 1, 10, "the node without a master is not healthy")
    finally:
        master.kill()
        if node:
            node.kill()
