"""Measures vLLM's TTFT with each package: cold, with a hit in its own cache, and with a hit in the pool.

Usage: vllm_ttft.py --models FOLDER --logs FOLDER --out FILE [--cpp PYTHON] [--shapes gqa,mha] [--rounds N], with the
Python of the engines' environment. Each package has its own server and pool. They are measured in turn, so that other
load on the machine affects all packages alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from comparison import Row, compare
from outcome import Outcome
from pool import LOOPBACK, MIB, Pool
from process import end_on_sigterm
from store_package import OURS, OURS_TCP, Package, cpp_package
from vllm_faults import save
from vllm_server import VllmServer
from vllm_store import PREFIX_TOKENS, prompt, sources

NODE_BYTES = 1024 * MIB
LOOKUP_SCRIPT = Path(__file__).parent / "lookup_time.py"
LOOKUP_SECONDS = 120
OPERATIONS = ("save_put", "load_get", "lookup_exists")
# The largest time, as a share of the C++ package's.
SHARE = 1 / 3
# The most ms that a pool hit may take above a local hit: over shared memory, over TCP.
ABOVE_MS = {"gqa": (20.0, 35.0), "mha": (50.0, 90.0)}


@dataclass
class Measured:
    """One package's server and pool, and the figures measured on them."""

    package: Package
    pool: Pool
    server: VllmServer
    times_ms: dict[str, list[float]] = field(default_factory=lambda: {"cold": [], "local": [], "pool": []})
    lookups_us: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    before: dict[str, tuple[float, float]] = field(default_factory=dict)

    def counts(self) -> dict[str, tuple[float, float]]:
        """For each operation, how often it ran, and for how many ms in total."""
        return {
            name: (self.server.operation(name, "total"), self.server.operation(name, "time_seconds_sum") * 1e3)
            for name in OPERATIONS
        }

    def warm_up(self) -> None:
        """Warms up, so that first touches of memory and new connections are not measured."""
        save(self.server, prompt("warm-up", "a"))
        self.server.forget()
        self.server.complete(prompt("warm-up", "a"))
        self.before = self.counts()

    def round(self, turn: str) -> Measured:
        """Measures one prompt: cold, with a hit in the own cache, and with a hit in the pool. Compares the outputs."""
        cold = save(self.server, prompt(turn, "a"))
        local = self.server.complete(prompt(turn, "b"))
        self.server.forget()
        pooled = self.server.complete(prompt(turn, "b"))
        for case, answer, wanted in (
            ("cold", cold, (0, 0)),
            ("local", local, (0, PREFIX_TOKENS)),
            ("pool", pooled, (PREFIX_TOKENS, 0)),
        ):
            self.times_ms[case].append(answer.ttft_ms)
            if sources(answer) != wanted:
                self.wrong.append(f"{case} {turn}: tokens from (pool, own cache): {sources(answer)}")
        if pooled.tokens != local.tokens:
            self.wrong.append(f"pool {turn}: the output differs from that of a local hit")
        each = ", ".join(f"{case} {times[-1]:.0f}" for case, times in self.times_ms.items())
        print(f"  {self.package.name}, round {turn}: {each} ms", flush=True)
        return self

    def lookup(self) -> Measured:
        """Times `batch_is_exist` in another process. Raises OSError or ValueError."""
        command = [str(self.package.python), str(LOOKUP_SCRIPT), self.pool.master_address]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LOOKUP_SECONDS,
            check=False,
            env={**os.environ, **LOOPBACK, **self.package.variables},
        )
        # The package may print log lines before the result.
        self.lookups_us.append(float(done.stdout.strip().rpartition("\n")[2]))
        return self

    def figures(self) -> dict[str, float]:
        medians = {case: statistics.median(times) for case, times in self.times_ms.items()}
        after = self.counts()
        means = {
            name: (after[name][1] - self.before[name][1]) / max(after[name][0] - self.before[name][0], 1)
            for name in OPERATIONS
        }
        above = medians["pool"] - medians["local"]
        return {**medians, **means, "above": above, "exists": statistics.median(self.lookups_us)}


