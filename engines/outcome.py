"""The results of one script: checks, times and tables. Scripts write them as JSON for `run.py`."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Check:
    """A sentence that must be true, and the value that was found if it is not."""

    subject: str
    sentence: str
    holds: bool
    found: str = ""


@dataclass
class Timing:
    """The times of one case in ms, and the prompt tokens from the pool and from the engine's own cache."""

    subject: str
    case: str
    times_ms: list[float]
    pool_tokens: int = 0
    local_tokens: int = 0


@dataclass
class Table:
    """A table of figures, as text."""

    title: str
    head: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass
class Outcome:
    """The results for one subject, like `vLLM`."""

    subject: str
    checks: list[Check] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def equal(self, sentence: str, found: object, wanted: object) -> None:
        """Records whether `found` equals `wanted`."""
        self.check(sentence, found == wanted, f"{found!r} instead of {wanted!r}")

    def check(self, sentence: str, holds: bool, found: str) -> None:
        """Records whether the sentence holds, and `found` if it does not."""
        self.checks.append(Check(self.subject, sentence, holds, "" if holds else found))
        print(f"  {'ok' if holds else 'FAILED'}: {sentence}" + ("" if holds else f": {found}"), flush=True)

    def table(self, table: Table) -> None:
        self.tables.append(table)
        print(f"\n{table.title}\n\n{table.markdown()}\n", flush=True)

    def time(self, case: str, times_ms: list[float], pool_tokens: int = 0, local_tokens: int = 0) -> None:
        self.timings.append(Timing(self.subject, case, times_ms, pool_tokens, local_tokens))
        print(f"  {case}: {', '.join(f'{time:.0f}' for time in times_ms)} ms", flush=True)

    def section(self, name: str, body: Callable[[], None]) -> None:
        """Runs one part. An exception becomes a failed check, and the next part still runs."""
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
        """Reads an outcome. Raises OSError, ValueError, TypeError or KeyError if the file holds none."""
        stored = json.loads(path.read_text())
        return Outcome(
            stored["subject"],
            [Check(**check) for check in stored["checks"]],
            [Timing(**timing) for timing in stored["timings"]],
            [Table(**table) for table in stored["tables"]],
        )
