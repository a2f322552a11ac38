//! The segment host as transports use it: epochs, superseded writers, and the segment's bytes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use mooncake_node::Host;
use mooncake_transfer::{Interrupt, SegmentHost};
use mooncake_types::{
    Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

use crate::shells::{Shell, for_all_shells};

for_all_shells! {
    clients_are_told_the_highest_epoch_seen,
    a_segment_is_not_read_any_more_when_the_master_is_told_that_it_goes,
    what_was_written_is_read_until_something_newer_begins,
    only_the_epoch_that_the_own_master_named_is_obeyed,
    segments_that_are_not_here_are_refused,
    a_newer_writer_interrupts_an_older_one_and_waits_until_it_has_stopped,
    a_writer_that_does_not_stop_is_not_waited_for_for_ever,
    a_waiting_writer_makes_way_for_a_still_newer_one,
    a_segment_that_starts_empty_has_another_id_and_nothing_in_it,
    who_was_writing_when_a_segment_started_empty_is_stopped_before_anybody_else_writes_there,
    nothing_is_dropped_for_a_leader_before_the_one_that_is_obeyed,
    entries_in_segments_of_others_are_not_dropped_here,
    frames_of_peers_do_not_stop_a_node,
    a_segment_that_started_empty_many_times_is_still_known_by_its_first_id,
}

const SEGMENT: SegmentId = SegmentId(1);

fn host(shell: Shell) -> Host {
    shell.host(SEGMENT, 1 << 16)
}

/// A host that is led under the first epoch.
fn led(shell: Shell) -> Host {
    let host = host(shell);
    host.see_epoch(Epoch(1));
    host
}

fn version(epoch: u64, counter: u64) -> Version {
    Version { epoch: Epoch(epoch), counter }
}

/// A write of 4096 bytes at offset 8192.
fn write(version: Version) -> RangeWrite<'static> {
    RangeWrite {
        segment: SEGMENT,
        offset: 8192,
        entry_len: 4096,
        from: 0,
        len: 4096,
        key: "key",
        version,
        grant: version,
        object_len: 4096,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn read(version: Version) -> RangeRead {
    RangeRead {
        segment: SEGMENT,
        offset: 8192,
        version,
        object_offset: 0,
        from: 0,
        len: 4096,
        seal: Seal::NONE,
    }
}

/// Notes whether it was called.
#[derive(Default)]
struct Flag(AtomicBool);

impl Interrupt for Flag {
    fn interrupt(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn flag() -> Arc<Flag> {
    Arc::default()
}

fn clients_are_told_the_highest_epoch_seen(shell: Shell) {
    let host = host(shell);
    let told: &dyn SegmentHost = &host;
    assert_eq!(told.epoch(), Epoch(0));
    host.see_epoch(Epoch(9));
    host.see_epoch(Epoch(4));
    assert_eq!(told.epoch(), Epoch(9));
}

/// Once the master knows that the segment leaves, it may let other objects replace those that lie there.
fn a_segment_is_not_read_any_more_when_the_master_is_told_that_it_goes(shell: Shell) {
    let host = led(shell);
    let written = version(1, 1);
    let ticket = host.begin_write(Epoch(1), &write(written), flag()).expect("it is free");
    host.complete_write(ticket, Vec::new()).expect("nobody else is at work");
    assert!(host.begin_read(&read(written)).is_ok());
    let tell = || host.begin_read(&read(written)).map(|_| ());
    let told = host.take_back_waiting(SEGMENT, Duration::from_secs(1), tell);
    assert_eq!(told, Err(ErrorCode::SegmentNotFound));
    assert_eq!(host.take_back_waiting(SEGMENT, Duration::ZERO, || 5), 5, "it is told all the same");
}

/// Sends to a channel when it is interrupted.
struct Teller(mpsc::Sender<()>);

impl Interrupt for Teller {
    fn interrupt(&self) {
        self.0.send(()).expect("somebody listens");
    }
}

fn put(host: &Host, version: Version, fill: u8) {
    let ticket = host.begin_write(version.epoch, &write(version), flag()).expect("it is granted");
    ticket.memory.raw().write_from(&[fill; 4096]);
    let checksums = ticket.memory.raw().chunk_crcs();
    assert_eq!(host.complete_write(ticket, checksums), Ok(()));
}

fn what_was_written_is_read_until_something_newer_begins(shell: Shell) {
    let host = led(shell);
    assert!(host.owns(SEGMENT) && !host.owns(SegmentId(2)));
    put(&host, version(1, 1), 7);
    let ticket = host.begin_read(&read(version(1, 1))).expect("it is there");
    assert_eq!(ticket.memory.raw().to_vec(), [7; 4096]);
    assert_eq!(ticket.checksums.as_deref(), Some(&ticket.memory.raw().chunk_crcs()[..]));
    assert!(host.still_holds(&ticket));
    let newer = host.begin_write(Epoch(1), &write(version(1, 2)), flag()).expect("it is newer");
    assert!(!host.still_holds(&ticket), "the bytes may change from here on");
    assert_eq!(host.begin_read(&read(version(1, 1))).map(|_| ()), Err(ErrorCode::ObjectNotFound));
    host.abandon_write(newer);
    assert!(!host.still_holds(&ticket));
}

fn only_the_epoch_that_the_own_master_named_is_obeyed(shell: Shell) {
    let host = host(shell);
    let begin = |epoch, version| {
        let begun = host.begin_write(Epoch(epoch), &write(version), flag());
        begun.map(|ticket| host.abandon_write(ticket))
    };
    host.see_epoch(Epoch(5));
    assert_eq!(begin(5, version(5, 1)), Ok(()));
    assert_eq!(begin(4, version(4, 9)), Err(ErrorCode::InvalidVersion));
    assert_eq!(begin(5, version(6, 1)), Err(ErrorCode::InvalidVersion), "not yet granted");
    assert_eq!(begin(8, version(8, 1)), Err(ErrorCode::UNKNOWN_LEADER), "it may come again");
    host.see_epoch(Epoch(8));
    assert_eq!(begin(5, version(5, 2)), Err(ErrorCode::InvalidVersion));
    assert_eq!(begin(8, version(8, 1)), Ok(()));
    host.see_epoch(Epoch(3));
    assert_eq!(host.epoch(), Epoch(8));
}

fn segments_that_are_not_here_are_refused(shell: Shell) {
    let host = led(shell);
    let elsewhere = SegmentId(9);
    let write = RangeWrite { segment: elsewhere, ..write(version(1, 1)) };
    let begun = host.begin_write(Epoch(1), &write, flag());
    assert_eq!(begun.map(|_| ()), Err(ErrorCode::SegmentNotFound));
    let read = RangeRead { segment: elsewhere, ..read(version(1, 1)) };
    assert_eq!(host.begin_read(&read).map(|_| ()), Err(ErrorCode::SegmentNotFound));
}

fn a_newer_writer_interrupts_an_older_one_and_waits_until_it_has_stopped(shell: Shell) {
    let host = led(shell);
    let (tell, told) = mpsc::channel();
    let old = host
        .begin_write(Epoch(1), &write(version(1, 1)), Arc::new(Teller(tell)))
        .expect("it is the first");
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| {
            let newer = host.begin_write(Epoch(1), &write(version(1, 2)), flag());
            let newer = newer.expect("it is newer");
            newer.memory.raw().write_from(&[2; 4096]);
            let checksums = newer.memory.raw().chunk_crcs();
            host.complete_write(newer, checksums)
        });
        told.recv().expect("the older one is interrupted");
        // The older writer may still write until it has stopped.
        old.memory.raw().write_from(&[1; 4096]);
        assert!(!newer.is_finished());
        assert_eq!(host.complete_write(old, vec![1]), Err(ErrorCode::InvalidVersion));
        assert_eq!(newer.join().expect("it does not panic"), Ok(()));
    });
    let ticket = host.begin_read(&read(version(1, 2))).expect("the newer one is there");
    assert_eq!(ticket.memory.raw().to_vec(), [2; 4096]);
}

fn a_writer_that_does_not_stop_is_not_waited_for_for_ever(shell: Shell) {
    let host = led(shell).with_patience(Duration::from_millis(50));
    let interrupted = flag();
    let old = host
        .begin_write(Epoch(1), &write(version(1, 1)), Arc::clone(&interrupted) as _)
        .expect("it is the first");
    let newer = host.begin_write(Epoch(1), &write(version(1, 2)), flag());
    assert_eq!(newer.map(|_| ()), Err(ErrorCode::ObjectReplicaBusy));
    assert!(interrupted.0.load(Ordering::SeqCst));
    // The range still obeys the newest version that began in it.
    assert_eq!(host.complete_write(old, vec![1]), Err(ErrorCode::InvalidVersion));
    let late = host.begin_write(Epoch(1), &write(version(1, 1)), flag());
    assert_eq!(late.map(|_| ()), Err(ErrorCode::InvalidVersion));
    put(&host, version(1, 3), 3);
}

fn a_waiting_writer_makes_way_for_a_still_newer_one(shell: Shell) {
    let host = led(shell);
    let (tell, told) = mpsc::channel();
    let (tell_second, told_second) = mpsc::channel();
    let old = host
        .begin_write(Epoch(1), &write(version(1, 1)), Arc::new(Teller(tell)))
        .expect("it is the first");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let interrupt = Arc::new(Teller(tell_second));
            host.begin_write(Epoch(1), &write(version(1, 2)), interrupt).map(|_| ())
        });
        told.recv().expect("the second has superseded the first");
        let third = scope.spawn(|| {
            let third = host.begin_write(Epoch(1), &write(version(1, 3)), flag());
            third.map(|ticket| host.complete_write(ticket, Vec::new()))
        });
        told_second.recv().expect("the third has superseded the second");
        host.abandon_write(old);
        let second = second.join().expect("it does not panic");
        assert_eq!(second, Err(ErrorCode::InvalidVersion));
        assert_eq!(third.join().expect("it does not panic"), Ok(Ok(())));
    });
    assert!(host.begin_read(&read(version(1, 3))).is_ok());
}

