"""The report as Markdown: one table of what was measured, and the checks that did not hold."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

from outcome import Outcome


def machine() -> str:
    """The processor, its cores, the memory, the kernel and the current load."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, {memory_gib:.0f} GiB, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}"


def timing_rows(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        "| engine | case | ms, median | ms, each | tokens from the pool | from its own cache |",
        "|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        for timing in outcome.timings:
            each = ", ".join(f"{time_ms:.0f}" for time_ms in timing.times_ms)
            median = statistics.median(timing.times_ms)
            cells = (timing.subject, timing.case, f"{median:.1f}", each, timing.pool_tokens, timing.local_tokens)
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows if len(rows) > 2 else []


def check_rows(outcomes: Sequence[Outcome]) -> list[str]:
    rows = ["| engine | checks | failed |", "|---|---|---|"]
    for outcome in outcomes:
        failed = sum(not check.holds for check in outcome.checks)
        rows.append(f"| {outcome.subject} | {len(outcome.checks)} | {failed} |")
    broken = [check for outcome in outcomes for check in outcome.checks if not check.holds]
    return rows + [f"\nFAILED: {check.subject}: {check.sentence}: {check.found}" for check in broken]


def tables(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{table.title}\n\n{table.markdown()}\n" for outcome in outcomes for table in outcome.tables]


def report(outcomes: Sequence[Outcome]) -> str:
    """The machine, the times, the tables that compare packages, and the checks."""
    return "\n".join([f"{machine()}\n", *timing_rows(outcomes), "", *tables(outcomes), *check_rows(outcomes), ""])


def all_hold(outcomes: Sequence[Outcome]) -> bool:
    """Whether all checks hold. False also if an engine has no checks."""
    return all(outcome.checks and all(check.holds for check in outcome.checks) for outcome in outcomes)
