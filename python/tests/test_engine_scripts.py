"""The parts of `engines/` that need no engine: limits on figures, outcomes, the plot, and the scripts' arguments."""

from __future__ import annotations

import argparse
import importlib
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ENGINES = Path(__file__).resolve().parents[2] / "engines"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a module of `engines/`, and unloads it later, since `bench/` has modules with the same names."""
    names = {path.stem for path in ENGINES.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & set(sys.modules)}
    monkeypatch.syspath_prepend(str(ENGINES))
    yield importlib.import_module
    for name in names & set(sys.modules):
        del sys.modules[name]
    sys.modules.update(others)


@pytest.mark.parametrize(
    ("limits", "ours", "tcp", "holds"),
    [
        ({}, 1e9, 1e9, []),
        ({"limit": 20}, 20, 20, [True, True]),
        ({"limit": 20}, 20.1, 19, [False, True]),
        ({"limit": 20, "tcp_limit": 35}, 21, 35, [False, True]),
        ({"limit": 20, "tcp_limit": 35}, 20, 36, [True, False]),
        ({"limit": 6, "at_least": True}, 6, 5, [True, False]),
        ({"limit": 6, "at_least": True}, None, 7, [False, True]),
    ],
)
def test_limits_are_checked_for_this_project_alone(
    engines: Any, limits: dict[str, Any], ours: float | None, tcp: float, holds: list[bool]
) -> None:
    comparison, package, outcomes = engines("comparison"), engines("store_package"), engines("outcome")
    outcome = outcomes.Outcome("subject")
    found = [
        (package.OURS, {} if ours is None else {"key": ours}),
        (package.OURS_TCP, {"key": tcp}),
        (package.cpp_package(Path("python")), {"key": 1e12}),
    ]
    comparison.compare(outcome, "title", [comparison.Row("key", "case", "ms", **limits)], found)
    assert [check.holds for check in outcome.checks] == holds


def test_an_outcome_is_read_as_it_was_written(engines: Any, tmp_path: Path) -> None:
    outcomes = engines("outcome")
    outcome = outcomes.Outcome("subject")
    outcome.equal("holds", 1, 1)
    outcome.equal("does not", 1, 2)
    outcome.time("case", [1.5], 2, 3)
    outcome.table(outcomes.Table("title", ["", "unit"], [["row", "ms"]]))
    outcome.write(tmp_path / "outcome.json")
    assert outcomes.Outcome.read(tmp_path / "outcome.json") == outcome


@pytest.mark.parametrize("names", [["no pool", "this project"], ["no pool", "C++ package", "this project"]])
def test_the_plot_has_a_bar_for_each_figure(engines: Any, names: list[str]) -> None:
    keys = [f"{group}_{figure}" for group in ("first", "later") for figure in ("ttft", "rate", "itl")]
    figures = {name: {key: 100.0 + number for number, key in enumerate(keys)} for name in names}
    svg = ET.fromstring(engines("multi_turn_plot").plot(figures))
    space = "{http://www.w3.org/2000/svg}"
    bars_and_legend = len(names) * (len(keys) + 1)
    assert len(svg.findall(f"{space}rect")) == bars_and_legend
    assert set(names) < {text.text for text in svg.findall(f"{space}text")}


@pytest.mark.parametrize(
    ("name", "quick", "with_cpp", "told"),
    [
        ("sglang", False, True, []),
        ("vllm", False, True, ["--models", "--shapes=gqa"]),
        ("ttft", False, True, ["--models", "--shapes=gqa,mha", "--cpp"]),
        ("ttft", True, False, ["--models", "--shapes=gqa", "--rounds=1"]),
        ("multi-turn", True, True, ["--models", "--conversations=4", "--turns=3", "--cpp"]),
    ],
)
def test_scripts_are_told_what_they_take(engines: Any, name: str, quick: bool, with_cpp: bool, told: list[str]) -> None:
    run = engines("run")
    given = argparse.Namespace(quick=quick, shapes="gqa,mha")
    found = run.arguments_of(run.ENGINES[name], given, with_cpp)
    # The paths depend on the machine.
    assert [each.partition("=")[0] if each.startswith(("--models", "--cpp")) else each for each in found] == told


def test_progress_is_what_a_script_says_itself(
    engines: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, process = engines("run"), engines("process")
    lines = [
        "vLLM: nodes",
        "  cold: 5 ms",
        "  ok: holds",
        "  FAILED: does not",
        "INFO of an engine",
        "    deep",
    ]
    code = f"import sys; print({chr(10).join(lines)!r}); sys.exit(3)"
    script = process.EngineProcess([sys.executable, "-c", code], tmp_path / "script.log")
    assert run.follow(script, "vLLM", 60) == 3
    assert capsys.readouterr().out.splitlines() == ["vLLM: nodes", "  cold: 5 ms", "  FAILED: does not"]


def test_a_script_that_runs_too_long_is_an_error(engines: Any, tmp_path: Path) -> None:
    run, process = engines("run"), engines("process")
    script = process.EngineProcess([sys.executable, "-c", "input()"], tmp_path / "script.log", {})
    slow = process.EngineProcess(["sleep", "60"], tmp_path / "slow.log")
    try:
        with pytest.raises(TimeoutError):
            run.follow(slow, "vLLM", 0)
        assert run.follow(script, "vLLM", 60) == 1
    finally:
        slow.kill()
