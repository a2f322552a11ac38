"""The parts of the benchmarks that do not measure: medians, ratios, verdicts, tables, plots."""

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import breakdown
import compare
import everything
import instructions
import link
import master_load
import plot
import pytest
import python_overhead
import raw_limits
import scale
import table

SVG = "{http://www.w3.org/2000/svg}"


def test_medians_are_of_each_field_and_need_every_run() -> None:
    runs = [
        {"get": {"us": 3.0, "GBps": 1.0}, "put": {"us": 9.0}},
        {"get": {"us": 1.0, "GBps": 5.0}},
        {"get": {"us": 2.0, "GBps": 3.0}, "put": {"us": 7.0}},
    ]
    assert table.medians(runs) == {"get": {"us": 2.0, "GBps": 3.0}}


@pytest.mark.parametrize(
    ("ours", "theirs", "unit", "expected"),
    [
        (50.0, 100.0, "us", 2.0),
        (100.0, 50.0, "us", 0.5),
        (3.0, 1.5, "GB/s", 2.0),
        (1.0, 4.0, "k/s", 0.25),
        (0.5, 2.0, "s/GB", 4.0),
        (None, 4.0, "us", None),
        (4.0, None, "us", None),
        (0.0, 4.0, "us", None),
    ],
)
def test_a_ratio_is_above_one_where_ours_is_better(
    ours: float | None, theirs: float | None, unit: str, expected: float | None
) -> None:
    assert table.times_better(ours, theirs, unit) == expected


@pytest.mark.parametrize(
    ("ours", "goal", "unit", "expected"),
    [
        (45.0, 45.0, "us", "<= 45, met"),
        (45.1, 45.0, "us", "<= 45, missed"),
        (2.8, 2.8, "GB/s", ">= 2.8, met"),
        (2.7, 2.8, "GB/s", ">= 2.8, missed"),
        (None, 2.8, "GB/s", ">= 2.8"),
        (1.0, None, "us", "-"),
    ],
)
def test_a_goal_is_an_upper_bound_of_times_and_a_lower_one_of_rates(
    ours: float | None, goal: float | None, unit: str, expected: str
) -> None:
    assert table.verdict(ours, goal, unit) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (0.0123, "0.0123"), (9.876, "9.88"), (99.94, "99.9"), (100.4, "100"), (12345.6, "12,346")],
)
def test_a_cell_has_three_digits_or_so(value: float | None, expected: str) -> None:
    assert table.cell(value) == expected


def test_a_table_is_markdown() -> None:
    assert table.markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(("costs", "expected"), [([2.0, 3.0], 1.5), ([2.0], None), ([], None), ([0.0, 3.0], None)])
def test_growth_is_of_the_last_over_the_first(costs: list[float], expected: float | None) -> None:
    assert table.growth(costs) == expected


@pytest.mark.parametrize(
    ("kept", "now", "expected"),
    [
        (None, 100.0, "new"),
        (100.0, None, "gone"),
        (100.0, 103.0, "same"),
        (100.0, 103.1, "more"),
        (100.0, 97.0, "same"),
        (100.0, 96.9, "fewer"),
    ],
)
def test_instructions_may_differ_by_the_tolerance(kept: float | None, now: float | None, expected: str) -> None:
    assert instructions.verdict(kept, now) == expected


def test_an_operation_that_is_gone_is_named_too() -> None:
    assert instructions.compare({"a": 1.0, "old": 5.0}, {"a": 1.0, "b": 2.0}) == {
        "a": "same",
        "b": "new",
        "old": "gone",
    }


def test_without_valgrind_the_check_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["instructions.py"])
    with pytest.raises(SystemExit, match="apt-get install valgrind"):
        instructions.main()


def figures(us: float) -> dict[str, dict[str, float]]:
    return {"get_4096": {"p50_us": us, "p99_us": us, "GBps": 1.0}}


BARE = {limit.figure: {"p50_us": 500.0, "GBps": 2.0} for limit in raw_limits.LIMITS}


def test_a_row_holds_ours_against_the_others_and_the_goal() -> None:
    row = compare.Row("get", "get_4096", "p50_us", "us", 45)
    of = {"cpp": figures(180), "cpp_pool": figures(90), "rust_tcp": figures(60)}
    assert compare.line(row, of, "rust_tcp") == ["get", "us", "180", "90", "60", "3.00", "1.50", "<= 45, missed"]


def test_a_row_of_one_package_alone_has_no_ratio() -> None:
    row = compare.Row("get", "get_4096", "p50_us", "us", 45)
    assert compare.line(row, {"cpp": figures(180)}, "rust") == ["get", "us", "180", "<= 45"]
    assert compare.line(row, {"rust": figures(40)}, "rust") == ["get", "us", "40", "<= 45, met"]
    assert compare.line(row, {"rust": {}}, "rust") == ["get", "us", "-", "<= 45"]


