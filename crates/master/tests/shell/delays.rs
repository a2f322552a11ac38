//! Neither a scan of all keys nor a client that always has requests under way delays other clients.
//!
//! `MOONCAKE_TEST_KEYS` sets the number of keys, 50,000 by default. For the figures at a million:
//! `MOONCAKE_TEST_KEYS=1000000 cargo test --release -p mooncake-master --test shell delays -- --nocapture`

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_types::{Reply, Request, Scan, ScanAction};

use crate::support::{Rpc, Running, get, start};

/// The longest wait allowed for 90% of the pings meanwhile. A scan that never paused would delay nearly every ping for
/// its whole length. Unoptimised code is much slower.
const WAIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 8 } else { 3 });

/// Other processes may keep the processors busy during one attempt, but not during all of them.
const ATTEMPTS: usize = 5;

fn filled() -> (Running, usize) {
    let count = match std::env::var("MOONCAKE_TEST_KEYS") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => 50_000,
    };
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 1 << 40);
    let keys: Vec<String> =
        (0..count).map(|i| format!("model@tp0@pp0@layer{:03}@{i:0>96}", i % 61)).collect();
    for batch in keys.chunks(4096) {
        rpc.put(&batch.iter().map(String::as_str).collect::<Vec<_>>(), 4096);
    }
    (master, count)
}

/// Scans all keys with a pattern that reads each key to its end. Returns the number of objects that match.
fn scan_all(rpc: &mut Rpc, pattern: &str) -> usize {
    let (mut found, mut next) = (0, Some(0));
    while let Some(cursor) = next {
        let scan = Scan {
            tenant: Some("default"),
            pattern: Some(pattern),
            action: ScanAction::List,
            cursor,
            limit: u32::MAX,
        };
        let Reply::Scanned(page) = rpc.ask(&Request::Scan(scan)) else { panic!("no page") };
        found += page.objects.len();
        next = page.next_cursor;
    }
    found
}

/// The 90th percentile of a ping's wait while `busy` runs.
fn ping_wait(master: &Running, busy: impl FnOnce() + Send) -> Duration {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            busy();
            over.store(true, Ordering::Relaxed);
        });
        let mut rpc = master.connect(3);
        let mut waits = Vec::new();
        while !over.load(Ordering::Relaxed) || waits.is_empty() {
            let begun = Instant::now();
            rpc.ask(&Request::Ping { segments: vec![], unreachable: vec![], reads: None });
            waits.push(begun.elapsed());
        }
        waits.sort_unstable();
        let at = |percent: usize| waits[(waits.len() * percent / 100).min(waits.len() - 1)];
        let (p50, p90, p99, longest) = (at(50), at(90), at(99), at(100));
        println!(
            "{} pings: p50 {p50:?}, p90 {p90:?}, p99 {p99:?}, longest {longest:?}",
            waits.len()
        );
        p90
    })
}

/// Repeats the measurement until 90% of the pings are fast enough.
fn assert_delays_no_ping(master: &Running, busy: impl Fn() + Sync) {
    let mut waits = (0..ATTEMPTS).map(|_| ping_wait(master, &busy));
    assert!(waits.any(|wait| wait <= WAIT), "pings waited longer than {WAIT:?} each time");
}

#[test]
fn a_scan_by_regex_delays_no_ping() {
    let (master, count) = filled();
    assert_delays_no_ping(&master, || {
        let begun = Instant::now();
        let found = scan_all(&mut master.connect(2), "^(model|other)@.*@layer0+7@[0-9]+$");
        assert_eq!(found, (0..count).filter(|i| i % 61 == 7).count());
        println!("scanned {count} keys in {:?}", begun.elapsed());
    });
}

/// Each of these keys keeps the pattern busy for tens of milliseconds.
#[test]
fn a_pattern_that_takes_seconds_for_a_few_keys_delays_no_ping() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 1 << 40);
    let keys: Vec<String> = (0..20).map(|i| format!("{i:02}{}", "a".repeat(4_000))).collect();
    rpc.put(&keys.iter().map(String::as_str).collect::<Vec<_>>(), 4096);
    assert_delays_no_ping(&master, || {
        let begun = Instant::now();
        assert_eq!(scan_all(&mut master.connect(2), "(?:a{1,40}){1,40}b"), 0);
        println!("scanned {} keys in {:?}", keys.len(), begun.elapsed());
        assert!(begun.elapsed() > Duration::from_millis(100), "the pattern shows nothing");
    });
}

#[test]
fn listing_all_keys_over_http_delays_no_ping() {
    let (master, count) = filled();
    assert_delays_no_ping(&master, || {
        let begun = Instant::now();
        assert_eq!(get(master.admin, "/get_all_keys").body.lines().count(), count);
        println!("listed {count} keys in {:?}", begun.elapsed());
    });
}

#[test]
fn a_query_of_all_objects_over_http_delays_no_ping() {
    let (master, count) = filled();
    assert_delays_no_ping(&master, || {
        let begun = Instant::now();
        let answer = get(master.admin, "/query_by_regex?regex=%5Emodel@.*%5B0-9%5D%24").json();
        assert_eq!(answer["data"].as_object().expect("a map").len(), count);
        println!("found {count} objects in {:?}", begun.elapsed());
    });
}

#[test]
fn a_scrape_delays_no_ping() {
    let (master, count) = filled();
    assert_delays_no_ping(&master, || {
        for _ in 0..50 {
            let metrics = get(master.admin, "/metrics").body;
            assert!(metrics.contains(&format!("master_key_count {count}\n")), "{metrics}");
        }
    });
}

/// Some of their requests have always arrived when earlier ones are answered, so the master never waits for them.
#[test]
fn clients_that_always_have_requests_under_way_delay_no_ping() {
    const UNDER_WAY: usize = 8;
    let (master, _) = filled();
    let keys: Vec<String> = (0..1000).map(|i| format!("absent key {i:0>96}")).collect();
    let look = || Request::exist(keys.iter().map(String::as_str).collect());
    let ask_often = |client| {
        let mut rpc = master.connect(client);
        (0..UNDER_WAY).for_each(|_| _ = rpc.send(&look()));
        for _ in 0..1000 {
            rpc.receive();
            rpc.send(&look());
        }
        (0..UNDER_WAY).for_each(|_| _ = rpc.receive());
    };
    assert_delays_no_ping(&master, || {
        thread::scope(|scope| {
            let ask_often = &ask_often;
            [4, 5].iter().for_each(|&client| drop(scope.spawn(move || ask_often(client))));
        });
    });
}
