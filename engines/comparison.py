"""Puts the figures of several packages into one table, and checks those of this project against limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outcome import Outcome, Table
from store_package import OURS, OURS_TCP, Package

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """One figure. Its limit applies only to this project's packages."""

    key: str
    case: str
    unit: str
    limit: float | None = None
    at_least: bool = False
    # The limit over TCP, if it differs.
    tcp_limit: float | None = None

    def limit_of(self, package: Package) -> float | None:
        """The limit for a package; None if the figure is not checked."""
        if not package.ours:
            return None
        return self.tcp_limit if package == OURS_TCP and self.tcp_limit is not None else self.limit

    def goal_of(self, package: Package) -> str:
        limit = self.limit_of(package)
        return "" if limit is None else f"{'at least' if self.at_least else 'at most'} {limit:.3g}"

    @property
    def goal(self) -> str:
        goals = [self.goal_of(OURS), *([f"TCP: {self.goal_of(OURS_TCP)}"] if self.tcp_limit is not None else [])]
        return "; ".join(goals) or "-"


def number(value: float | None) -> str:
    """A number for a table, with three significant digits; a dash if it was not measured."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def compare(outcome: Outcome, title: str, rows: Sequence[Row], found: Sequence[tuple[Package, Figures]]) -> None:
    """Adds the table. Checks each figure of this project that has a limit; a missing figure fails."""
    head = ["", "unit", *(package.name for package, _ in found), "goal"]
    cells = [[row.case, row.unit, *(number(figures.get(row.key)) for _, figures in found), row.goal] for row in rows]
    outcome.table(Table(title, head, cells))
    for package, figures in found:
        for row in rows:
            limit, value = row.limit_of(package), figures.get(row.key)
            if limit is None:
                continue
            holds = value is not None and (value >= limit if row.at_least else value <= limit)
            sentence = f"{title}, {package.name}: {row.case}{f' ({row.unit})' if row.unit else ''}"
            outcome.check(f"{sentence}: {row.goal_of(package)}", holds, number(value))
