//! Scans of all objects.

use mooncake_meta::Patterns;
use mooncake_types::{ErrorCode, Reply, Request, Scan, ScanAction, ScanPage};

use crate::pool;
use crate::world::{ALICE, BOB, World};

#[test]
fn scans_meet_every_object_once_and_remove_what_they_may() {
    let mut world = pool(1, 1 << 20);
    for i in 0..250 {
        world.put(&format!("model-a/{i}"), 10).unwrap();
        world.put(&format!("model-b/{i}"), 10).unwrap();
    }
    world.start(ALICE, "model-a/running", 10).unwrap();
    let listed = world.scan(Some("^model-a/.*7$"), ScanAction::List, 7).unwrap();
    assert_eq!(listed.objects.len(), 25);
    world.get("model-a/7").unwrap();
    let remove = |force| ScanAction::Remove { force };
    assert_eq!(world.scan(Some("a/.*7$"), remove(false), 64).map(|p| p.removed), Ok(24));
    assert_eq!(world.scan(Some("a/.*7$"), remove(true), 64).map(|p| p.removed), Ok(1));
    assert_eq!(world.scan(Some("("), remove(true), 64), Err(ErrorCode::InvalidParams));
    assert_eq!(world.scan(None, remove(false), 1).map(|p| p.removed), Ok(475));
    assert_eq!(world.meta.stats().keys, 1, "an unfinished put is not removed");
    world.check();
}

#[test]
fn a_page_of_long_keys_ends_before_it_outgrows_a_frame() {
    let mut world = pool(1, 64 << 20);
    for i in 0..2_000 {
        world.put(&format!("{i:0>4096}"), 1).unwrap();
    }
    let page = Scan {
        tenant: Some("default"),
        pattern: None,
        action: ScanAction::List,
        cursor: 0,
        limit: u32::MAX,
    };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(page)) else { panic!("no page") };
    assert!((1_000..1_100).contains(&page.objects.len()), "{}", page.objects.len());
    let all = world.scan(None, ScanAction::List, u32::MAX).unwrap();
    assert_eq!(all.objects.len(), 2_000);
}

/// Asks for the first page of a scan, and does something between the look at the keys and the end of the page.
fn scan_while(
    world: &mut World,
    (pattern, action): (&str, ScanAction),
    meanwhile: impl FnOnce(&mut World),
) -> ScanPage {
    let scan =
        Scan { tenant: Some("default"), pattern: Some(pattern), action, cursor: 0, limit: 4 };
    let keys = world.meta.begin_scan(world.now, BOB, &scan).expect("the master serves");
    let matched = Patterns::default().pick(pattern, keys, || true).expect("the pattern is good");
    meanwhile(world);
    match world.meta.end_scan(world.now, BOB, &scan, matched) {
        Reply::Scanned(page) => page,
        other => panic!("{other:?}"),
    }
}

fn upsert(world: &mut World, key: &str) {
    let put = world.upsert(ALICE, key, 20).expect("there is room");
    world.end(ALICE, key, &put.what, 0).expect("it is running");
}

fn listed(page: &ScanPage) -> Vec<&str> {
    page.objects.iter().map(|(key, _)| key.as_str()).collect()
}

const REMOVE: ScanAction = ScanAction::Remove { force: true };

#[test]
fn what_changes_while_keys_are_matched_is_listed_as_it_is_then() {
    let mut world = pool(1, 1 << 20);
    for key in ["a1", "b1", "a2", "a3", "a4"] {
        world.put(key, 10).expect("there is room");
    }
    let page = scan_while(&mut world, ("a", ScanAction::List), |world| {
        world.remove("a1", false).expect("nobody reads it");
        // It lies where `a1` lay, and does not match.
        world.put("c", 10).expect("there is room");
        upsert(world, "a2");
    });
    assert_eq!((listed(&page), page.next_cursor), (vec!["a3"], Some(4)));
    let scan = Scan {
        tenant: Some("default"),
        pattern: Some("a"),
        action: ScanAction::List,
        cursor: 4,
        limit: 9,
    };
    let Reply::Scanned(rest) = world.ask(BOB, &Request::Scan(scan)) else { panic!("no page") };
    assert_eq!(listed(&rest), ["a4", "a2"], "each is met once");
}

#[test]
fn a_key_that_is_replaced_while_keys_are_matched_is_removed_all_the_same() {
    let mut world = pool(1, 1 << 20);
    for key in ["gone", "a1", "a2", "b"] {
        world.put(key, 10).expect("there is room");
    }
    world.remove("gone", false).expect("nobody reads it");
    let page = scan_while(&mut world, ("^a", REMOVE), |world| {
        // The new version lies where the walk has been.
        upsert(world, "a1");
        world.remove("a2", false).expect("nobody reads it");
        world.put("a2", 30).expect("there is room");
    });
    assert_eq!(page.removed, 2);
    assert!(!world.exist("a1") && !world.exist("a2") && world.exist("b"));
    world.check();
}

#[test]
fn a_page_that_ends_early_goes_on_at_the_first_key_that_was_not_matched() {
    let mut world = pool(1, 1 << 20);
    for key in ["a1", "b", "a2", "a3"] {
        world.put(key, 10).expect("there is room");
    }
    let mut met = Vec::new();
    let mut next = Some(0);
    while let Some(cursor) = next {
        let scan = Scan {
            tenant: Some("default"),
            pattern: Some("a"),
            action: ScanAction::List,
            cursor,
            limit: 9,
        };
        let keys = world.meta.begin_scan(world.now, BOB, &scan).expect("the master serves");
        let matched = Patterns::default().pick("a", keys, || false).expect("the pattern is good");
        let Reply::Scanned(page) = world.meta.end_scan(world.now, BOB, &scan, matched) else {
            panic!("no page")
        };
        met.push(listed(&page).len());
        next = page.next_cursor;
    }
    assert_eq!(met, [1, 0, 1, 1], "one key a page");
}
