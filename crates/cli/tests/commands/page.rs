//! The examples of docs/command_line.md work as they stand there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pool::{MOONCAKE, Pool, fed, folder};

/// One command of the page, and what it says there.
struct Example {
    command: String,
    expected: Vec<String>,
}

/// The examples in the blocks of `console`: lines after `$` are commands, the lines below are what they print.
fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let blocks =
        page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => {
                found.push(Example { command: command.to_owned(), expected: Vec::new() });
            }
            (None, Some(example)) => example.expected.push(line.to_owned()),
            (None, None) => panic!("no command before {line}"),
        }
    }
    found
}

/// Whether a line is as expected. `...` stands for any text, blanks for any number of them.
fn is_like(line: &str, expected: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, expected) = (words(line), words(expected));
    let mut parts = expected.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command_line.md");
    fs::read_to_string(path).expect("the page exists")
}

#[test]
fn the_examples_of_the_page_print_what_it_says() {
    let pool = Pool::start(&[
        "--enable_kv_events",
        "--kv_events_backend_id=pool",
        "--kv_events_bind_endpoint=tcp://127.0.0.1:0",
    ]);
    let folder = folder("page");
    let programs: PathBuf = Path::new(MOONCAKE).parent().expect("a folder").to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let page = page();
    let all = examples(&page);
    assert!(all.len() > 10);
    for Example { command, expected } in all {
        let mut shell = Command::new("bash");
        for (name, value) in pool.command(&[]).get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.args(["-c", &command]).current_dir(&folder).env("PATH", &path);
        let ended = fed(shell, b"");
        let said = format!("{}{}", ended.text(), ended.error);
        let lines: Vec<&str> = said.lines().collect();
        let are_like = lines.len() == expected.len()
            && lines.iter().zip(&expected).all(|(line, expected)| is_like(line, expected));
        assert!(are_like, "$ {command}\n{said}\nexpected:\n{}", expected.join("\n"));
    }
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn every_command_is_on_the_page() {
    let help = fed(crate::pool::mooncake(&["help"]), b"").ok();
    let (_, commands) = help.text().split_once("Commands:\n").expect("a list");
    let page = page();
    let names = commands.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut count = 0;
    for name in names {
        assert!(page.contains(&format!("`mooncake {name}")), "{name} is not on the page");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn lines_are_compared_with_gaps() {
    for (line, expected, is_same) in [
        ("a  b", "a b", true),
        ("took 17 ms", "took ... ms", true),
        ("took 17 s", "took ... ms", false),
        ("x1y2z", "x...y...z", true),
        ("ab", "a", false),
        ("", "", true),
    ] {
        assert_eq!(is_like(line, expected), is_same, "{line} {expected}");
    }
}
