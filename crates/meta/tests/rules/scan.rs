//! Scans of all objects.

use mooncake_types::{ErrorCode, Reply, Request, Scan, ScanAction};

use crate::pool;
use crate::world::{ALICE, BOB};

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
    let page = Scan { pattern: None, action: ScanAction::List, cursor: 0, limit: u32::MAX };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(page)) else { panic!("no page") };
    assert!((1_000..1_100).contains(&page.objects.len()), "{}", page.objects.len());
    let all = world.scan(None, ScanAction::List, u32::MAX).unwrap();
    assert_eq!(all.objects.len(), 2_000);
}
