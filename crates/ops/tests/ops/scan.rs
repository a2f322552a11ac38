use mooncake_ops::{ListOp, RemoveScanOp};
use mooncake_types::{ErrorCode, Reply, Request, Scan, ScanAction, ScanPage, limits};

use crate::script::{Turn, failures, located, play, segments};

fn ask(pattern: Option<&str>, action: ScanAction, cursor: u64) -> Request<'_> {
    Request::Scan(Scan {
        tenant: Some("default"),
        pattern,
        action,
        cursor,
        limit: limits::MAX_SCAN_OBJECTS,
    })
}

fn removed(next_cursor: Option<u64>, removed: u64) -> Reply {
    Reply::Scanned(ScanPage { next_cursor, removed, ..ScanPage::default() })
}

#[test]
fn removals_of_all_pages_are_added_up() {
    let action = ScanAction::Remove { force: true };
    let turns = vec![
        Turn::Call(0, ask(Some("^a"), action, 0), Ok(removed(Some(9), 3))),
        Turn::Call(0, ask(Some("^a"), action, 9), Ok(removed(Some(4), 0))),
        Turn::Call(0, ask(Some("^a"), action, 4), Ok(removed(None, 2))),
    ];
    assert_eq!(play(RemoveScanOp::new(Some("^a"), true), turns), Ok(5));
}

#[test]
fn what_is_found_on_all_pages_is_listed() {
    let page = |next_cursor, keys: &[&str]| {
        let object =
            |key: &&str| ((*key).to_owned(), located(7, 10, &[(0, 1, 0, 10)]).expect("it is one"));
        let objects = keys.iter().map(object).collect();
        Ok(Reply::Scanned(ScanPage {
            next_cursor,
            objects,
            segments: segments(),
            ..ScanPage::default()
        }))
    };
    let turns = vec![
        Turn::Call(0, ask(None, ScanAction::List, 0), page(Some(1), &["a", "b"])),
        Turn::Call(0, ask(None, ScanAction::List, 1), page(None, &["c"])),
    ];
    let listed = play(ListOp::new(None), turns).expect("both pages came");
    let keys: Vec<&str> = listed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    assert!(listed.iter().all(|(_, location)| location.len == 10));
}

#[test]
fn a_walk_that_cannot_go_on_says_why() {
    let action = ScanAction::Remove { force: false };
    let [(gone, code), ..] = failures();
    for (reply, expected) in [
        (Ok(Reply::Refused(ErrorCode::InvalidParams)), ErrorCode::InvalidParams),
        (Err(gone), code),
        (Ok(Reply::Done(Ok(()))), ErrorCode::InternalError),
        // The next page would start where this one does.
        (Ok(removed(Some(5), 0)), ErrorCode::InternalError),
    ] {
        let turns = vec![
            Turn::Call(0, ask(None, action, 0), Ok(removed(Some(5), 1))),
            Turn::Call(0, ask(None, action, 5), reply),
        ];
        assert_eq!(play(RemoveScanOp::new(None, false), turns), Err(expected));
    }
}

#[test]
fn a_pattern_that_is_too_long_is_not_sent() {
    let pattern = "a".repeat(limits::MAX_REGEX_BYTES + 1);
    let turned_away = Err(ErrorCode::InvalidParams);
    assert_eq!(play(RemoveScanOp::new(Some(&pattern), false), vec![]), turned_away);
    assert!(play(ListOp::new(Some(&pattern)), vec![]).is_err());
}
