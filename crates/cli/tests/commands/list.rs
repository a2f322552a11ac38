//! `ls`, `exists` and `rm`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use mooncake_client::{Store, StoreConfig};
use mooncake_types::ReplicateConfig;
use serde_json::json;

use crate::pool::Pool;

fn store(pool: &Pool) -> Store {
    let defaults = StoreConfig::from_variables(|_| None).expect("the defaults make sense");
    let master = pool.master.rpc.clone();
    Store::open(StoreConfig { master, segment_bytes: 0, ..defaults }).expect("the master serves")
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn keys_are_listed_by_prefix_and_expression() {
    let pool = Pool::start(&[]);
    for key in ["a/1", "a/2", "a.2", "b"] {
        pool.run_with(&["put", key], b"value").ok();
    }
    for (args, expected) in [
        (&["ls"][..], &["a.2", "a/1", "a/2", "b"][..]),
        (&["ls", "a/"], &["a/1", "a/2"]),
        (&["ls", "a."], &["a.2"]),
        (&["ls", "--regex", "a.2"], &["a.2", "a/2"]),
        (&["ls", "--regex", "2$"], &["a.2", "a/2"]),
        (&["ls", "nothing"], &[]),
    ] {
        assert_eq!(sorted(pool.run(args).ok().text()), expected, "{args:?}");
    }
    assert_eq!(pool.run(&["ls", "--limit", "3"]).ok().text().lines().count(), 3);
    assert_eq!(pool.run(&["ls", "--limit", "0"]).ok().text(), "");
    assert_eq!(pool.run(&["ls", "b", "-0"]).ok().text(), "b\0");
    assert_eq!(
        pool.run(&["ls", "b", "--long"]).ok().text(),
        "         5 B  memory                b\n"
    );
    let told = pool.run(&["ls", "b", "--json"]).ok().json().remove(0);
    let version = &told["version"];
    assert_eq!(told, json!({"key": "b", "len_bytes": 5, "media": ["memory"], "version": version}));
    assert!(version.as_str().is_some_and(|version| version.contains('.')), "{told}");
    pool.run(&["ls", "--regex", "a("]).fails(2, "mooncake ls: --regex: regex parse error");
}

#[test]
fn a_pool_of_many_keys_is_listed_page_by_page_each_key_once() {
    let pool = Pool::start(&[]);
    let store = store(&pool);
    // More than a page of a scan looks at.
    let keys: Vec<String> = (0..20_000).map(|number| format!("many/{number:05}")).collect();
    let value = mooncake_client::Buffer::from_vec(vec![1; 64]);
    for keys in keys.chunks(4096) {
        let items: Vec<_> = keys
            .iter()
            .map(|key| mooncake_client::PutSource::new(key, value.raw().into()))
            .collect();
        assert!(store.put(&items, &ReplicateConfig::default()).iter().all(Result::is_ok));
    }
    let listed = pool.run(&["ls", "many/"]).ok();
    assert!(sorted(listed.text()) == keys, "{} lines", listed.text().lines().count());
    // The reader may leave before the last page comes.
    let mut command = pool.command(&["ls"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program exists");
    let first = BufReader::new(child.stdout.take().expect("a pipe")).lines().next();
    assert!(first.expect("a line").expect("text").starts_with("many/"));
    let output = child.wait_with_output().expect("our child");
    assert_eq!((output.status.code(), &*output.stderr), (Some(141), &b""[..]));

    assert_eq!(pool.run(&["rm", "--prefix", "many/0"]).ok().text(), "10000 objects removed\n");
    assert_eq!(pool.run(&["ls"]).ok().text().lines().count(), 10_000);
}

#[test]
fn existence_is_told_by_line_and_by_status() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "a"], b"value").ok();
    assert_eq!(pool.run(&["exists", "a"]).ok().text(), "yes  a\n");
    let both = pool.run(&["exists", "a", "b"]).fails(3, "");
    assert_eq!((both.text(), &*both.error), ("yes  a\nno   b\n", ""));
    assert_eq!(pool.run(&["exists", "--quiet", "b"]).fails(3, "").text(), "");
    let told = pool.run(&["exists", "a", "b", "--json"]).fails(3, "").json();
    assert_eq!(told, [json!({"key": "a", "exists": true}), json!({"key": "b", "exists": false})]);
    // It protects nothing: the object can be removed at once.
    assert_eq!(pool.run(&["rm", "a"]).ok().text(), "");
}

#[test]
fn a_removal_names_the_keys_that_it_left() {
    let pool = Pool::start(&[]);
    for key in ["a", "b", "c"] {
        pool.run_with(&["put", key], b"value").ok();
    }
    // A get leases it.
    pool.run(&["get", "b"]).ok();
    let ended = pool.run(&["rm", "a", "b", "x"]);
    let ended = ended.fails(1, "mooncake rm: \"b\": OBJECT_HAS_LEASE (-706)");
    assert!(ended.error.contains("mooncake rm: --force removes it all the same\n"), "{ended:?}");
    assert!(ended.error.ends_with("mooncake rm: there is no object \"x\"\n"), "{ended:?}");
    pool.run(&["rm", "x"]).fails(3, "mooncake rm: there is no object \"x\"\n");
    let told = pool.run(&["rm", "x", "b", "--force", "--json"]).fails(3, "mooncake rm: ").json();
    let failed = json!([{"key": "x", "error": "OBJECT_NOT_FOUND", "error_code": -704}]);
    assert_eq!(told, [json!({"removed": 1, "failed": failed})]);
    assert_eq!(
        pool.run(&["rm", "--regex", "^c$", "--json"]).ok().json(),
        [json!({"removed": 1, "failed": []})]
    );
    assert_eq!(pool.run(&["ls"]).ok().text(), "");
    for wrong in [&["rm"][..], &["rm", "a", "--prefix", "b"], &["rm", "--prefix", ""]] {
        pool.run(wrong).fails(2, "error: ");
    }
}
