//! Ranges of a host that stay unchanged while a caller has them pinned.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mooncake_memory::Region;
use mooncake_node::{Host, Segment};
use mooncake_transfer::{Interrupt, Pin, SegmentHost};
use mooncake_types::{
    Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

const SEGMENT: SegmentId = SegmentId(1);
const LEN: u64 = 4096;
/// How long a host waits for the holder of a pin; see `node/pins.rs`.
const PATIENCE: Duration = Duration::from_millis(400);

fn host() -> Host {
    let region = Region::anonymous(1 << 16).expect("a little memory");
    let host = Host::new(vec![Segment::new(SEGMENT, region.emptied_at_end())]);
    host.see_epoch(Epoch(1));
    host
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1), counter }
}

fn write(offset: u64, counter: u64) -> RangeWrite<'static> {
    RangeWrite {
        segment: SEGMENT,
        offset,
        entry_len: LEN,
        from: 0,
        len: LEN,
        key: "key",
        version: version(counter),
        grant: version(counter),
        object_len: LEN,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn read(offset: u64, counter: u64) -> RangeRead {
    let version = version(counter);
    RangeRead {
        segment: SEGMENT,
        offset,
        version,
        object_offset: 0,
        from: 0,
        len: LEN,
        seal: Seal::NONE,
    }
}

/// Counts its interrupts, and sends each to a channel.
struct Asked(AtomicUsize, mpsc::Sender<()>);

impl Interrupt for Asked {
    fn interrupt(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // Some tests have dropped the receiver.
        let _ = self.1.send(());
    }
}

fn asked() -> (Arc<Asked>, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel();
    (Arc::new(Asked(AtomicUsize::new(0), tell)), told)
}

fn put(host: &Host, offset: u64, counter: u64) -> Result<(), ErrorCode> {
    let ticket = host.begin_write(Epoch(1), &write(offset, counter), asked().0)?;
    ticket.memory.raw().write_from(&[counter as u8; LEN as usize]);
    host.complete_write(ticket, Vec::new())
}

fn pin(host: &Host, offset: u64, counter: u64) -> (Pin, Arc<Asked>, mpsc::Receiver<()>) {
    let (asked, told) = asked();
    let pin = host.pin(&read(offset, counter), Arc::clone(&asked) as _).expect("it is there");
    (pin, asked, told)
}

fn bytes(pin: &Pin, offset: u64) -> Vec<u8> {
    pin.region.slice(offset, LEN).expect("it lies within").to_vec()
}

#[test]
fn a_writer_asks_for_what_is_pinned_and_waits_until_it_is_dropped() {
    let host = host();
    assert_eq!([put(&host, 0, 1), put(&host, LEN, 2), put(&host, 2 * LEN, 3)], [Ok(()); 3]);
    let (first, _, told) = pin(&host, 0, 1);
    let (second, _, _) = pin(&host, 0, 1);
    let (other, other_asked, _) = pin(&host, LEN, 2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&host, 0, 4));
        told.recv().expect("it is asked for");
        assert_eq!(bytes(&first, 0), [1; LEN as usize]);
        drop(first);
        assert!(!writer.is_finished());
        assert_eq!(bytes(&second, 0), [1; LEN as usize]);
        drop(second);
        assert_eq!(writer.join().expect("it does not panic"), Ok(()));
    });
    assert_eq!(other_asked.0.load(Ordering::SeqCst), 0);
    assert_eq!(put(&host, 2 * LEN, 5), Ok(()), "nobody looks at that");
    drop(other);
}

#[test]
fn who_does_not_let_go_is_waited_for_once() {
    let host = host();
    assert_eq!(put(&host, 0, 1), Ok(()));
    let (pin, asked, _) = pin(&host, 0, 1);
    let busy = Err(ErrorCode::ObjectReplicaBusy);
    let begun = Instant::now();
    assert_eq!(put(&host, 0, 2), busy);
    let took = begun.elapsed();
    assert!(took >= PATIENCE && took < 5 * PATIENCE, "{took:?}");
    for counter in 3..100 {
        assert_eq!(put(&host, 0, counter), busy);
    }
    assert!(begun.elapsed() - took < PATIENCE);
    assert!(asked.0.load(Ordering::SeqCst) >= 98);
    assert_eq!(bytes(&pin, 0), [1; LEN as usize]);
    drop(pin);
    assert_eq!(put(&host, 0, 100), Ok(()));
}

#[test]
fn only_what_is_there_is_pinned() {
    let host = host();
    assert_eq!(put(&host, 0, 1), Ok(()));
    let pin = |range: RangeRead| host.pin(&range, asked().0).map(drop);
    let good = read(0, 1);
    for (range, expected) in [
        (good, Ok(())),
        (RangeRead { from: 10, len: LEN - 10, ..good }, Ok(())),
        (RangeRead { from: 10, ..good }, Err(ErrorCode::InvalidParams)),
        (RangeRead { from: u64::MAX, ..good }, Err(ErrorCode::InvalidParams)),
        (RangeRead { len: 0, ..good }, Err(ErrorCode::InvalidParams)),
        (read(0, 2), Err(ErrorCode::ObjectNotFound)),
        (read(LEN, 1), Err(ErrorCode::ObjectNotFound)),
        (RangeRead { segment: SegmentId(2), ..good }, Err(ErrorCode::SegmentNotFound)),
    ] {
        assert_eq!(pin(range), expected, "{range:?}");
    }
}

#[test]
fn what_is_dropped_stays_for_those_who_look_and_for_nobody_else() {
    let host = host();
    assert_eq!(put(&host, 0, 1), Ok(()));
    let (held, asked_for, _) = pin(&host, 0, 1);
    host.drop_range(&RangeDrop {
        segment: SEGMENT,
        offset: 0,
        version: version(1),
        grant: version(1),
    })
    .expect("it is here");
    assert_eq!(bytes(&held, 0), [1; LEN as usize]);
    assert_eq!(asked_for.0.load(Ordering::SeqCst), 0, "nobody wants the place");
    let again = host.pin(&read(0, 1), asked().0).map(drop);
    assert_eq!(again, Err(ErrorCode::ObjectNotFound));
}

#[test]
fn no_more_than_a_quarter_of_a_segment_is_pinned() {
    let host = host();
    assert_eq!(put(&host, 0, 1), Ok(()));
    let mut pins: Vec<Pin> = (0..4).map(|_| pin(&host, 0, 1).0).collect();
    let more = || host.pin(&read(0, 1), asked().0);
    assert_eq!(more().map(drop), Err(ErrorCode::NoAvailableHandle));
    pins.pop();
    assert!(more().is_ok());
}

#[test]
fn a_segment_that_is_taken_back_is_not_emptied_while_somebody_looks() {
    let host = host();
    assert_eq!(put(&host, 0, 1), Ok(()));
    let (held, _, told) = pin(&host, 0, 1);
    let begun = Instant::now();
    host.take_back_waiting(SEGMENT, Duration::from_millis(50), || ());
    assert!(begun.elapsed() >= Duration::from_millis(50), "the memory was given back");
    told.recv().expect("it is asked for");
    assert_eq!(bytes(&held, 0), [1; LEN as usize]);
    let descriptor = held.region.descriptor().expect("it has one");
    let file = std::fs::File::from(descriptor.try_clone_to_owned().expect("a descriptor"));
    let first = || {
        let mut byte = [9];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 0).expect("it is there");
        byte[0]
    };
    assert_eq!(first(), 1);
    drop(held);
    assert_eq!(first(), 0, "it is given back with the last who looks");
}