const RENAMED: SegmentId = SegmentId(11);

fn range(segment: SegmentId, version: Version) -> RangeWrite<'static> {
    RangeWrite { segment, ..write(version) }
}

fn a_segment_that_starts_empty_has_another_id_and_nothing_in_it(shell: Shell) {
    let host = led(shell);
    put(&host, version(1, 1), 7);
    assert!(!host.is_empty(SEGMENT));
    let ticket = host.begin_read(&read(version(1, 1))).expect("it is there");
    assert!(!host.start_empty(SegmentId(9), RENAMED), "there is no such segment");
    assert!(host.start_empty(SEGMENT, RENAMED));
    assert!(!host.still_holds(&ticket));
    assert!(host.is_empty(RENAMED) && host.owns(RENAMED) && !host.owns(SEGMENT));
    assert_eq!(host.current_id(SEGMENT), Some(RENAMED));
    for (segment, missing) in
        [(SEGMENT, ErrorCode::SegmentNotFound), (RENAMED, ErrorCode::ObjectNotFound)]
    {
        let read = RangeRead { segment, ..read(version(1, 1)) };
        assert_eq!(host.begin_read(&read).map(|_| ()), Err(missing));
        let drop =
            RangeDrop { segment, offset: 8192, version: version(1, 1), grant: version(1, 1) };
        assert_eq!(host.drop_range(&drop), Ok(()), "it is gone");
    }
    let old = host.begin_write(Epoch(1), &range(SEGMENT, version(1, 9)), flag());
    assert_eq!(old.map(|_| ()), Err(ErrorCode::SegmentNotFound));
    let new = host.begin_write(Epoch(1), &range(RENAMED, version(1, 9)), flag());
    assert_eq!(host.complete_write(new.expect("it is newer"), Vec::new()), Ok(()));
    let read = RangeRead { segment: RENAMED, ..read(version(1, 9)) };
    assert!(host.begin_read(&read).is_ok());
    host.take_back(RENAMED);
    assert_eq!(host.current_id(SEGMENT), None);
}