def rows(shape: str, with_cpp: bool) -> list[Row]:
    above, above_tcp = ABOVE_MS[shape]
    shares = [
        Row("save_put_share", "`save_put`, share of the C++ package's", "", SHARE),
        Row("load_get_share", "`load_get`, share of the C++ package's", "", SHARE),
    ]
    return [
        Row("cold", "TTFT cold", "ms"),
        Row("local", "TTFT local hit", "ms"),
        Row("pool", "TTFT pool hit", "ms"),
        Row("above", "pool hit above local hit", "ms", above, tcp_limit=above_tcp),
        Row("save_put", "`save_put`, mean by vLLM's metrics", "ms"),
        Row("load_get", "`load_get`, mean by vLLM's metrics", "ms"),
        *(shares if with_cpp else []),
        Row("lookup_exists", "`lookup_exists`, mean by vLLM's metrics", "ms"),
        Row("exists", "`batch_is_exist` of 32 keys, median", "us", 100),
    ]


@dataclass
class Shape:
    """One model, measured on all packages."""

    outcome: Outcome
    model: Path
    logs: Path
    packages: list[Package]
    rounds: int

    def run(self) -> None:
        with ExitStack() as stack:
            started = [self.goes_on(package, partial(self.start, stack, package)) for package in self.packages]
            measured = [each for each in started if each is not None]
            steps: list[Callable[[Measured], Measured]] = [Measured.lookup] * self.rounds
            steps += [partial(Measured.round, turn=str(turn)) for turn in range(self.rounds)]
            for step in steps:
                measured = [each for each in measured if self.goes_on(each.package, partial(step, each))]
            self.judge(measured)

    def goes_on(self, package: Package, step: Callable[[], Measured]) -> Measured | None:
        """The result of a step. None if it fails on the C++ package: the table omits the column; the run goes on."""
        try:
            return step()
        except Exception as error:
            if package.ours:
                raise
            print(f"  {package.name}: left out: {type(error).__name__}: {error}", flush=True)
            return None

    def start(self, stack: ExitStack, package: Package) -> Measured:
        print(f"  {package.name}: vLLM starts", flush=True)
        pool = stack.enter_context(Pool(self.logs, [NODE_BYTES], package))
        server = VllmServer(
            f"ttft-{self.model.name}-{package.file_name}",
            self.model,
            self.logs,
            pool.write_config(embedded_bytes=0),
        ).on(package)
        measured = Measured(package, pool, stack.enter_context(server))
        measured.warm_up()
        return measured

    def judge(self, measured: list[Measured]) -> None:
        found = [(each.package, each.figures()) for each in measured]
        theirs = next((figures for package, figures in found if not package.ours), None)
        if theirs is not None:
            for package, figures in found:
                shares = {f"{name}_share": figures[name] / theirs[name] for name in ("save_put", "load_get")}
                figures.update(shares if package.ours else {})
        name = self.model.name
        compare(self.outcome, f"TTFT, {name}", rows(name, theirs is not None), found)
        for each in measured:
            if each.package.ours:
                self.outcome.equal(f"TTFT, {name}, {each.package.name}: wrong sources or outputs", each.wrong, [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpp", type=Path, help="the Python of an environment with the C++ package")
    parser.add_argument("--shapes", default="gqa,mha", help="sizes of the KV cache to run, see model.py")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    end_on_sigterm()
    outcome = Outcome("vLLM, TTFT")
    packages = [OURS, OURS_TCP, *([cpp_package(arguments.cpp)] if arguments.cpp else [])]
    for name in arguments.shapes.split(","):
        shape = Shape(outcome, arguments.models / name, arguments.logs, packages, arguments.rounds)
        outcome.section(f"TTFT, {name}", shape.run)
        outcome.write(arguments.out)


if __name__ == "__main__":
    main()
