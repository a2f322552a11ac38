//! `bench` measures a pool, and leaves nothing in it.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::pool::{Pool, fed, folder, mooncake};

const QUICK: [&str; 5] = ["bench", "--seconds", "0.01", "--lengths", "4KB,1MB"];

fn operations(report: &Value) -> Vec<(String, Option<u64>, u64)> {
    let rows = report["rows"].as_array().expect("rows").iter();
    rows.map(|row| {
        let operation = row["operation"].as_str().expect("text").to_owned();
        assert!(row["objects_per_second"].as_f64().is_some_and(|speed| speed > 0.0), "{row}");
        assert!(row["median_us"].as_f64() <= row["p99_us"].as_f64(), "{row}");
        (operation, row["len_bytes"].as_u64(), row["at_once"].as_u64().expect("a number"))
    })
    .collect()
}

#[test]
fn all_kinds_of_calls_are_measured_saved_and_compared_and_nothing_stays() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "mine"], b"x").ok();
    let folder = folder("bench");
    let saved = folder.join("report.json");
    let saved = saved.to_str().expect("text");
    let table = pool.run(&[&QUICK[..], &["--save", saved]].concat()).ok();
    let report =
        serde_json::from_str(&fs::read_to_string(saved).expect("it is there")).expect("JSON");
    let row = |operation: &str, len, at_once| (operation.to_owned(), len, at_once);
    let (short, long) = (Some(4 << 10), Some(1 << 20));
    let expected = [
        row("put", short, 1),
        row("get", short, 1),
        row("put", short, 16),
        row("get", short, 16),
        row("put", long, 1),
        row("get", long, 1),
        row("put", long, 16),
        row("get", long, 16),
        row("exists", None, 1),
        row("exists", None, 128),
    ];
    assert_eq!(operations(&report), expected);
    assert_eq!(table.text().lines().count(), 1 + expected.len(), "{table:?}");
    assert!(!table.text().contains('%'), "{table:?}");
    let compared = pool.run(&[&QUICK[..], &["--compare", saved]].concat()).ok();
    assert_eq!(compared.text().matches(" %\n").count(), expected.len(), "{compared:?}");
    let json = pool.run(&[&QUICK[..], &["--json"]].concat()).ok().json().remove(0);
    assert_eq!(operations(&json), expected);
    assert_eq!(pool.run(&["ls"]).ok().text(), "mine\n");
    pool.run(&["bench", "--compare", "/etc/hostname"])
        .fails(1, "mooncake bench: /etc/hostname is no report");
    pool.run(&["bench", "--compare", "/no/such"])
        .fails(1, "mooncake bench: cannot read /no/such: ");
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_pool_of_this_process_alone_is_measured() {
    let args = [&QUICK[..], &["--master", "local://", "--lend", "64MB", "--json"]].concat();
    let report = fed(mooncake(&args), b"").ok().json().remove(0);
    assert_eq!(operations(&report).len(), 10);
    assert_eq!(report["pool"], "local://");
}

#[test]
fn an_object_that_has_no_room_is_told() {
    let pool = Pool::sized("64MB", &[]);
    let ended = pool.run(&["bench", "--seconds", "0.01", "--lengths", "128MB"]);
    let ended = ended.fails(
        1,
        "mooncake bench: --lengths takes shorter ones\nmooncake bench: a put of 128 MB: NO_",
    );
    assert_eq!(ended.text(), "");
    assert_eq!(pool.run(&["ls"]).ok().text(), "");
}

#[test]
fn ctrl_c_ends_a_run_and_removes_its_objects() {
    let pool = Pool::start(&[]);
    let mut command = pool.command(&["bench", "--seconds", "600"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program exists");
    let deadline = Instant::now() + mooncake_testing::PATIENCE;
    while !pool.master.says("/get_all_keys").starts_with("bench/") {
        assert!(Instant::now() < deadline, "nothing is put");
    }
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::INT).expect("it runs");
    assert_eq!(child.wait().expect("our child").code(), Some(130));
    let mut said = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(said, "");
    assert_eq!(pool.master.says("/get_all_keys"), "");
}