fn who_was_writing_when_a_segment_started_empty_is_stopped_before_anybody_else_writes_there(
    shell: Shell,
) {
    let host = led(shell).with_patience(Duration::from_millis(20));
    let stopped = flag();
    let old = host.begin_write(Epoch(1), &write(version(1, 1)), Arc::clone(&stopped) as _);
    let old = old.expect("it is the first");
    assert!(host.start_empty(SEGMENT, RENAMED));
    assert!(stopped.0.load(Ordering::SeqCst));
    let new = || host.begin_write(Epoch(1), &range(RENAMED, version(1, 2)), flag());
    assert_eq!(new().map(|_| ()), Err(ErrorCode::ObjectReplicaBusy));
    assert_eq!(host.complete_write(old, Vec::new()), Err(ErrorCode::InvalidVersion));
    let ticket = new().expect("nobody else is at work any more");
    assert_eq!(host.complete_write(ticket, Vec::new()), Ok(()));
}

/// A later leader may know of the entry and have it copied, so only that leader may decide what is dropped.
fn nothing_is_dropped_for_a_leader_before_the_one_that_is_obeyed(shell: Shell) {
    let host = led(shell);
    put(&host, version(1, 1), 7);
    let grant = version(1, 9);
    let range = RangeDrop { segment: SEGMENT, offset: 8192, version: version(1, 1), grant };
    host.see_epoch(Epoch(2));
    for range in [range, RangeDrop { offset: 0, ..range }] {
        assert_eq!(host.drop_range(&range), Err(ErrorCode::InvalidVersion));
    }
    assert!(host.begin_read(&read(version(1, 1))).is_ok(), "it is there");
    let later = RangeDrop { grant: version(2, 0), ..range };
    assert_eq!(host.drop_range(&later), Ok(()));
    assert!(host.begin_read(&read(version(1, 1))).is_err());
    let unknown = RangeDrop { grant: version(3, 0), ..range };
    assert_eq!(host.drop_range(&unknown), Err(ErrorCode::UNKNOWN_LEADER));
}

