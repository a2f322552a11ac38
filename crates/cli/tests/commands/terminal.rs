//! What the commands show at a terminal, which `script` makes.

use std::fs;

use crate::pool::{Pool, bytes, fed, folder};

/// What a command paints at a terminal of 100 columns.
fn painted(pool: &Pool, args: &str) -> String {
    let command = pool.at_terminal("cols 100", args);
    String::from_utf8_lossy(&fed(command, b"").out).into_owned()
}

#[test]
fn a_large_value_shows_its_progress() {
    let pool = Pool::start(&[]);
    let folder = folder("progress");
    let file = folder.join("large");
    fs::write(&file, bytes(100 << 20)).expect("a file");
    let shown = painted(&pool, &format!("put large {}", file.display()));
    assert!(shown.contains("put [") && shown.contains("/100.00 MiB"), "{shown}");
    let shown = painted(&pool, "get large --output /dev/null");
    assert!(shown.contains("get [") && shown.contains("/100.00 MiB"), "{shown}");
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_terminal_gets_no_control_characters() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "binary"], b"\xff\x1b[2J").ok();
    pool.run_with(&["put", "text"], b"hello").ok();
    pool.run_with(&["put", "a\u{1b}[2Jb"], b"x").ok();
    let shown = painted(&pool, "get binary");
    assert!(shown.contains("mooncake get: the value is no text for a terminal; "), "{shown}");
    assert!(painted(&pool, "get text").contains("hello"));
    let shown = painted(&pool, "ls a");
    assert!(shown.contains("a\\u{1b}[2Jb\r\n"), "{shown}");
}
