//! `get` and `put`: files and pipes in and out, large and small.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::pool::{Pool, bytes, fed, folder};

#[test]
fn bytes_come_back_as_they_were_put_through_files_and_pipes() {
    let pool = Pool::start(&[]);
    let folder = folder("get-put");
    // One byte, all bytes, the longest value that moves at once, and one of several parts.
    let values = [
        vec![0],
        (0..=255).collect(),
        bytes(16 << 20),
        bytes((16 << 20) + 1),
        bytes((37 << 20) + 5),
    ];
    for value in &values {
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::write(&from, value).expect("a file");
        let (from, to) = (from.to_str().expect("text"), to.to_str().expect("text"));
        assert_eq!(pool.run(&["put", "file", from]).ok().text(), "");
        assert_eq!(pool.run(&["get", "file", "--output", to]).ok().text(), "");
        assert!(fs::read(to).expect("it is there") == *value, "{} bytes", value.len());
        let printed = pool.run(&["get", "file"]).ok();
        assert!(printed.out == *value, "{} bytes", value.len());
        pool.run(&["rm", "--force", "file"]).ok();

        pool.run_with(&["put", "pipe"], value).ok();
        assert!(pool.run(&["get", "pipe", "-o", "-"]).ok().out == *value, "{} bytes", value.len());
        pool.run(&["rm", "--force", "pipe"]).ok();
    }
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2, "nothing else is left");
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_key_that_is_taken_or_absent_has_a_status_of_its_own() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "a"], b"one").ok();
    let taken = pool.run_with(&["put", "a"], b"two");
    let taken =
        taken.fails(4, "mooncake put: \"a\" has an object already; --replace replaces it\n");
    assert_eq!(taken.text(), "");
    assert_eq!(pool.run(&["get", "a"]).ok().text(), "one");
    pool.run_with(&["put", "a", "--replace"], b"two").ok();
    assert_eq!(pool.run(&["get", "a"]).ok().text(), "two");
    pool.run(&["get", "b"]).fails(3, "mooncake get: there is no object \"b\"\n");
    let told = pool.run(&["get", "b", "--json"]).fails(3, "mooncake get: there is no object");
    assert_eq!(told.json(), [json!({"key": "b", "error": "OBJECT_NOT_FOUND", "error_code": -704})]);
}

#[test]
fn results_are_lines_of_json_if_asked_for() {
    let pool = Pool::start(&[]);
    let put = pool.run_with(&["put", "a", "--json"], b"\xff\x00").ok();
    assert_eq!(put.json(), [json!({"key": "a", "len_bytes": 2})]);
    let got = pool.run(&["get", "a", "--json"]).ok();
    assert_eq!(got.json(), [json!({"key": "a", "len_bytes": 2, "value_base64": "/wA="})]);
}

#[test]
fn a_get_that_fails_leaves_the_old_file() {
    let pool = Pool::start(&[]);
    let folder = folder("kept");
    let old = folder.join("old");
    fs::write(&old, "kept").expect("a file");
    let old = old.to_str().expect("text");
    pool.run(&["get", "absent", "-o", old]).fails(3, "mooncake get: there is no object");
    assert_eq!(fs::read_to_string(old).expect("it is there"), "kept");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left");

    pool.run_with(&["put", "a"], b"one").ok();
    let nowhere = folder.join("no/such/folder");
    let nowhere = nowhere.to_str().expect("text");
    pool.run(&["get", "a", "-o", nowhere])
        .fails(1, &format!("mooncake get: cannot write {nowhere}: "));
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn what_is_no_value_is_refused_before_the_pool_is_asked() {
    let pool = Pool::start(&[]);
    for (args, error) in [
        (
            &["put", "a"][..],
            "mooncake put: standard input is empty, and an object has at least one byte",
        ),
        (&["put", "a", "/dev/null"], "mooncake put: /dev/null is empty"),
        (&["put", "a", "/"], "mooncake put: / is a folder"),
        (&["put", "a", "/no/such/file"], "mooncake put: cannot read /no/such/file: "),
        (&["put", "", "/etc/hostname"], "mooncake put: \"\": INVALID_KEY"),
    ] {
        pool.run(args).fails(1, error);
    }
    assert_eq!(pool.run(&["ls"]).ok().text(), "");
}

#[test]
fn a_value_without_room_says_so() {
    let pool = Pool::sized("64MB", &[]);
    let ended = pool.run_with(&["put", "a"], &bytes(80 << 20));
    ended.fails(1, "mooncake put: \"a\": NO_AVAILABLE_HANDLE (-200): The pool has no room");
    let folder = folder("no-room");
    let file = folder.join("large");
    fs::write(&file, bytes(80 << 20)).expect("a file");
    let ended = pool.run(&["put", "a", file.to_str().expect("text")]);
    ended.fails(1, "mooncake put: \"a\": NO_AVAILABLE_HANDLE (-200): The pool has no room");
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "a"], &bytes(20 << 20)).ok();
    let mut command = pool.command(&["get", "a"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program exists");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0; 1000]).expect("there is more");
    drop(stdout);
    let output = child.wait_with_output().expect("our child");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_object_of_several_replicas_has_a_pin_and_a_group() {
    let pool = Pool::start(&[]);
    let args = ["put", "a", "--soft-pin", "10m", "--group", "g", "--replicas", "2"];
    pool.run_with(&args, b"x").ok();
    let told = pool.run(&["stat", "a", "--json"]).ok().json().remove(0);
    // One node holds one replica.
    assert_eq!(told["replicas"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told["group"], "g");
    let left = told["soft_pin_ms"].as_u64().expect("it is pinned");
    assert!((500_000..=600_000).contains(&left), "{told}");
    pool.run_with(&["put", "b", "--hard-pin"], b"x").ok();
    let told = pool.run(&["stat", "b"]).ok();
    assert!(told.text().contains("\n  pin        hard\n"), "{told:?}");
}

#[test]
fn files_that_stand_for_pipes_are_read_and_written() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "a", "/dev/stdin"], b"through a device").ok();
    let mut command = pool.command(&["get", "a", "--output", "/dev/stdout"]);
    command.stderr(Stdio::piped());
    assert_eq!(fed(command, b"").ok().text(), "through a device");
}
