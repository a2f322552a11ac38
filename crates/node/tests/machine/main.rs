//! Which effects the segment machine asks of its shell, and in which order.

use std::time::{Duration, Instant};

use mooncake_node::{
    Admission, Effect, Ledger, LentSegments, PROMISE, SegmentMachine, WriteRequest,
};
use mooncake_types::{
    Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

const SEGMENT: SegmentId = SegmentId(1);
const EPOCH: Epoch = Epoch(3);
const PATIENCE: Duration = Duration::from_millis(500);

/// A machine whose writers and readers are names, and the effects that it asked for.
struct Rig {
    machine: SegmentMachine<&'static str>,
    did: Vec<String>,
    now: Instant,
}

fn version(counter: u64) -> Version {
    Version { epoch: EPOCH, counter }
}

fn write(offset: u64, len: u64, counter: u64) -> RangeWrite<'static> {
    RangeWrite {
        segment: SEGMENT,
        offset,
        entry_len: len,
        from: 0,
        len,
        key: "key",
        version: version(counter),
        grant: version(counter),
        object_len: len,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn read_of(range: &RangeWrite<'_>) -> RangeRead {
    let RangeWrite { segment, offset, version, object_offset, from, len, .. } = *range;
    RangeRead { segment, offset, version, object_offset, from, len, seal: Seal::NONE }
}

fn text(effect: &Effect<'_, &'static str>) -> String {
    match effect {
        Effect::RemoveRow { offset } => format!("remove row {offset}"),
        Effect::RefuseGrants { up_to } => format!("refuse {}", up_to.counter),
        Effect::RemoveSlot { offset } => format!("remove slot {offset}"),
        Effect::AddRow { offset, entry } => format!("add row {offset}+{}", entry.len),
        Effect::AddSlot { offset, entry } => format!("add slot {offset}+{}", entry.len),
        Effect::CloseSlots => "close slots".to_owned(),
        Effect::Rename { id } => format!("rename {}", id.0),
        Effect::NoteEpoch { epoch } => format!("note epoch {epoch}"),
        Effect::Interrupt(whom) => format!("interrupt {whom}"),
    }
}

impl Rig {
    fn new() -> Self {
        let machine = SegmentMachine::new(SEGMENT, Ledger::new(1000), EPOCH);
        Self { machine, did: Vec::new(), now: Instant::now() }
    }

    fn begin(&mut self, writer: &'static str, range: &RangeWrite<'_>) -> Result<u64, ErrorCode> {
        let (now, until) = (self.now, self.now + PATIENCE);
        let request = WriteRequest { epoch: EPOCH, range, writer, now, until };
        self.machine.begin(request, |effect| self.did.push(text(&effect)))
    }

    fn complete(&mut self, ticket: u64) -> Result<(), ErrorCode> {
        self.machine.complete(ticket, Vec::new(), |effect| self.did.push(text(&effect)))
    }

    fn put(&mut self, range: &RangeWrite<'_>) {
        let ticket = self.begin("a writer", range).expect("it is newer");
        assert_eq!(self.machine.admit(ticket, self.now), Admission::Granted);
        assert_eq!(self.complete(ticket), Ok(()));
        self.did.clear();
    }

    fn pin(&mut self, reader: &'static str, range: &RangeWrite<'_>) -> mooncake_node::PinKey {
        self.machine.pin(&read_of(range), reader).expect("it is there")
    }

    fn drop_at(&mut self, range: &RangeDrop, now: Instant) -> Result<(), ErrorCode> {
        self.machine.drop_entry(range, now, |effect| self.did.push(text(&effect)))
    }

    #[track_caller]
    fn expect(&mut self, did: &[&str]) {
        assert_eq!(std::mem::take(&mut self.did), did);
    }
}

#[test]
fn nobody_finds_what_overlaps_before_a_writer_or_the_one_before_it_can_change_a_byte() {
    let mut rig = Rig::new();
    let (one, other) = (write(0, 10, 1), write(10, 10, 2));
    rig.put(&one);
    rig.put(&other);
    rig.pin("a reader", &other);
    let first = rig.begin("the first", &write(5, 5, 3)).expect("it is newer");
    rig.expect(&["remove row 0", "refuse 3", "remove slot 0"]);
    rig.begin("the second", &write(5, 10, 4)).expect("it is newer");
    rig.expect(&[
        "remove row 10",
        "refuse 4",
        "remove slot 10",
        "interrupt the first",
        "interrupt a reader",
    ]);
    assert_eq!(rig.complete(first), Err(ErrorCode::InvalidVersion));
    rig.expect(&[]);
}

#[test]
fn the_next_process_finds_an_entry_before_others_do_and_once_it_is_whole() {
    let mut rig = Rig::new();
    let whole = write(0, 10, 1);
    let parts = [(0, 4), (4, 6)].map(|(from, len)| RangeWrite { from, len, ..whole });
    let tickets = parts.map(|part| rig.begin("a writer", &part).expect("nobody else is here"));
    rig.did.clear();
    assert_eq!(rig.complete(tickets[0]), Ok(()));
    rig.expect(&[]);
    assert_eq!(rig.complete(tickets[1]), Ok(()));
    rig.expect(&["add row 0+10", "add slot 0+10"]);
}

#[test]
fn what_a_drop_names_is_found_by_nobody_and_its_writer_told_to_stop() {
    let mut rig = Rig::new();
    rig.put(&write(0, 10, 1));
    let drop = |offset, counter| RangeDrop {
        segment: SEGMENT,
        offset,
        version: version(counter),
        grant: version(counter),
    };
    let effects = |rig: &mut Rig, range| rig.drop_at(&range, rig.now);
    assert_eq!(effects(&mut rig, drop(0, 1)), Ok(()));
    rig.expect(&["remove row 0", "refuse 1", "remove slot 0"]);
    rig.begin("a writer", &write(20, 10, 2)).expect("nobody else is here");
    rig.did.clear();
    assert_eq!(effects(&mut rig, drop(20, 2)), Ok(()));
    rig.expect(&["refuse 2", "interrupt a writer"]);
    let former = RangeDrop { segment: SegmentId(9), ..drop(0, 3) };
    assert_eq!(effects(&mut rig, former), Ok(()), "it was dropped with that id");
    rig.expect(&[]);
    let grant = Version { epoch: Epoch(2), counter: 9 };
    let refused = effects(&mut rig, RangeDrop { grant, ..drop(0, 3) });
    assert_eq!(refused, Err(ErrorCode::InvalidVersion));
    rig.expect(&[]);
}

#[test]
fn a_promised_entry_is_dropped_when_the_promise_is_over_and_not_promised_again_before() {
    let mut rig = Rig::new();
    rig.put(&write(0, 10, 1));
    let (now, ms) = (rig.now, Duration::from_millis);
    let read = read_of(&write(0, 10, 1));
    assert_eq!(rig.machine.promise(&read, now), Ok(()));
    assert_eq!(rig.machine.promise(&read, now + ms(100)), Ok(()));
    let range = RangeDrop { segment: SEGMENT, offset: 0, version: version(1), grant: version(1) };
    let over = now + ms(100) + PROMISE;
    for at in [now, now + ms(200), over - ms(1)] {
        assert_eq!(rig.drop_at(&range, at), Err(ErrorCode::ObjectHasLease));
        let refused = Err(ErrorCode::NoAvailableHandle);
        assert_eq!(rig.machine.promise(&read, at), refused, "somebody waits");
        assert!(rig.machine.read(&read).is_ok(), "it is still there");
    }
    rig.expect(&[]);
    assert_eq!(rig.drop_at(&range, over), Ok(()));
    rig.expect(&["remove row 0", "refuse 1", "remove slot 0"]);
    assert_eq!(rig.machine.promise(&read, over), Err(ErrorCode::ObjectNotFound));
    let other = RangeRead { segment: SegmentId(9), ..read };
    assert_eq!(rig.machine.promise(&other, over), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn what_a_write_takes_the_place_of_is_not_said_to_be_dropped_while_it_is_promised() {
    let mut rig = Rig::new();
    rig.put(&write(0, 10, 1));
    let (now, ms) = (rig.now, Duration::from_millis);
    let read = read_of(&write(0, 10, 1));
    assert_eq!(rig.machine.promise(&read, now), Ok(()));
    let ticket = rig.begin("a writer", &write(5, 10, 2)).expect("it is newer");
    assert_eq!(rig.machine.read(&read), Err(ErrorCode::ObjectNotFound), "nobody reads it here");
    let range = RangeDrop { segment: SEGMENT, offset: 0, version: version(1), grant: version(1) };
    assert_eq!(rig.drop_at(&range, now + ms(1)), Err(ErrorCode::ObjectHasLease));
    assert_eq!(rig.machine.admit(ticket, now + ms(100)), Admission::Wait(PROMISE - ms(100)));
    assert_eq!(rig.machine.admit(ticket, now + PROMISE), Admission::Granted);
    assert_eq!(rig.drop_at(&range, now + PROMISE), Ok(()));
}

#[test]
fn a_segment_that_is_to_go_promises_nothing_and_says_how_long_promises_hold() {
    let mut rig = Rig::new();
    rig.put(&write(0, 10, 1));
    rig.put(&write(20, 10, 2));
    let ms = Duration::from_millis;
    let reads = [write(0, 10, 1), write(20, 10, 2)].map(|range| read_of(&range));
    assert_eq!(rig.machine.promise(&reads[0], rig.now), Ok(()));
    assert_eq!(rig.machine.promise(&reads[1], rig.now + ms(100)), Ok(()));
    assert_eq!(rig.machine.end_promises(rig.now + ms(200)), Some(PROMISE - ms(100)));
    let refused = Err(ErrorCode::NoAvailableHandle);
    assert_eq!(rig.machine.promise(&reads[0], rig.now + ms(200)), refused);
    assert_eq!(rig.machine.end_promises(rig.now + ms(100) + PROMISE), None);
    rig.machine.resume_promises();
    assert_eq!(rig.machine.promise(&reads[0], rig.now + ms(200)), Ok(()), "it stays after all");
}

#[test]
fn a_segment_that_starts_empty_is_closed_before_its_rows_go_and_named_anew_after_that() {
    let mut rig = Rig::new();
    rig.put(&write(0, 10, 1));
    let ticket = rig.begin("a writer", &write(20, 10, 2)).expect("nobody else is here");
    rig.did.clear();
    rig.machine.start_empty(SegmentId(2), |effect| rig.did.push(text(&effect)));
    rig.expect(&["close slots", "remove row 0", "rename 2", "interrupt a writer"]);
    assert_eq!(rig.begin("late", &write(0, 10, 3)), Err(ErrorCode::SegmentNotFound));
    let refused = Admission::Refused(ErrorCode::InvalidVersion);
    assert_eq!(rig.machine.admit(ticket, rig.now), refused);
}

#[test]
fn an_epoch_is_noted_before_it_is_obeyed_and_once() {
    let mut rig = Rig::new();
    for epoch in [3, 5, 4, 5] {
        rig.machine.obey(Epoch(epoch), |effect| rig.did.push(text(&effect)));
    }
    rig.expect(&["note epoch 5"]);
    assert_eq!(rig.begin("old", &write(0, 10, 1)), Err(ErrorCode::InvalidVersion));
}

#[test]
fn a_segment_that_is_taken_back_is_closed_and_asked_for_where_somebody_looks() {
    let mut rig = Rig::new();
    let range = write(0, 10, 1);
    rig.put(&range);
    rig.pin("a reader", &range);
    rig.machine.take_back(rig.now, |effect| rig.did.push(text(&effect)));
    rig.expect(&["close slots", "interrupt a reader"]);
}

#[test]
fn a_writer_waits_for_older_ones_and_for_readers_and_not_for_ever() {
    let mut rig = Rig::new();
    let range = write(0, 10, 1);
    rig.put(&range);
    let (begun, pin) = (rig.now, rig.pin("a reader", &range));
    let first = rig.begin("the first", &write(0, 10, 2)).expect("it is newer");
    let ms = Duration::from_millis;
    assert_eq!(rig.machine.admit(first, begun + ms(100)), Admission::Wait(ms(300)));
    rig.machine.unpin(pin);
    assert_eq!(rig.machine.admit(first, begun + ms(100)), Admission::Granted);
    let second = rig.begin("the second", &write(0, 10, 3)).expect("it is newer");
    assert_eq!(rig.machine.admit(second, begun + ms(100)), Admission::Wait(ms(400)));
    let busy = Admission::Refused(ErrorCode::ObjectReplicaBusy);
    assert_eq!(rig.machine.admit(second, begun + PATIENCE), busy);
    rig.machine.abandon(first);
    let third = rig.begin("the third", &write(0, 10, 4)).expect("it is newer");
    assert_eq!(rig.machine.admit(third, begun), Admission::Granted);
}

#[test]
fn a_node_obeys_an_epoch_once_all_its_segments_do() {
    let mut lent = LentSegments::default();
    lent.lend(SegmentId(1), Epoch(0));
    lent.obey(Epoch(4), |obeyed, epoch| *obeyed = epoch);
    lent.lend(SegmentId(2), Epoch(0));
    lent.obey(Epoch(2), |obeyed, epoch| *obeyed = epoch);
    assert_eq!((lent.epoch(), lent.iter().copied().collect()), (Epoch(4), vec![Epoch(4); 2]));
}

#[test]
fn a_segment_is_found_by_former_ids_only_by_those_who_end_something_there() {
    let mut lent = LentSegments::default();
    lent.lend(SegmentId(1), "memory");
    assert_eq!(lent.start_empty(SegmentId(9), SegmentId(2), |_| ()), None);
    assert_eq!(lent.start_empty(SegmentId(1), SegmentId(2), |_| ()), Some(()));
    assert_eq!(lent.find(SegmentId(1)), Err(ErrorCode::SegmentNotFound));
    assert_eq!(lent.find_ever(SegmentId(1)), Ok(&"memory"));
    assert_eq!(lent.current_id(SegmentId(1)), Some(SegmentId(2)));
    assert_eq!(lent.take_back(SegmentId(1)), None);
    assert_eq!(lent.take_back(SegmentId(2)), Some("memory"));
    assert_eq!(lent.find_ever(SegmentId(2)), Err(ErrorCode::SegmentNotFound));
}