def test_every_table_leaves_out_the_way_that_it_is_not_about() -> None:
    of = {"cpp": figures(180), "rust_tcp": figures(60), "rust": figures(30)}
    heads = [line for line in compare.report(of, BARE).splitlines() if line.startswith("| work")]
    assert heads == [
        "| work | unit | C++ | Rust, TCP | times better than C++ | goal |",
        "| work | unit | C++ | Rust | times better than C++ | goal |",
        "| work | unit | C++ | Rust | times better than C++ | goal |",
        "| work | unit | C++ | Rust, TCP | Rust | times better than C++ | goal |",
        "| work | GB/s | the bare program | its GB/s | share | goal |",
    ]


def test_a_share_is_of_the_bare_program_that_does_the_same() -> None:
    of = {"rust_tcp": {"batch_put_64x1048576": {"GBps": 1.84}}, "rust": {"put_1048576": {"GBps": 1.0}}}
    stream, copy = "TCP stream of 64 MiB one way", "copy of 1 MiB into fresh pages"
    assert compare.shares(of, BARE).splitlines()[2:] == [
        f"| batch_put_from 64 x 1 MiB, over TCP | 1.84 | {stream} | 2 | 92% | >= 90%, met |",
        f"| put_from 1 MiB, shared memory | 1 | {copy} | 2 | 50% | >= 60%, missed |",
    ]


def test_every_share_has_its_bare_program() -> None:
    assert {share.bare for share in compare.SHARES} <= set(BARE)


def test_each_raw_limit_is_measured(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    subprocess.run([sys.executable, raw_limits.__file__, "--quick", "--json", figures], check=True, timeout=60)
    measured = json.loads(figures.read_text())
    assert set(measured) == set(BARE)
    assert all(field > 0 for fields in measured.values() for field in fields.values())


def test_the_summary_has_every_goal_and_their_better_setting() -> None:
    of = {
        "cpp": {**figures(180), "get_1048576": {"p50_us": 900.0, "GBps": 1.1}},
        "cpp_pool": {**figures(200), "get_1048576": {"p50_us": 800.0, "GBps": 1.3}},
        "rust_tcp": {**figures(40), "get_1048576": {"p50_us": 400.0, "GBps": 2.6}},
        "rust": {"get_1048576": {"p50_us": 50.0, "GBps": 13.0}},
    }
    lines = compare.summary(of).splitlines()
    goals = sum(row.goal is not None for shown in compare.TABLES for row in shown.rows)
    assert len(lines) == 2 + goals
    assert "| get_into 4 KiB, p50 | us | <= 45 | 40 | 180 | 4.50 | met |" in lines
    assert "| get_into 1 MiB, p50 | us | <= 340 | 400 | 800 | 2.00 | missed |" in lines
    assert "| get_into 1 MiB (shared memory) | GB/s | >= 12 | 13 | 1.3 | 10.00 | met |" in lines
    assert "| import and setup | ms | <= 100 | - | - | - | - |" in lines


def test_figures_stand_between_their_marks() -> None:
    document = "# P\n<!-- figures: A -->\nold\n<!-- end -->\ntext\n<!-- figures: B -->\n<!-- end -->\n"
    once = everything.filled(document, "A", "| new |")
    assert once == document.replace("old", "| new |")
    assert everything.filled(once, "A", "| new |") == once
    assert everything.filled(document, "B", "b") == document.replace("B -->\n", "B -->\nb\n")
    assert everything.filled(document, "C", "c") == document


def test_every_section_has_its_marks_in_one_document() -> None:
    document = "".join(path.read_text() for path in everything.DOCUMENTS)
    assert [title for title in everything.SECTIONS if document.count(f"<!-- figures: {title} -->") != 1] == []


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 10, [1, 2, 5, 10]),
        (10_000, 2_000_000, [1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6]),
        (1, 1e5, [1, 10, 100, 1e3, 1e4, 1e5]),
        (3, 4, [3]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_round(low: float, high: float, expected: list[float]) -> None:
    assert plot.log_ticks(low, high) == pytest.approx(expected)


def test_ticks_are_never_more_than_asked_for() -> None:
    for power in range(1, 16):
        assert 1 <= len(plot.log_ticks(1, 10.0**power)) <= 8


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 0.0), (100, 50.0), (10_000, 100.0), (10, 25.0)],
    ids=["low", "middle", "high", "quarter"],
)
def test_positions_are_logarithmic(value: float, expected: float) -> None:
    assert plot.log_position(value, (1, 10_000), 0, 100) == pytest.approx(expected)


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [1.0, 1000.0], [1e-9, 1e9]])
def test_an_axis_has_room_for_its_values(values: list[float]) -> None:
    low, high = plot.log_bounds(values)
    assert low < min(values)
    assert high > max(values)
    assert high / low >= 3.99


