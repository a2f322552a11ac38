//! Calls of one thread, and what is said about slow ones.

use std::sync::Arc;
use std::time::Duration;

use mooncake_calls::{
    CallPart, Side, Stage, Transfer, Watch, around, carried, current, frame_id, last, note,
    note_peer, ran,
};
use mooncake_testing::logged;
use mooncake_types::CallId;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The time of each stage in which a call of the watch has spent any.
fn spent(watch: &Watch) -> Vec<(Stage, Duration)> {
    watch.stages().into_iter().filter(|(_, took)| !took.is_zero()).collect()
}

fn clients(slow: Duration) -> Watch {
    Watch::new(Side::Client, slow)
}

#[test]
fn a_slow_call_is_one_line_that_says_where_its_time_went() {
    let watch = clients(ms(100));
    let mut id = None;
    let line = logged(|| {
        let _call = watch.begin("get", 3);
        id = current();
        note(Stage::Master, ms(20));
        note(Stage::Master, ms(15));
        note(Stage::Room, Duration::from_micros(999));
        let transfer = Transfer::begin();
        note(Stage::Connection, ms(40));
        note_peer(&Arc::from("fast:1"), ms(3));
        note_peer(&Arc::from("slow:2"), ms(60));
        note_peer(&Arc::from("fast:3"), ms(4));
        carried(Stage::Tcp);
        transfer.end(ms(100), 4096);
        ran(ms(140));
    });
    let id = id.expect("a call has an id");
    let expected = format!(
        " WARN a call was slow request={id} call=\"get\" items=3 bytes=4096 took_ms=140 master_ms=35 master_requests=2 \
         connection_ms=40 tcp_ms=60 other_ms=4 slowest_peer=\"slow:2\" slowest_peer_ms=60 further=0\n"
    );
    assert_eq!(line, expected);
    assert_eq!(watch.slow_calls(), 1);
    assert_eq!(last(), Some(id));
    assert_eq!(current(), None);
}

#[test]
fn calls_that_are_not_slow_are_summed_up_and_not_logged() {
    let watch = clients(ms(100));
    let lines = logged(|| {
        for _ in 0..3 {
            let _call = watch.begin("put", 1);
            note(Stage::Master, ms(2));
            ran(ms(99));
        }
        // No call: it counts nowhere.
        note(Stage::Master, ms(500));
    });
    assert_eq!(lines, "");
    assert_eq!(spent(&watch), vec![(Stage::Master, ms(6))]);
    assert_eq!(watch.slow_calls(), 0);
}

#[test]
fn without_a_limit_no_call_is_slow() {
    let watch = clients(Duration::ZERO);
    let lines = logged(|| {
        let _call = watch.begin("put", 1);
        ran(Duration::MAX);
    });
    assert_eq!((lines.as_str(), watch.slow_calls()), ("", 0));
}

#[test]
fn slow_calls_of_one_kind_are_a_line_now_and_then_and_each_is_counted() {
    let watch = clients(ms(1));
    let lines = logged(|| {
        for name in ["get", "put", "get", "get"] {
            let _call = watch.begin(name, 1);
            ran(ms(5));
        }
    });
    let named = |name: &str| lines.lines().filter(|line| line.contains(name)).count();
    assert_eq!((named("call=\"get\""), named("call=\"put\"")), (1, 1), "{lines}");
    assert_eq!(watch.slow_calls(), 4);
}

#[test]
fn a_call_within_a_call_is_a_part_of_it() {
    let watch = clients(ms(1));
    let lines = logged(|| {
        let _outer = watch.begin("outer", 2);
        let id = current();
        let inner = watch.begin("inner", 1);
        note(Stage::Pause, ms(3));
        ran(ms(3));
        drop(inner);
        assert_eq!(current(), id);
        ran(ms(4));
    });
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("call=\"outer\" items=2 took_ms=7 pause_ms=3 other_ms=4"), "{lines}");
}

#[test]
fn the_peer_of_one_call_is_not_that_of_the_next() {
    let watch = clients(ms(100));
    let lines = logged(|| {
        let call = watch.begin("get", 1);
        note_peer(&Arc::from("slow:2"), ms(60));
        drop(call);
        let _call = watch.begin("get", 1);
        ran(ms(200));
    });
    assert!(lines.contains("took_ms=200 other_ms=200 further=0"), "{lines}");
}

#[test]
fn work_around_other_stages_counts_only_what_they_leave() {
    let watch = clients(Duration::ZERO);
    let call = watch.begin("remove", 1);
    around(Stage::Drop, || note(Stage::Connection, Duration::from_secs(3600)));
    drop(call);
    assert_eq!(spent(&watch), vec![(Stage::Connection, Duration::from_secs(3600))]);
}

#[test]
fn frames_name_the_call_at_the_other_side() {
    assert_eq!(frame_id(7), 7, "without a call they are numbered");
    let (client, node) = (clients(Duration::ZERO), Watch::new(Side::Node, Duration::from_nanos(1)));
    let call = client.begin("get", 1);
    let (id, sent) = (current(), frame_id(7));
    drop(call);
    assert_eq!(CallId::of_frame(sent), id);
    let line = logged(|| {
        let _served = node.serve("read", CallPart { request_id: sent, trace: None });
        note(Stage::Disk, ms(8));
    });
    let request = id.expect("a call has an id");
    assert!(line.starts_with(" WARN this node was slow to serve a request"), "{line}");
    assert!(line.contains(&format!("request={request} call=\"read\"")), "{line}");
    assert!(line.contains("disk_ms=8"), "{line}");
}

#[test]
fn ids_differ_between_calls_and_threads() {
    let watch = clients(Duration::ZERO);
    let id = || {
        let _call = watch.begin("get", 1);
        current().expect("a call has an id").bits()
    };
    let mut ids: Vec<u64> = (0..3000).map(|_| id()).collect();
    let others = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..3000).map(|_| id()).collect::<Vec<u64>>())).collect();
        threads.into_iter().flat_map(|it| it.join().expect("no panic")).collect::<Vec<u64>>()
    });
    ids.extend(others);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 15_000);
}
