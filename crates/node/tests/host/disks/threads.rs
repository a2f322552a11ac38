//! Many threads that write, read and drop on one disk.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use mooncake_tier::testing::DiskDouble;
use mooncake_transfer::SegmentHost;
use mooncake_types::{Chance, ErrorCode, SegmentId};

use super::{Piece, check, host, pieces, put, version};

const SEGMENT: SegmentId = SegmentId(1);
const THREADS: u64 = 4;
const STEPS: u64 = 300;

#[test]
fn whatever_many_threads_do_bytes_are_right_and_what_is_dropped_stays_dropped() {
    let double = DiskDouble::new(1);
    let host = &host(&double, SEGMENT);
    let next = AtomicU64::new(1);
    let (written, dropped) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (next, written, dropped) = (&next, &written, &dropped);
            scope.spawn(move || {
                let mut chance = Chance::new(seed);
                for _ in 0..STEPS {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let len = 1 + chance.below(40_000);
                    let offset = chance.below(80) * 4096;
                    let piece = Piece::whole(offset, version(number), len);
                    match put(host, SEGMENT, &piece) {
                        Ok(()) => written.lock().expect("no panic").push(piece),
                        Err(ErrorCode::InvalidVersion | ErrorCode::ObjectReplicaBusy) => {}
                        Err(code) => panic!("{code}"),
                    }
                    let some = |chance: &mut Chance| {
                        let written = written.lock().expect("no panic");
                        let at = chance.below(written.len().max(1) as u64) as usize;
                        written.get(at).copied()
                    };
                    if let Some(piece) = some(&mut chance) {
                        let found = host.begin_read(&piece.read(SEGMENT, 0, piece.len));
                        if let Ok(ticket) = found {
                            assert!(
                                ticket.memory.raw().to_vec() == piece.bytes(0, piece.len),
                                "{piece:?}"
                            );
                        }
                    }
                    if let Some(piece) = some(&mut chance).filter(|_| chance.below(3) == 0) {
                        let newest = next.fetch_add(1, Ordering::SeqCst);
                        let drop = piece.drop_by(SEGMENT, version(newest));
                        assert_eq!(host.drop_range(&drop), Ok(()));
                        assert_eq!(check(host, SEGMENT, &piece), Err(ErrorCode::ObjectNotFound));
                        dropped.lock().expect("no panic").insert(piece);
                    }
                }
            });
        }
    });
    let there = pieces(host, SEGMENT);
    assert!(!there.is_empty());
    there.iter().for_each(|piece| assert_eq!(check(host, SEGMENT, piece), Ok(())));
    double.cut();
    let next = super::host(&double, SegmentId(2));
    let found = pieces(&next, SEGMENT);
    let mut counted = there;
    counted.retain(|piece| written.lock().expect("no panic").contains(piece));
    assert_eq!(found, counted);
    let dropped = dropped.into_inner().expect("no panic");
    assert!(!dropped.is_empty() && !found.iter().any(|piece| dropped.contains(piece)));
    found.iter().for_each(|piece| assert_eq!(check(&next, SEGMENT, piece), Ok(())));
}
