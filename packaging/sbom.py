"""Writes the bill of materials of what the wheel and the programs contain, as CycloneDX 1.5 in JSON.

`python packaging/sbom.py > sbom.json`, or `make sbom`. Crates come from `cargo metadata`, their checksums from
`Cargo.lock`, and what pip installs beside the wheel from `pyproject.toml`. Crates for tests and builds alone are left
out. Needs Python 3.11.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).parents[1]
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
# The crates whose programs and libraries are given out.
PRODUCTS = ("mooncake-cli", "mooncake-python", "mooncake-c-api")


def metadata(target: str) -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return found


def checksums() -> dict[tuple[str, str], str]:
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(it["name"], it["version"]): it["checksum"] for it in locked if "checksum" in it}


def built_in(node: dict[str, Any]) -> list[str]:
    """What a crate is linked with: neither what its build runs nor what its tests use."""
    kinds = [(it["pkg"], [kind["kind"] for kind in it["dep_kinds"]]) for it in node["deps"]]
    return [package for package, of in kinds if None in of]


def reached(found: dict[str, Any]) -> dict[str, list[str]]:
    """The packages of the products, with those that each depends on, by their ids."""
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    left = [it["id"] for it in found["packages"] if it["name"] in PRODUCTS]
    edges: dict[str, list[str]] = {}
    while left:
        package = left.pop()
        if package not in edges:
            edges[package] = built_in(nodes[package])
            left += edges[package]
    return edges


def purl(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict[str, Any], sums: dict[tuple[str, str], str]) -> dict[str, Any]:
    made = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package["license"]:
        # Some crates write the old form of "either".
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (checksum := sums.get((package["name"], package["version"]))) is not None:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def bill() -> dict[str, Any]:
    packages: dict[str, dict[str, Any]] = {}
    edges: dict[str, set[str]] = {}
    for target in TARGETS:
        found = metadata(target)
        by_id = {it["id"]: it for it in found["packages"]}
        for package, others in reached(found).items():
            packages[purl(by_id[package])] = by_id[package]
            edges.setdefault(purl(by_id[package]), set()).update(purl(by_id[other]) for other in others)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [version] = {it["version"] for it in packages.values() if it["name"] in PRODUCTS}
    sums = checksums()
    components = [component(packages[name], sums) for name in sorted(packages)]
    for wanted in project.get("dependencies", []):
        # Which version is installed is decided where the wheel is.
        name = re.split(r"[^\w.-]", wanted)[0]
        components.append({"type": "library", "bom-ref": f"pkg:pypi/{name}", "name": name, "purl": f"pkg:pypi/{name}"})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same content has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": project["name"], "version": version}},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": sorted(edges[name])} for name in sorted(edges)],
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
    sys.stdout.write("\n")
