"""Medians, ratios, verdicts and Markdown tables. Converts numbers to text; measures nothing."""

import statistics
from collections.abc import Mapping, Sequence

LOWER_IS_BETTER = frozenset({"us", "ms", "s", "B", "MiB", "s/GB"})

# {figure: {field: value}}, from one run of a measuring program.
Figures = Mapping[str, Mapping[str, float]]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table. The first row is the head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(value: float | None) -> str:
    """A number with about three digits; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def medians(runs: Sequence[Figures]) -> dict[str, dict[str, float]]:
    """The medians of each figure's fields over the runs. Skips figures that a run lacks."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {
        name: {field: statistics.median(run[name][field] for run in runs) for field in runs[0][name]} for name in names
    }


def times_better(ours: float | None, theirs: float | None, unit: str) -> float | None:
    """How many times better `ours` is than `theirs`: above 1 if it is better."""
    if not ours or not theirs:
        return None
    return theirs / ours if unit in LOWER_IS_BETTER else ours / theirs


def verdict(ours: float | None, goal: float | None, unit: str) -> str:
    """The goal, and whether it was met: times and bytes must be at most the goal, rates at least."""
    if goal is None:
        return "-"
    lower = unit in LOWER_IS_BETTER
    text = f"{'<=' if lower else '>='} {goal:g}"
    if ours is None:
        return text
    return text + (", met" if (ours <= goal if lower else ours >= goal) else ", missed")


def growth(costs: Sequence[float]) -> float | None:
    """The ratio of the last cost to the first; None for fewer than two costs."""
    return costs[-1] / costs[0] if len(costs) > 1 and costs[0] else None
