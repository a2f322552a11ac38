"""The pages of `docs/reference` say what the programs and the package say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cluster import COMMANDS
from reference import http_paths, man, metrics, no_effect, page
from reference.pages import FOLDER, ROOT, pages


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages(COMMANDS)


def test_the_pages_are_as_the_code_says(made: dict[str, str]) -> None:
    written = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert written.keys() == made.keys(), "make reference writes them anew"
    for name, text in made.items():
        assert written[name] == text, f"{name}: make reference writes it anew"


def test_the_metrics_that_are_explained_are_those_that_are_exported(made: dict[str, str]) -> None:
    exported = set(re.findall(r"^\| `(\w+)", made["metrics.md"], re.MULTILINE))
    explained = (ROOT / "docs" / "metrics.md").read_text()
    rows = [line.split("|")[1] for line in explained.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`((?:master|mooncake|process|segment)_\w+)", row)}
    operations = set(re.findall(r"`(\w+)`", made["metrics.md"].split("Operations: ", 1)[1]))
    counters = {f"master_{name}_{kind}_total" for name in operations for kind in ("requests", "failures")}
    # Only a process with a NIC of libibverbs has these; a test in Rust reads them, on the double of the library.
    of_nics = {name for name in named if name.startswith("mooncake_client_nic_")}
    assert len(of_nics) == 5
    assert len(named) > 80
    assert {name for name in named - exported - counters - of_nics if not name.endswith("_")} == set()


def test_a_man_page_is_read_with_all_that_it_says() -> None:
    text = (
        ".TH a 1\n.SH NAME\nmooncake\\-a \\- Do it\n.SH SYNOPSIS\nx\n.SH DESCRIPTION\nDo it.\n.PP\nAll of\nit.\n"
        ".SH OPTIONS\n.TP\n\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fI<FILE>\\fR [default: here]\nWhere it\\*(Aqs put\n"
        ".TP\n\\fB\\-\\-level\\fR\nHow much\n.br\n\n.br\n\\fIPossible values:\\fR\n.RS 14\n.IP \\(bu 2\n"
        "all: Everything\n.IP \\(bu 2\nnone\n.RE\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint help\n"
        '.SH "KV EVENTS"\n.TP\n\\fB\\-\\-x\\fR\nX\n.SH VERSION\nv1\n'
    )
    command = man.read("mooncake-a", text)
    assert command.summary == "Do it"
    assert command.description == ["Do it.", "All of it."]
    assert command.options == {
        "Options": [
            man.Option("-o, --output <FILE>", "here", "Where it's put"),
            man.Option("--level", "", "How much: `all` (everything), `none`"),
        ],
        "KV events": [man.Option("--x", "", "X")],
    }


def test_families_of_metrics_have_their_labels() -> None:
    text = (
        "# HELP a_total Things: all\n# TYPE a_total counter\n"
        'a_total{tier="x",source="y"} 1\n# HELP b Sizes\n# TYPE b histogram\nb_bucket{le="1"} 2\nb_sum 3\n'
    )
    assert metrics.families(text) == [
        metrics.Family("a_total", "counter", "Things: all", ("source", "tier")),
        metrics.Family("b", "histogram", "Sizes", ()),
    ]


def test_routes_have_their_rights_and_what_their_handlers_say(tmp_path: Path) -> None:
    (tmp_path / "server.rs").write_text(
        "    let a = Router::new()\n"
        '        .route("/a", post(things::begin).delete(things::end))\n'
        "        .route_layer(needs(Needed::Right(Rights::ADMIN)));\n"
        "    let counters = Router::new()\n"
        '        .route("/d", get(things::end))\n'
        "        .route_layer(needs(Needed::Counters));\n"
        "    let e = Router::new()\n"
        '        .route("/e", get(more::live))\n'
        "        .route_layer(needed(Needed { right: Rights::METRICS, always: true }));\n"
        "    Router::new()\n"
        '        .route("/b", get(b))\n'
        '        .route("/c", get(async || "OK"))\n'
        "}\n\n/// `GET /b?key=K`: shows\n/// one.\npub(super) async fn b() {}\n"
    )
    (tmp_path / "things.rs").write_text(
        "/// `POST /a`: begins.\npub(super) async fn begin() {}\n\n/// Ends.\npub(crate) async fn end(\n"
    )
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "viewers.rs").write_text("/// `GET /e`: follows.\npub(in crate::admin) async fn live() {}\n")
    assert http_paths.of_router(tmp_path / "server.rs") == [
        http_paths.Served("POST /a", "admin", "Begins."),
        http_paths.Served("DELETE /a", "admin", "Ends."),
        http_paths.Served("GET /d", "metrics, if tokens have roles", "Ends."),
        http_paths.Served("GET /e", "metrics", "Follows."),
        http_paths.Served("GET /b?key=K", "", "Shows one."),
        http_paths.Served("GET /c", "", "Always `OK`."),
    ]
    (tmp_path / "server.rs").write_text("")
    with pytest.raises(ValueError, match="has no routes"):
        http_paths.of_router(tmp_path / "server.rs")


def test_settings_without_effect_are_read_with_what_happens_instead() -> None:
    source = (
        'pub const SWITCHES: &[&str] = &["v", "w"];\nconst LOGS: &str = "logs stay";\n'
        'const NO_EFFECT: &[NoEffect] = &[\n    row(&["MC_A", "B_*"], "it is so"),\n    row(SWITCHES, LOGS),\n];\n'
    )
    assert no_effect.rows(source) == [(["MC_A", "B_*"], "it is so"), (["v", "w"], "logs stay")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("As --port, or MC_X", "As `--port`, or `MC_X`"),
        ("a `--b` and <FILE>", "a `--b` and `<FILE>`"),
        ("MOONCAKE_OFFLOAD_* or 2 * 3", r"`MOONCAKE_OFFLOAD_*` or 2 \* 3"),
        ("tcp://*:1 < 2", r"tcp://\*:1 &lt; 2"),
        ("--lengths=4KB,64KB", "`--lengths=4KB`,64KB"),
    ],
)
def test_running_text_of_the_code_is_shown_as_it_is(text: str, shown: str) -> None:
    assert page.prose(text) == shown
