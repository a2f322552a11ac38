"""The page of metrics: what a master and a node of a small pool export."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reference.page import page, prose, table

FAMILY = re.compile(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n((?:[^#\n].*\n)*)", re.MULTILINE)
LABELS = re.compile(r"\{([^}]*)\}")
# How the text of a counter of one kind of requests begins.
OF_AN_OPERATION = (
    "Requests: ",
    "Requests without one success: ",
    "Keys: ",
    "Keys that failed: ",
    "Requests of which some keys failed: ",
)


@dataclass(frozen=True)
class Family:
    """All samples of a metric."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]


def families(exported: str) -> list[Family]:
    """The metrics of a program, as it exports them."""
    found = []
    for name, text, kind, samples in FAMILY.findall(exported):
        pairs = [pair for group in LABELS.findall(samples) for pair in group.split(",") if "=" in pair]
        labels = {pair.partition("=")[0] for pair in pairs}
        found.append(Family(name, kind, text, tuple(sorted(labels - {"le"}))))
    return found


def row(family: Family) -> tuple[str, str, str]:
    labels = f"{{{','.join(family.labels)}}}" if family.labels else ""
    return f"`{family.name}{labels}`", family.kind, prose(family.text)


def metrics(master: str, node: str) -> str:
    """The page of these two programs."""
    of_master, of_node = families(master), families(node)
    program = [family for family in of_master if family in of_node]
    operations = [family.text.partition(": ")[2] for family in of_master if family.text.startswith("Requests: ")]
    plain = [f"`{name}`" for name in operations if not name.startswith("batch_")]
    batches = [f"`{name}`" for name in operations if name.startswith("batch_")]
    own = [family for family in of_master if family not in program and not family.text.startswith(OF_AN_OPERATION)]
    head = ("metric", "kind", "meaning")
    return page(
        "Metrics",
        "What `/metrics` of a master (port 9003) and of a client or node (port 9300) exports."
        " [Metrics by question](../metrics.md) says which to look at, and what they mean together.",
        "## Of every program",
        table(head, map(row, program)),
        "## Of a master",
        "A standby exports those of the program and of leadership. Those of tenants need `--enable_multi_tenants`.",
        table(head, map(row, own)),
        "## Requests to a master",
        "Each operation has two counters, `master_OPERATION_requests_total` and `master_OPERATION_failures_total`:"
        " requests, and requests without one success.",
        f"Operations: {', '.join(plain)}.",
        "Operations on batches also have `..._items_total`, `..._failed_items_total` and `..._partial_successes_total`:"
        " keys, keys that failed, and requests of which some keys failed.",
        f"Operations on batches: {', '.join(batches)}.",
        "## Of a client or a node",
        table(head, [row(family) for family in of_node if family not in program]),
    )
