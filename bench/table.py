"""Medians, ratios and verdicts, and tables of them in Markdown. Numbers in, text out; nothing is measured here."""

import statistics
from collections.abc import Mapping, Sequence

LOWER_IS_BETTER = frozenset({"us", "ms", "s", "B", "MiB", "s/GB"})

# {figure: {field: value}}, as one run of a measuring program gives it.
Figures = Mapping[str, Mapping[str, float]]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table; the first is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(value: float | None) -> str:
    """A number in three digits or so; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def medians(runs: Sequence[Figures]) -> dict[str, dict[str, float]]:
    """Each figure's fields over the runs; a figure counts where every run has it."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {
        name: {field: statistics.median(run[name][field] for run in runs) for field in runs[0][name]} for name in names
    }


def times_better(ours: float | None, theirs: float | None, unit: str) -> float | None:
    """How many times better ours is than theirs: above 1 if it is."""
    if not ours or not theirs:
        return None
    return theirs / ours if unit in LOWER_IS_BETTER else ours / theirs


def verdict(ours: float | None, goal: float | None, unit: str) -> str:
    """The goal and whether it was met: at most the goal for times and bytes, at least for rates."""
    if goal is None:
        return "-"
    lower = unit in LOWER_IS_BETTER
    text = f"{'<=' if lower else '>='} {goal:g}"
    if ours is None:
        return text
    return text + (", met" if (ours <= goal if lower else ours >= goal) else ", missed")


def growth(costs: Sequence[float]) -> float | None:
    """How many times more the last costs than the first; none where there are not two."""
    return costs[-1] / costs[0] if len(costs) > 1 and costs[0] else None
