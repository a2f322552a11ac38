"""The page of all HTTP paths, out of the routers and the comments of their handlers."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from reference.page import page, prose, table

ROUTE = re.compile(r'\.route\(\s*"([^"]+)",\s*(.+?)\)\n', re.DOTALL)
METHOD = re.compile(r"\b(get|put|post|delete)\((async \|\| \"[^\"]*\"|[\w:]+)\)")
# The layer that asks for a right, or for what it is named after.
LAYER = re.compile(r"\.route_layer\(need\w*\((?:.*Rights::(\w+)|.*?(\w+)\)).*\n")
# What a layer is called whose name is not that of a right.
LAYERS = {"counters": "metrics, if tokens have roles"}
HANDLER = re.compile(r"((?:^///[^\n]*\n)+)(?:pub(?:\([^)]*\))? )?async fn (\w+)\(", re.MULTILINE)
# A comment begins with the request, and goes on with what it does.
REQUEST = re.compile(r"`(?:GET|PUT|POST|DELETE) ([^`?]*)(\?[^`]*)?`: (.*)", re.DOTALL)


@dataclass(frozen=True)
class Served:
    """A request that is served: what it is, the right that it needs where tokens have roles, and what it does."""

    request: str
    right: str
    text: str


def comments(folder: Path) -> dict[str, str]:
    """What stands above each handler in the files below this folder, by module and name."""
    found = {}
    for file in sorted(folder.rglob("*.rs")):
        module = file.stem if file.parent == folder else file.relative_to(folder).parts[0]
        for text, name in HANDLER.findall(file.read_text()):
            found[f"{module}::{name}"] = " ".join(line.removeprefix("///").strip() for line in text.splitlines())
    return found


def capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def of_router(file: Path) -> list[Served]:
    """The requests of one router in Rust."""
    source = file.read_text().split("#[cfg(test)]")[0]
    texts = comments(file.parent)
    found = []
    layers = [(layer.start(), (layer[1] or layer[2]).lower()) for layer in LAYER.finditer(source)]
    for route in ROUTE.finditer(source):
        # The rights of a router stand behind its routes, and hold for none of a later router.
        right = next((LAYERS.get(name, name) for place, name in layers if place > route.start()), "")
        for method, handler in METHOD.findall(route[2]):
            if handler.startswith("async"):
                answer = handler.split("||")[1].strip().strip('"')
                found.append(Served(f"{method.upper()} {route[1]}", right, f"Always `{answer}`."))
                continue
            name = handler if "::" in handler else f"{file.stem}::{handler}"
            text = texts.get(name, "")
            comment = REQUEST.match(text)
            request = f"{method.upper()} {route[1]}{comment[2] or '' if comment else ''}"
            found.append(Served(request, right, capitalised(comment[3] if comment else text)))
    if not found:
        raise ValueError(f"{file} has no routes")
    return found


def of_service(root: Path) -> list[Served]:
    """The requests of the REST service in Python."""
    texts = {}
    for file in sorted((root / "python/mooncake/_rest").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
                texts[node.name] = " ".join(text.split("\n\n")[0].split())
    source = (root / "python/mooncake/mooncake_store_service.py").read_text()
    routes = re.findall(r'web\.(get|put|delete)\("([^"]+)", self\.(\w+)\)', source)
    # Those that are for operators alone stand in lists of their own: removals, and changes of the process.
    guarded = re.findall(r'"(/api/\w+)": self\.(handle_\w+)', source)
    routes += [("delete" if "/remove" in path else "post", path, name) for path, name in guarded]
    paths = [
        (method, re.sub(r"\{(\w+):[^}]*\}", lambda it: it[1].upper(), path), name) for method, path, name in routes
    ]
    return [Served(f"{method.upper()} {path}", "", texts[name]) for method, path, name in paths]


def http(root: Path) -> str:
    def requests(paths: list[Served]) -> str:
        return table(("request", "what it does"), [(f"`{it.request}`", prose(it.text)) for it in paths])

    admin = of_router(root / "crates/master/src/admin/server.rs")
    rights = [(f"`{it.request}`", it.right or "none", prose(it.text)) for it in admin]
    return page(
        "HTTP paths",
        "All paths that the programs serve. The linked pages say what the answers look like.",
        "## The master: admin HTTP",
        "On `--metrics_port`, by default 9003 ([admin HTTP](../admin_http.md)). If the master has a token, a request"
        " needs one with this [right](../security.md#roles); the token of a pool without roles has all.",
        table(("request", "right", "what it does"), rights),
        "## A client or a node",
        "On `--http_port`, by default 9300 ([HTTP of a client](../admin_http.md#http-of-a-client)).",
        requests(of_router(root / "crates/client/src/http.rs")),
        "## The REST service",
        "`mooncake_store_service` ([services](../services.md#the-stores-rest-service)).",
        requests(of_service(root)),
        "## The metadata server",
        "Of the master and of `mooncake_http_metadata_server` ([services](../services.md#the-metadata-server)).",
        requests(of_router(root / "crates/master/src/metadata_server/routes.rs")),
    )