fn entries_in_segments_of_others_are_not_dropped_here(shell: Shell) {
    let host = led(shell);
    let drop = RangeDrop {
        segment: SegmentId(9),
        offset: 0,
        version: version(1, 1),
        grant: version(1, 1),
    };
    assert_eq!(host.drop_range(&drop), Err(ErrorCode::SegmentNotFound));
}

/// A node that accepted the epoch of a frame would refuse every grant of its own leader. It would also make the next
/// leader raise its epoch above that value.
fn frames_of_peers_do_not_stop_a_node(shell: Shell) {
    let host = led(shell);
    for epoch in [2, 1 << 32, (1 << 61) - 1, u64::MAX].map(Epoch) {
        let wild = Version { epoch, counter: u64::MAX };
        let refused = host.begin_write(epoch, &write(wild), flag());
        assert_eq!(refused.map(|_| ()), Err(ErrorCode::UNKNOWN_LEADER), "{epoch}");
        let version = version(1, 1);
        let drop = RangeDrop { segment: SEGMENT, offset: 8192, version, grant: wild };
        assert_eq!(host.drop_range(&drop), Err(ErrorCode::UNKNOWN_LEADER), "{epoch}");
        assert_eq!(host.epoch(), Epoch(1));
    }
    put(&host, version(1, 1), 7);
}

fn a_segment_that_started_empty_many_times_is_still_known_by_its_first_id(shell: Shell) {
    let host = led(shell);
    let mut id = SEGMENT;
    for next in 1000..1100 {
        assert!(host.start_empty(id, SegmentId(next)));
        id = SegmentId(next);
        assert_eq!(host.current_id(SEGMENT), Some(id));
    }
}
