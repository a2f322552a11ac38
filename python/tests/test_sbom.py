"""The bill of materials names what is built into the programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    made = subprocess.run([sys.executable, ROOT / "packaging" / "sbom.py"], capture_output=True, check=True, text=True)
    bill: dict[str, Any] = json.loads(made.stdout)
    return bill


def test_it_names_all_crates_with_versions_licences_and_checksums(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    components = {it["bom-ref"]: it for it in bill["components"]}
    assert len(components) == len(bill["components"]) > 100
    names = {it["name"] for it in components.values()}
    assert {"mooncake-master", "mooncake-node", "rustls", "ring", "tokio", "pyo3", "aiohttp"} <= names
    assert not {"proptest", "vt100", "rcgen", "mooncake-testing", "protox"} & names, "they are for tests alone"
    for reference, it in components.items():
        if not reference.startswith("pkg:cargo/"):
            continue
        assert it["licenses"][0]["expression"], reference
        assert it["name"].startswith("mooncake-") or len(it["hashes"][0]["content"]) == 64, reference


def test_each_dependency_is_a_component(bill: dict[str, Any]) -> None:
    known = {it["bom-ref"] for it in bill["components"]}
    for it in bill["dependencies"]:
        assert it["ref"] in known
        assert set(it["dependsOn"]) <= known, it["ref"]
