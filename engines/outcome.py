"""What one script found: checks that hold or not, and times. Written as JSON, read by `run.py`."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Check:
    """One sentence that has to be true, and what was found instead if it is not."""

    subject: str
    sentence: str
    holds: bool
    found: str = ""


@dataclass
class Timing:
    """Times of one case in ms, and the tokens that came from the pool and from the engine's own cache."""

    subject: str
    case: str
    times_ms: list[float]
    pool_tokens: int = 0
    local_tokens: int = 0


@dataclass
class Table:
    """Figures side by side, as text."""

    title: str
    head: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass
class Outcome:
    """Collects for one subject, such as `vLLM`."""

    subject: str
    checks: list[Check] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def equal(self, sentence: str, found: object, wanted: object) -> None:
        """Notes that `found` has to equal `wanted`."""
        self.check(sentence, found == wanted, f"{found!r} instead of {wanted!r}")

    def check(self, sentence: str, holds: bool, found: str) -> None:
        """Notes whether the sentence holds, and what was found if it does not."""
        self.checks.append(Check(self.subject, sentence, holds, "" if holds else found))
        print(f"  {'ok' if holds else 'FAILED'}: {sentence}" + ("" if holds else f": {found}"), flush=True)

    def table(self, table: Table) -> None:
        self.tables.append(table)
        print(f"\n{table.title}\n\n{table.markdown()}\n", flush=True)

    def time(self, case: str, times_ms: list[float], pool_tokens: int = 0, local_tokens: int = 0) -> None:
        self.timings.append(Timing(self.subject, case, times_ms, pool_tokens, local_tokens))
        print(f"  {case}: {', '.join(f'{time:.0f}' for time in times_ms)} ms", flush=True)

    def section(self, name: str, body: Callable[[], None]) -> None:
        """Runs one part; what it raises becomes a failed check, and the next part runs all the same."""
        print(f"{self.subject}: {name}", flush=True)
        try:
            body()
        except Exception as error:
            traceback.print_exc()
            self.equal(f"{name}: runs to its end", f"{type(error).__name__}: {error}", "the end")

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def read(path: Path) -> Outcome:
        """Raises OSError, ValueError, TypeError or KeyError if no outcome lies there."""
        stored = json.loads(path.read_text())
        return Outcome(
            stored["subject"],
            [Check(**check) for check in stored["checks"]],
            [Timing(**timing) for timing in stored["timings"]],
            [Table(**table) for table in stored["tables"]],
        )
