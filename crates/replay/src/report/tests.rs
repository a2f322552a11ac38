use std::collections::BTreeMap;

use mooncake_types::ErrorCode;

use super::*;
use crate::content::{Mismatch, Stamp};
use crate::tally::{Call, WrongBlock};

fn report() -> Report {
    let mut tally = Tally {
        requests: 2,
        blocks: 2000,
        hits: 500,
        stored: 1500,
        bytes_read: 500 << 16,
        bytes_written: 1500 << 16,
        ..Tally::default()
    };
    tally.exist.record(Duration::from_micros(150));
    tally.get.record(Duration::from_millis(16));
    tally.put.record(Duration::from_millis(50));
    Report {
        tally,
        wall: Duration::from_millis(1234),
        cut_short: false,
        clients: 1,
        block_bytes: 1 << 16,
        trace_requests: 2,
        distinct_blocks: 1800,
        last_ms: 90_000,
        nodes: Some(2),
        pool_bytes: Some(180 << 16),
        has_disks: false,
        infinite_hits: 600,
        lru_hits: Some(450),
        evicted_blocks: Some(1320),
    }
}

#[test]
fn the_table_of_a_good_run() {
    let expected = "\
requests                2, 1.5 minutes of traffic, 1 client
blocks                  2,000 of 64 KB, 1,800 distinct
pool                    11.25 MB on 2 nodes, 180 blocks (10 % of the distinct)
hit ratio               25.0 %
  infinite cache        30.0 %
  LRU of the same size  22.5 %
read                    0.03 GB at 2.05 GB/s
written                 0.10 GB at 1.97 GB/s
evictions               1,320 blocks
time                    1.2 s, 0.11 GB/s all in all
errors                  0
wrong bytes             0

per request                  calls       p50       p99       max
exist                            1   0.15 ms   0.15 ms   0.15 ms
get                              1  16.00 ms  16.00 ms  16.00 ms
put                              1  50.00 ms  50.00 ms  50.00 ms
";
    assert_eq!(report().to_string(), expected);
}

#[test]
fn the_table_of_a_bad_run_names_what_went_wrong() {
    let mut report = report();
    report.cut_short = true;
    report.trace_requests = 12_031;
    report.clients = 4;
    (report.nodes, report.pool_bytes) = (None, None);
    (report.lru_hits, report.evicted_blocks) = (None, None);
    report.tally.lost = 3;
    report.tally.no_room = 1024;
    report.tally.errors = BTreeMap::from([((Call::Get, ErrorCode::TransferFail), 7)]);
    let found = (Stamp { block: 9, generation: 1 }, 2);
    report.tally.wrong(WrongBlock {
        request: 2,
        key: "k".to_owned(),
        block: 8,
        mismatch: Mismatch { at: 4096, bytes: 1234, found },
    });
    let text = report.to_string();
    for line in [
        "requests                2 of 12,031, 4 clients",
        "read                    0.03 GB at 2.05 GB/s per client",
        "pool                    unknown",
        "  LRU of the same size  unknown",
        "evictions               unknown",
        "lost before the get     3 blocks",
        "no room at the put      1,024 blocks",
        "errors                  7; 7 x get TRANSFER_FAIL (-800)",
        "wrong bytes             1,234",
        "The first of 1 wrong blocks: request 2, key k: 1234 wrong bytes from byte 4096 of block 8 on; the \
         word there reads as word 2 of put 1 of block 9",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn the_json_holds_the_same_figures() {
    let json = report().to_json();
    let figures = ["requests", "hit_ratio", "infinite_hit_ratio", "lru_hit_ratio", "wrong_bytes"]
        .map(|name| json[name].as_f64());
    assert_eq!(figures, [2.0, 0.25, 0.3, 0.225, 0.0].map(Some));
    assert_eq!(json["get"]["p50_us"].as_f64(), Some(16_000.0));
    assert_eq!(json["errors"], json!([]));
}

#[test]
fn thousands_are_set_apart() {
    let rows = [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")];
    for (number, text) in rows {
        assert_eq!(grouped(number), text);
    }
}
