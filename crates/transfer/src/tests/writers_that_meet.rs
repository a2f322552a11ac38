//! Two writers of one range: the newer one wins at once, and no byte of the older one lands after it began.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, SliceList, crc32c};
use mooncake_types::ErrorCode;
use mooncake_wire::encode_write;

use super::raw_peer::connect_and_greet;
use super::rig::{EPOCH, Node, Object, all_ok, by, read_all, tcp, version, wait_until, write_all};
use crate::open_write::OpenWrite;
use crate::testing::first_mismatch;
use crate::{Interrupt, LocalTransport, SegmentHost, TransferError, Transport};

fn frame(objects: &[Object]) -> Vec<u8> {
    let mut frame = Vec::new();
    let ranges: Vec<_> =
        objects.iter().map(|object| object.write_op(SliceList::default()).range).collect();
    encode_write(&mut frame, 1, EPOCH, &ranges);
    for object in objects {
        frame.extend_from_slice(&object.bytes());
        for chunk in object.bytes().chunks(mooncake_types::limits::CHUNK_BYTES as usize) {
            frame.extend_from_slice(&crc32c(chunk).to_le_bytes());
        }
    }
    frame
}

#[test]
fn a_zombie_is_interrupted_by_a_newer_writer() {
    let node = Node::start(1, 8 << 20);
    let local = LocalTransport::new(Arc::clone(&node.host) as Arc<dyn SegmentHost>);
    let ways: [&dyn Transport; 3] = [&tcp(), &local, &by("shm")];
    for (round, way) in ways.into_iter().enumerate() {
        let round = round as u64 * 10;
        let old = Object::at(&node, 1 << 20, 2 << 20, round + 1);
        let bytes = frame(std::slice::from_ref(&old));
        let mut zombie = connect_and_greet(&node.endpoint);
        zombie.write_all(&bytes[..1 << 20]).unwrap();
        wait_until("the zombie has begun", || node.host.writers() == 1);

        // Its range begins inside the old one, and ends behind it.
        let new = Object::at(&node, 2 << 20, 3 << 20, round + 2);
        let begin = Instant::now();
        assert_eq!(write_all(way, std::slice::from_ref(&new)), all_ok(1));
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());

        // The older writer resumes, and keeps sending.
        let _ = zombie.write_all(&bytes[1 << 20..]);
        let _ = zombie.read_to_end(&mut Vec::new());
        assert_eq!(read_all(way, &[new.clone(), old]), [Ok(()), Err(TransferError::Stale)]);
        assert_eq!(node.host.entries(node.segment), [(2 << 20, new.version)]);
    }
}

#[test]
fn a_zombie_that_comes_late_is_refused() {
    let node = Node::start(1, 8 << 20);
    let transport = tcp();
    for len in [1000, 300_000] {
        let new = Object::at(&node, 0, 2 * len, len + 2);
        assert_eq!(write_all(&transport, std::slice::from_ref(&new)), all_ok(1));
        let old = Object::at(&node, len, len, len + 1);
        let refused = Err(TransferError::Refused(ErrorCode::InvalidVersion));
        assert_eq!(write_all(&transport, &[old]), [refused]);
        assert_eq!(read_all(&transport, &[new]), all_ok(1));
    }
}

#[test]
fn writers_that_want_each_others_ranges_do_not_wait_for_ever() {
    let node = Node::start(1, 8 << 20);
    let at = |offset: u64, counter| Object::at(&node, offset << 20, 1 << 20, counter);
    // Each has begun one range, and continues with the other's, whose writer has an older grant.
    let first = frame(&[at(0, 5), at(2, 8)]);
    let second = frame(&[at(2, 7), at(0, 6)]);
    let mut streams = [connect_and_greet(&node.endpoint), connect_and_greet(&node.endpoint)];
    for (stream, frame) in streams.iter_mut().zip([&first, &second]) {
        stream.write_all(&frame[..1 << 19]).unwrap();
    }
    wait_until("both have begun", || node.host.writers() == 2);
    std::thread::scope(|scope| {
        for (mut stream, frame) in streams.into_iter().zip([first, second]) {
            scope.spawn(move || {
                let _ = stream.write_all(&frame[1 << 19..]);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
        wait_until("both are done", || node.host.writers() == 0);
        let transport = tcp();
        let objects = [at(0, 9), at(2, 9)];
        assert_eq!(write_all(&transport, &objects), all_ok(2));
        assert_eq!(read_all(&transport, &objects), all_ok(2));
        node.server.stop();
    });
}

#[test]
fn readers_among_racing_writers_never_see_a_mixture() {
    let node = Node::start(1, 4 << 20);
    let counter = std::sync::atomic::AtomicU64::new(1);
    let deadline = Instant::now() + Duration::from_millis(1500);
    let spans: [(u64, u64); 4] =
        [(0, 600_000), (300_000, 900_000), (1_000_000, 5000), (1_004_000, 40_000)];
    let good_reads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread: usize| {
                let (node, counter) = (&node, &counter);
                scope.spawn(move || {
                    let transport = tcp();
                    let mut good = 0;
                    while Instant::now() < deadline {
                        let number = counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let objects: Vec<Object> = (0..2)
                            .map(|i| {
                                let (offset, len) = spans[(thread + i + number as usize) % 4];
                                Object::at(node, offset, len, number)
                            })
                            .collect();
                        write_all(&transport, &objects);
                        good += read_all(&transport, &objects).iter().filter(|r| r.is_ok()).count();
                    }
                    good
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert!(good_reads > 0);
    assert_eq!(node.host.writers(), 0);
    let last = version(counter.load(std::sync::atomic::Ordering::SeqCst));
    for (offset, version) in node.host.entries(node.segment) {
        assert!(version < last);
        let (_, len) = spans.into_iter().find(|(at, _)| *at == offset).unwrap();
        let object = Object { version, ..Object::at(&node, offset, len, 0) };
        let target = Buffer::zeroed(len as usize);
        assert_eq!(tcp().read(&[object.read_op(0, target.raw().into())]), all_ok(1));
        assert_eq!(first_mismatch(target.as_slice(), &object.key, version, 0), None);
    }
}

struct Nobody;

impl Interrupt for Nobody {
    fn interrupt(&self) {}
}

#[test]
fn a_write_whose_copy_panics_is_abandoned() {
    let node = Node::start(1, 1 << 20);
    let object = Object::at(&node, 0, 1000, 1);
    let range = object.write_op(SliceList::default()).range;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let open = OpenWrite::begin(&*node.host, EPOCH, &range, Arc::new(Nobody));
        assert_eq!(node.host.writers(), 1);
        assert!(open.is_err(), "the copy panics");
    }));
    assert!(panicked.is_err());
    assert_eq!(node.host.writers(), 0);
}