@pytest.mark.parametrize(
    ("value", "number", "length"), [(5, "5", "5 B"), (4096, "4.096k", "4 KiB"), (2e6, "2M", "1.90735 MiB")]
)
def test_ticks_have_short_labels(value: float, number: str, length: str) -> None:
    assert (plot.number(value), plot.length(value)) == (number, length)


@pytest.mark.parametrize(
    ("high", "expected"),
    [(4.4, [0, 1, 2, 3, 4, 5]), (1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (600, [0, 100, 200, 300, 400, 500, 600])],
)
def test_bars_stand_under_the_last_tick(high: float, expected: list[float]) -> None:
    assert plot.linear_ticks(high) == pytest.approx(expected)


def test_ticks_stand_at_the_values_as_far_as_there_is_room() -> None:
    assert plot.value_ticks([4, 1, 2, 2], 6) == [1, 2, 4]
    assert plot.value_ticks([float(value) for value in range(12)], 5) == [0, 3, 6, 9]


def test_lines_put_every_point_into_its_panel() -> None:
    series = {"C++ & pool": [(1.0, 10.0), (100.0, 1000.0)], "Rust": [(100.0, 10.0), (1.0, 1.0)]}
    panels = [
        plot.Panel("by <objects>", "objects", "us", series),
        plot.Panel("2", "x", "y", {"Rust": [(4096.0, 3.0)]}, True),
    ]
    root = ElementTree.fromstring(plot.lines("Cost", panels))
    assert root.tag == SVG + "svg"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    drawn = [
        tuple(map(float, pair.split(",")))
        for line in root.iter(SVG + "polyline")
        for pair in line.attrib["points"].split()
    ]
    assert len(drawn) == 5
    assert all(0 < x < width and 0 < y < height for x, y in drawn)
    # A line runs from left to right, and upwards where values grow.
    assert drawn[2][0] < drawn[3][0]
    assert drawn[2][1] > drawn[3][1]
    words = [text.text for text in root.iter(SVG + "text")]
    assert {"Cost", "by <objects>", "C++ & pool", "Rust", "4 KiB"} <= set(words)


def test_bars_are_as_tall_as_their_values() -> None:
    root = ElementTree.fromstring(plot.bars("Rates", "GB/s", {"get": {"C++": 1.5, "Rust": 3.0}, "put": {"Rust": 6.0}}))
    heights = [float(bar.attrib["height"]) for bar in root.iter(SVG + "rect")]
    assert len(heights) == 3
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(4 * heights[0], abs=0.2)


def point(us: float) -> dict[str, float]:
    return dict.fromkeys(scale.WORKS, us)


def test_growth_is_held_against_the_goal() -> None:
    of: scale.Figures = {
        "objects": {"rust": [(10_000, point(1.0)), (1_000_000, {**point(1.2), "get": 1.4})]},
        "segments": {"rust": [(1, point(2.0)), (16, point(2.0))], "cpp": [(1, point(1.0)), (4, point(9.0))]},
    }
    rows = scale.growth_table(of).splitlines()[2:]
    assert rows == [
        "| 10k objects | 1M objects | Rust | 1.2 | 1.4 | 1.2 | 1.2 | 1.2 | 1.2 | 1.2 | missed |",
        "| 1 segments | 16 segments | Rust | 1 | 1 | 1 | 1 | 1 | 1 | 1 | met |",
    ]


def test_the_plot_of_scale_has_what_was_measured() -> None:
    of: scale.Figures = {axis: {"rust": [(4096, point(1.0)), (65536, point(2.0))]} for axis in scale.AXES}
    root = ElementTree.fromstring(scale.plot(of))
    assert len(list(root.iter(SVG + "polyline"))) == 6


def test_a_link_is_met_where_every_way_of_ours_reaches_the_goal() -> None:
    good, bad = {"put": 0.95, "get": 0.90}, {"put": 0.95, "get": 0.899}
    by_delay = {
        "none": {"raw": {"get": 0.96}, "cpp": bad, "rust_tcp": good},
        "2 ms": {"raw": {"get": 0.9}, "rust_tcp": bad},
    }
    of_none = {"none": by_delay["none"]}
    assert link.report(of_none, 64, 1000).splitlines()[2:] == [
        "| none | batch_put_from 64 x 1 MiB | 96.0% | 95.0% | 95.0% | met |",
        "| none | batch_get_into 64 x 1 MiB | 96.0% | 89.9% | 90.0% | met |",
    ]
    of_delay = {"2 ms": by_delay["2 ms"]}
    assert link.report(of_delay, 64, 1000).splitlines()[2:] == [
        "| 2 ms | batch_put_from 64 x 1 MiB | 90.0% | 95.0% | met |",
        "| 2 ms | batch_get_into 64 x 1 MiB | 90.0% | 89.9% | missed |",
    ]


def test_figures_of_the_load_are_pairs_of_name_and_value() -> None:
    assert master_load.parse("keys_per_s 1000 p50_us 17 own_cpus 0.25") == {
        "keys_per_s": 1000.0,
        "p50_us": 17.0,
        "own_cpus": 0.25,
    }
    with pytest.raises(ValueError, match="shorter"):
        master_load.parse("keys_per_s 1000 p50_us")


def test_a_line_of_the_load_has_a_dash_for_what_is_not_known() -> None:
    measured = [(master_load.Case("put", 1000, 4, 16), {"requests_per_s": 1234.0, "keys_per_s": 1234000.0})]
    assert master_load.report(measured).splitlines()[2:] == [
        "| put_start, put_end, remove, dropped | 1,000 | 4 | 16 | 1,234 | 1,234,000 | - | - | - | - | - |"
    ]


def test_an_overhead_that_cannot_be_measured_is_a_dash() -> None:
    of_call = {"cpp": None, "rust": 12.5}
    kinds = {"us": dict.fromkeys(python_overhead.WORKS, of_call)}
    lines = python_overhead.report(kinds, ["cpp", "rust"]).splitlines()
    assert lines[0] == "| call | us, C++ | us, Rust |"
    assert lines[2:] == [f"| {what} | - | 12.5 |" for what, _, _ in python_overhead.WORKS.values()]


def test_a_median_leaves_out_what_failed() -> None:
    assert python_overhead.median([3.0, None, 1.0, 2.0]) == 2.0
    assert python_overhead.median([None, None]) is None


# The output of perf: a line for each sample, with the process and the time, and then its stack.
SCRIPT = """  11 100.000100:
\tffffffff81 _copy_to_iter ([kernel.kallsyms])
\tffffffff82 __x64_sys_recvmsg ([kernel.kallsyms])

  11 100.000300:
\tffffffff83 tcp_v4_rcv ([kernel.kallsyms])
\tffffffff84 __x64_sys_sendmsg ([kernel.kallsyms])

  12 100.000400:
\t7f0000 crc_fast::crc32 (/lib/store.so)
\tffffffff82 __x64_sys_recvmsg ([kernel.kallsyms])

  12 100.000600:
\t7f0000 nobody (/lib/store.so)

  99 100.000400:
\t7f0000 nobody (/bin/other)

"""


def test_time_counts_within_calls_by_process_and_purpose() -> None:
    calls = [(100.0001, 100.0002), (100.0003, 100.0005)]
    spent = breakdown.spent_in(calls, breakdown.samples(SCRIPT), {11: "client", 12: "node"})
    assert spent == {
        key: pytest.approx(1 / breakdown.FREQUENCY)
        for key in [("client", breakdown.COPIES), ("client", breakdown.SENDING), ("node", breakdown.CHECKSUMS)]
    }


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (["_copy_from_iter", "tcp_sendmsg"], breakdown.COPIES),
        (["__memmove_avx512"], breakdown.COPIES),
        (["crc32_iscsi", "sys_recvmsg"], breakdown.CHECKSUMS),
        (["ret", "_copy_to_iter", "sys_recvmsg"], breakdown.RECEIVING),
        (["clear_page", "handle_mm_fault", "tcp_recvmsg"], breakdown.PAGES),
        (["do_sched_yield"], breakdown.LOOKING),
        (["Meta::handle"], breakdown.REST),
        ([], breakdown.REST),
    ],
)
def test_the_innermost_function_says_what_time_was_for(stack: list[str], expected: str) -> None:
    assert breakdown.purpose(stack) == expected


def test_a_breakdown_has_a_line_for_each_process_that_did_something() -> None:
    work = breakdown.WORKS[0]
    spent = {("client", breakdown.COPIES): 0.5, ("client", breakdown.REST): 0.25, ("node", breakdown.SENDING): 0.1}
    lines = breakdown.table([breakdown.Profile(work, 10, 123.0, 1.0, Counter(spent))]).splitlines()
    assert lines[2:] == [
        f"| {work.name} | 123 | client | 75% | 50% | 0% | 0% | 0% | 0% | 0% | 25% |",
        "|  |  | node | 10% | 0% | 0% | 0% | 10% | 0% | 0% | 0% |",
    ]
