//! Keys that are no plain words.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::pool::{Pool, fed};

#[test]
fn keys_of_any_text_work_in_all_commands() {
    let pool = Pool::start(&[]);
    let longest = "k".repeat(4096);
    for key in [
        "two words",
        "line\nend",
        "ü/\u{1F600}",
        "$(x) `y` 'z' \"",
        "-",
        "a\u{1b}[2J",
        "%41?&=#",
        &longest,
    ] {
        pool.run_with(&["put", key], key.as_bytes()).ok();
        assert_eq!(pool.run(&["get", key]).ok().text(), key);
        pool.run(&["exists", "-q", key]).ok();
        assert_eq!(pool.run(&["ls", "-0"]).ok().text(), format!("{key}\0"));
        assert_eq!(pool.run(&["ls", "--json"]).ok().json()[0]["key"], key);
        if key.len() < 4096 {
            assert_eq!(pool.run(&["ls", "-0", key]).ok().text(), format!("{key}\0"));
        }
        assert_eq!(pool.run(&["stat", "--json", key]).ok().json()[0]["key"], key);
        pool.run(&["pin", key]).ok();
        pool.run(&["rm", "--force", key]).ok();
    }
    pool.run_with(&["put", "--", "--key"], b"x").ok();
    assert_eq!(pool.run(&["get", "--", "--key"]).ok().text(), "x");
    let too_long = "k".repeat(4097);
    pool.run_with(&["put", &too_long], b"x").fails(1, "mooncake put: \"kkk");
}

#[test]
fn a_key_that_is_no_text_is_refused_in_words() {
    let pool = Pool::start(&[]);
    let mut command = pool.command(&["get"]);
    command.arg(OsStr::from_bytes(b"a\xffb"));
    fed(command, b"").fails(2, "the argument a\u{fffd}b is not UTF-8\n");
}
