//! `docs/errors.md` shows the tables of this crate.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::fmt::Write;

use mooncake_types::{ByteSize, ErrorCode, limits};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");

/// The table of error codes, as the document must show it.
fn codes() -> String {
    let mut rows = "| code | name | meaning | what to do |\n|---|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL {
        let Some(advice) = code.advice() else { continue };
        let (number, name) = (code.number(), code.name());
        let _ = writeln!(rows, "| {number} | `{name}` | {} | {} |", advice.meaning, advice.remedy);
    }
    rows
}

/// The table of limits.
fn bounds() -> String {
    let (key, group, pattern) =
        (limits::MAX_KEY_BYTES, limits::MAX_GROUP_BYTES, limits::MAX_REGEX_BYTES);
    let least = ByteSize(limits::MIN_SEGMENT_BYTES);
    let (memory, disk) =
        (ByteSize(limits::MAX_MEMORY_SEGMENT_BYTES), ByteSize(limits::MAX_SEGMENT_BYTES));
    let rows = [
        ("key", format!("1 to {key} bytes of UTF-8"), "-400"),
        ("object", format!("1 byte to {}", ByteSize(limits::MAX_OBJECT_BYTES)), "-600"),
        ("segment of memory", format!("{least} to {memory}"), "-600"),
        ("segment on a disk", format!("{least} to {disk}"), "-600"),
        ("`replica_num`", format!("1 to {}", limits::MAX_REPLICAS), "-600"),
        ("name of a group", format!("{group} bytes"), "-600"),
        ("regular expression", format!("{pattern} bytes"), "-600"),
        ("keys of `/batch_query_keys`", limits::MAX_BATCH_KEYS.to_string(), "HTTP 400"),
        ("segments of a master", limits::MAX_SEGMENTS.to_string(), "-1010"),
        ("clients of a master", limits::MAX_CLIENTS.to_string(), "-1010"),
    ];
    let mut table = "| what | limit | beyond it |\n|---|---|---|\n".to_owned();
    for (what, limit, code) in rows {
        let _ = writeln!(table, "| {what} | {limit} | {code} |");
    }
    table
}

/// The rows of the document's table that begins with `head`.
fn written(text: &str, head: &str) -> String {
    let begin = text.find(head).unwrap_or_else(|| panic!("no table begins with {head}"));
    let lines = text[begin..].split_inclusive('\n');
    lines.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn the_document_has_every_code_that_a_call_returns_and_the_limits() {
    let mut text = std::fs::read_to_string(DOCUMENT).expect("the document is there");
    for (head, table) in [("| code |", codes()), ("| what |", bounds())] {
        let rows = written(&text, head);
        if std::env::var_os("WRITE_DOCUMENT").is_some() {
            text = text.replace(&rows, &table);
            std::fs::write(DOCUMENT, &text).expect("it can be written");
        }
        assert_eq!(
            written(&text, head),
            table,
            "WRITE_DOCUMENT=1 writes the tables of docs/errors.md anew"
        );
    }
}
