"""All pages of the reference, by the name of their file below docs/reference/."""

from __future__ import annotations

from pathlib import Path

from reference import flags, man, python_api
from reference.environment import environment
from reference.http_paths import http
from reference.metrics import metrics
from reference.no_effect import no_effect
from reference.pool import metrics_of_a_pool

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"


def pages(programs: Path) -> dict[str, str]:
    """What the pages must say. `programs` is the folder of the installed programs."""
    commands = man.commands(programs)
    return {
        "master_flags.md": flags.program(commands["mooncake_master"]),
        "client_flags.md": flags.program(commands["mooncake_client"]),
        "commands.md": flags.commands(commands, on_a_pool=True),
        "other_commands.md": flags.commands(commands, on_a_pool=False),
        "environment.md": environment(ROOT, commands),
        "no_effect.md": no_effect(ROOT),
        "http.md": http(ROOT),
        "metrics.md": metrics(*metrics_of_a_pool(programs)),
        **python_api.store_pages(ROOT),
        **python_api.types(),
        "python_engine.md": python_api.engine(),
    }
