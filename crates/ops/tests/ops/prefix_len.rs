use mooncake_ops::{Op, PrefixLenOp, Step};
use mooncake_types::{ErrorCode, Reply, Request, Tick, limits};

use crate::script::{Turn, failures, play};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key {number}")).collect()
}

/// Asks for the prefix length of 10,000 keys, of which the master has the first `there`. Returns the number of keys in
/// each request, and the result.
fn ask(there: usize) -> (Vec<usize>, Result<u64, ErrorCode>) {
    let names = names(10_000);
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut op = PrefixLenOp::new(&keys, 0);
    let (mut parts, mut left) = (Vec::new(), there);
    while let Step::Call(Request::PrefixLen { keys, .. }) = op.next(Tick(0)) {
        parts.push(keys.len());
        let count = left.min(keys.len());
        left -= count;
        op.on_reply(Ok(Reply::PrefixLen(count as u32)));
    }
    (parts, op.finish())
}

#[test]
fn a_long_list_is_asked_for_in_parts_up_to_the_gap() {
    const MOST: usize = limits::MAX_BATCH_KEYS;
    for (there, parts) in [
        (0, vec![MOST]),
        (MOST - 1, vec![MOST]),
        (MOST, vec![MOST, MOST]),
        (MOST + 1, vec![MOST, MOST]),
        (10_000, vec![MOST, MOST, 1808]),
    ] {
        assert_eq!(ask(there), (parts, Ok(there as u64)), "{there} are there");
    }
}

#[test]
fn each_request_leases_from_its_part_of_the_position_on() {
    const MOST: usize = limits::MAX_BATCH_KEYS;
    let names = names(10_000);
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    for (from, expected) in
        [(0, [0, 0, 0]), (100, [100, 0, 0]), (5_000, [MOST, 904, 0]), (99_999, [MOST, MOST, 1808])]
    {
        let (mut op, mut asked) = (PrefixLenOp::new(&keys, from), Vec::new());
        while let Step::Call(Request::PrefixLen { keys, leased_from }) = op.next(Tick(0)) {
            asked.push(leased_from as usize);
            op.on_reply(Ok(Reply::PrefixLen(keys.len() as u32)));
        }
        assert_eq!(asked, expected, "{from}");
    }
}

#[test]
fn nothing_is_asked_about_keys_that_are_none() {
    let long = "k".repeat(limits::MAX_KEY_BYTES + 1);
    assert_eq!(play(PrefixLenOp::new(&[], 0), vec![]), Ok(0));
    assert_eq!(play(PrefixLenOp::new(&["a", ""], 0), vec![]), Err(ErrorCode::InvalidKey));
    assert_eq!(play(PrefixLenOp::new(&["a", &long], 0), vec![]), Err(ErrorCode::InvalidKey));
}

#[test]
fn failures_and_replies_that_make_no_sense_are_errors() {
    let keys = ["a", "b"];
    let ask = || Request::prefix_len(keys.to_vec());
    for (reply, code) in [
        (Reply::PrefixLen(3), ErrorCode::InternalError),
        (Reply::Exist(vec![Ok(true); 2]), ErrorCode::InternalError),
        (Reply::Refused(ErrorCode::InvalidParams), ErrorCode::InvalidParams),
    ] {
        let turns = vec![Turn::Call(0, ask(), Ok(reply.clone()))];
        assert_eq!(play(PrefixLenOp::new(&keys, 0), turns), Err(code), "{reply:?}");
    }
    for (error, code) in failures() {
        let turns = vec![Turn::Call(0, ask(), Err(error))];
        assert_eq!(play(PrefixLenOp::new(&keys, 0), turns), Err(code));
    }
}
