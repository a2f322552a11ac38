use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use mooncake_types::{ClientId, Epoch, SegmentId, Version};

use super::*;
use crate::child::Child;
use crate::{MapError, Region};

/// A path for a test's file, which is removed when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(format!("/dev/shm/mooncake-test-{}-{name}", std::process::id())))
    }

    fn wish(&self) -> NamedSegmentOptions {
        NamedSegmentOptions {
            path: self.0.clone(),
            len: 1 << 20,
            cluster_id: "blue".to_owned(),
            segment: SegmentId(1 << 70 | 5),
            client: ClientId(1 << 90 | 6),
            reset: false,
            patience: Duration::ZERO,
        }
    }

    fn open(&self) -> Result<NamedSegment, NamedSegmentError> {
        NamedSegment::open(&self.wish())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).create(true).truncate(false).open(&self.0).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    fn reset(&self) -> NamedSegment {
        NamedSegment::open(&NamedSegmentOptions { reset: true, ..self.wish() }).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

type Found = Vec<(RowId, Vec<u8>)>;

fn recover(words: MappedWords) -> Result<(Record, Found), NamedSegmentError> {
    let mut found = Vec::new();
    let record = Record::recover(words, |id, bytes| {
        found.push((id, bytes.to_vec()));
        Ok::<(), NamedSegmentError>(())
    })?;
    found.sort_by_key(|(_, bytes)| bytes.clone());
    Ok((record, found))
}

fn row(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8).collect()
}

#[test]
fn processes_are_counted_from_the_first_on() {
    let place = Place::new("runs");
    assert_eq!([(); 3].map(|()| place.open().unwrap().run), [1, 2, 3]);
    let reset = place.reset().run;
    assert_eq!((reset, place.open().unwrap().run), (1, 2));
}

/// Another process that mapped the memory could still write there after the lending process ended, unnoticed by the
/// next one.
#[test]
fn its_memory_is_handed_to_nobody() {
    let place = Place::new("handed");
    for _ in 0..2 {
        assert!(place.open().unwrap().memory.sealed_descriptor().is_none());
    }
}

#[test]
fn what_was_written_is_there_for_the_next_to_open_it() {
    let place = Place::new("again");
    let made = place.open().unwrap();
    assert_eq!(
        (made.past, made.client, made.memory.len()),
        (SegmentOrigin::None, ClientId(1 << 90 | 6), 1 << 20)
    );
    made.memory.slice(1000, 5).unwrap().write_from(b"bytes");
    let mut record = Record::empty(made.words, SegmentId(7 << 80));
    let version = |epoch, counter| Version { epoch: Epoch(epoch), counter };
    assert_eq!((record.floor(), record.epoch()), (None, Epoch(0)));
    for grant in [version(2, 9), version(3, 1), version(2, 10)] {
        record.raise_floor(grant);
    }
    record.raise_epoch(Epoch(4));
    record.raise_epoch(Epoch(3));
    let lens = [0, 1, 7, 8, 239, 240, 241, 480, 481, 4000, MAX_ROW_BYTES];
    let ids = lens.map(|len| record.put(&row(len)).unwrap());
    for at in [1, 5, 9] {
        record.withdraw(ids[at]);
    }
    assert_eq!(record.put(&row(MAX_ROW_BYTES + 1)), None);
    drop((record, made.memory));

    let mut other = place.wish();
    (other.segment, other.client) = (SegmentId(0), ClientId(0));
    let again = NamedSegment::open(&other).unwrap();
    assert_eq!((again.past, again.client), (SegmentOrigin::Kept, ClientId(1 << 90 | 6)));
    assert_eq!(again.memory.slice(1000, 5).unwrap().to_vec(), b"bytes");
    let (mut record, found) = recover(again.words).unwrap();
    assert_eq!(record.segment(), SegmentId(7 << 80));
    assert_eq!((record.floor(), record.epoch()), (Some(version(3, 1)), Epoch(4)));
    let mut expected = [0, 7, 8, 239, 241, 480, 481, MAX_ROW_BYTES].map(row);
    expected.sort();
    assert_eq!(found.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), expected);
    assert!(record.put(&row(4000)).is_some(), "what was withdrawn has left room");
}

#[test]
fn slots_are_used_again_and_end() {
    let place = Place::new("slots");
    let mut wish = place.wish();
    wish.len = 64 << 20;
    let made = NamedSegment::open(&wish).unwrap();
    let blocks = |place: &Place| std::fs::metadata(&place.0).unwrap().blocks() * 512;
    let before = blocks(&place);
    assert!(before < wish.len + (4 << 20), "slots that are not used take no memory");
    let slots = (made.words.len_words() - 512) / 32;
    assert!(slots >= 4096);
    let mut record = Record::empty(made.words, SegmentId(1));
    let ids: Vec<RowId> = (0..slots).map(|at| record.put(&row(at % 240)).unwrap()).collect();
    assert_eq!(record.put(b"one more"), None);
    record.withdraw(ids[3]);
    record.withdraw(ids[4]);
    assert_eq!(record.put(&row(500)), None, "it takes three");
    assert!(record.put(&row(480)).is_some());
    assert_eq!(record.put(b"one more"), None);
    drop(record);
    let again = NamedSegment::open(&wish).unwrap_err();
    assert_eq!(again, NamedSegmentError::InUse { waited_ms: 0 }, "the memory is still mapped");
    drop(made.memory);
    let (mut record, found) = recover(NamedSegment::open(&wish).unwrap().words).unwrap();
    assert_eq!(found.len(), slots - 1);
    assert_eq!(record.put(b"one more"), None);
    record.withdraw(found[7].0);
    assert!(record.put(b"one more").is_some());
}

#[test]
fn files_that_are_no_such_segment_are_refused_and_stay_as_they_are() {
    let place = Place::new("refused");
    let refusal = || place.open().expect_err("it is not to be opened");
    place.write(0, b"somebody's");
    assert_eq!(refusal(), NamedSegmentError::Foreign);
    place.write(0, &[0; 5000]);
    assert_eq!(refusal(), NamedSegmentError::Foreign);
    assert_eq!(std::fs::read(&place.0).unwrap(), [0; 5000]);
    std::fs::remove_file(&place.0).unwrap();
    drop(place.open().unwrap());
    assert_eq!(place.open().unwrap().past, SegmentOrigin::Kept);

    let with = |change: &dyn Fn(&mut NamedSegmentOptions)| {
        let mut wish = place.wish();
        change(&mut wish);
        NamedSegment::open(&wish).expect_err("it is not to be opened")
    };
    let size = NamedSegmentError::Size { found: 1 << 20, wanted: 2 << 20 };
    assert_eq!(with(&|wish| wish.len = 2 << 20), size);
    let cluster = NamedSegmentError::Cluster { found: "blue".to_owned() };
    assert_eq!(with(&|wish| wish.cluster_id = "red".to_owned()), cluster);

    let whole = std::fs::read(&place.0).unwrap();
    File::options().write(true).open(&place.0).unwrap().set_len(whole.len() as u64 - 1).unwrap();
    let wanted = whole.len() as u64;
    assert_eq!(refusal(), NamedSegmentError::Truncated { found: wanted - 1, wanted });
    place.write(0, &whole);
    assert_eq!(place.open().unwrap().past, SegmentOrigin::Kept, "it was not touched");

    place.write(8, &2_u64.to_ne_bytes());
    assert_eq!(refusal(), NamedSegmentError::Layout { found: 2, known: 1 });
    place.write(8, &1_u64.to_ne_bytes());
    place.write(16, &(3_u64 << 20).to_ne_bytes());
    assert!(matches!(refusal(), NamedSegmentError::Damaged { .. }));
}

#[test]
fn a_reset_takes_the_place_of_segments_and_of_nothing_else() {
    let place = Place::new("precious");
    let reset = || NamedSegment::open(&NamedSegmentOptions { reset: true, ..place.wish() });
    for precious in [&b"a database"[..], b"x", &[0; 5000]] {
        std::fs::write(&place.0, precious).unwrap();
        assert_eq!(reset().unwrap_err(), NamedSegmentError::Foreign);
        assert_eq!(std::fs::read(&place.0).unwrap(), precious);
    }
    let error = NamedSegmentError::Foreign;
    assert!(!error.ends_with_a_reset() && error.to_string().contains("remove it, or name another"));
    std::fs::write(&place.0, b"").unwrap();
    drop(reset().unwrap());
    let whole = std::fs::read(&place.0).unwrap();
    let (another_layout, damaged) = ((8, 2_u64), (16, 3_u64 << 20));
    for (at, word) in [another_layout, damaged] {
        place.write(at, &word.to_ne_bytes());
        assert_eq!(reset().unwrap().past, SegmentOrigin::None);
        place.write(0, &whole);
    }
    File::options().write(true).open(&place.0).unwrap().set_len(9).unwrap();
    assert_eq!(reset().unwrap().past, SegmentOrigin::None, "a file of ours that was cut short");
}

#[test]
fn files_on_a_disk_are_told_from_those_in_memory() {
    let place = Place::new("where");
    assert!(place.open().unwrap().is_in_memory);
    let elsewhere = File::open("/proc/self/status").unwrap();
    assert_eq!(crate::lies_in_memory(&elsewhere.into()), Ok(false));
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let directory = NamedSegmentOptions { path: "/dev/shm".into(), ..Place::new("none").wish() };
    let error = NamedSegment::open(&directory).unwrap_err();
    assert!(matches!(error, NamedSegmentError::System { call: "open", .. }), "{error}");
    let nowhere = NamedSegmentOptions { path: "/nowhere/file".into(), ..directory.clone() };
    let error = NamedSegment::open(&nowhere).unwrap_err();
    assert!(matches!(error, NamedSegmentError::System { call: "open", .. }), "{error}");
    let device = NamedSegmentOptions { path: "/dev/null".into(), ..directory };
    let error = NamedSegment::open(&device).unwrap_err();
    assert!(!error.ends_with_a_reset(), "{error}");
}

#[test]
fn a_file_of_an_earlier_run_or_one_that_was_never_whole_begins_empty() {
    let place = Place::new("earlier");
    drop(place.open().unwrap());
    let mut header = vec![0; 4096];
    File::open(&place.0).unwrap().read_exact_at(&mut header, 0).unwrap();
    // Makes the file look like that of another boot, with a valid checksum.
    let boot = 5 * 8;
    header[boot] ^= 1;
    let (fixed, checksum) = (8..8 + (8 + 64) * 8, 8 + (8 + 64) * 8);
    let sum = u64::from(crate::crc32c(&header[fixed]));
    header[checksum..checksum + 8].copy_from_slice(&sum.to_ne_bytes());
    place.write(0, &header);
    let old = std::fs::metadata(&place.0).unwrap().ino();
    assert_eq!(place.open().unwrap().past, SegmentOrigin::EarlierRun);
    assert_ne!(std::fs::metadata(&place.0).unwrap().ino(), old, "that one was not cut short");
    assert_eq!(place.open().unwrap().past, SegmentOrigin::Kept);

    for len in [8, 4096, 1 << 20] {
        std::fs::remove_file(&place.0).unwrap();
        place.write(len - 1, &[0]);
        place.write(0, b"mooncNEW");
        assert_eq!(place.open().unwrap().past, SegmentOrigin::None, "{len}");
        assert_eq!(place.open().unwrap().past, SegmentOrigin::Kept);
    }
    std::fs::remove_file(&place.0).unwrap();
    place.write(0, b"");
    assert_eq!(place.open().unwrap().past, SegmentOrigin::None, "an empty file is as good as none");
}

#[test]
fn a_file_in_use_is_refused_even_to_a_reset_and_waited_for() {
    let place = Place::new("used");
    let held = place.open().unwrap();
    let reset = NamedSegmentOptions { reset: true, ..place.wish() };
    let in_use = |error| matches!(error, NamedSegmentError::InUse { .. });
    assert!(in_use(NamedSegment::open(&reset).unwrap_err()));
    let file = File::options().read(true).write(true).open(&place.0).unwrap();
    let lent = Region::of_file(file.into(), 0, 4096).unwrap_err();
    assert_eq!(lent, MapError::Taken, "no other way to lend it either");
    let patient = NamedSegmentOptions { patience: Duration::from_secs(20), ..place.wish() };
    let opened = std::thread::spawn(move || NamedSegment::open(&patient).unwrap().past);
    std::thread::sleep(Duration::from_millis(50));
    drop(held);
    assert_eq!(opened.join().unwrap(), SegmentOrigin::Kept);
}

#[test]
fn a_segment_in_use_by_a_process_that_died_is_not_kept_by_its_children() {
    let place = Place::new("forked");
    let named = place.open().unwrap();
    named.memory.slice(1000, 5).unwrap().write_from(b"bytes");
    let child = Child::make();
    assert!(!child.maps("-forked"));
    drop(named);
    let again = place.open().expect("nobody has it");
    assert_eq!(again.memory.slice(1000, 5).unwrap().to_vec(), b"bytes");
    drop(again);

    let file = || File::options().read(true).write(true).open(&place.0).unwrap().into();
    let lent = Region::of_file(file(), 0, 4096).unwrap();
    let other = Child::make();
    drop(lent);
    Region::of_file(file(), 0, 4096).expect("nobody has it");
    drop((child, other));
}

#[test]
fn rows_that_something_else_has_changed_are_seen() {
    let place = Place::new("changed");
    let spoil = |at: u64, value: u64| {
        let made = place.reset();
        let mut record = Record::empty(made.words, SegmentId(1));
        for len in [300, 20] {
            record.put(&row(len)).unwrap();
        }
        drop((record, made.memory));
        place.write(at, &value.to_ne_bytes());
        let words = place.open().unwrap().words;
        match recover(words) {
            Err(NamedSegmentError::Damaged { what }) => what,
            Err(error) => panic!("{error}"),
            Ok((_, found)) => panic!("{} rows", found.len()),
        }
    };
    let slot = |slot: u64, word: u64| 4096 + slot * 256 + word * 8;
    let ends = "a row ends in the wrong slot";
    let checksum = "the checksum of a row is not that of its bytes";
    assert_eq!(spoil(slot(0, 2), 0), checksum);
    assert_eq!(spoil(slot(1, 2), 0), checksum);
    assert_eq!(spoil(slot(0, 1), u64::MAX), ends);
    assert_eq!(spoil(slot(0, 1), 1 << 40), ends);
    assert_eq!(spoil(slot(2, 1), 1), ends);
    assert_eq!(spoil(slot(0, 1), 0), ends, "a row that goes on in itself");
    assert_eq!(spoil(slot(0, 1), 2), checksum);
    assert_eq!(spoil(slot(1, 0), 1 << 31), "two rows share a slot");
    assert_eq!(spoil(slot(2, 0), 20), "a slot has no mark that was ever stored");
    assert_eq!(spoil(129 * 8, u64::MAX), "the number of rows is out of bounds");
}

#[test]
fn a_segment_that_there_is_no_room_for_leaves_no_file() {
    let place = Place::new("room");
    let mut wish = place.wish();
    wish.len = 1 << 45;
    let error = NamedSegment::open(&wish).unwrap_err();
    assert!(matches!(error, NamedSegmentError::Map(MapError::System { .. })), "{error}");
    assert!(!place.0.exists());
    wish.len = u64::MAX;
    assert!(matches!(NamedSegment::open(&wish).unwrap_err(), NamedSegmentError::Map(_)));
    wish.len = 0;
    assert_eq!(NamedSegment::open(&wish).unwrap_err(), NamedSegmentError::Map(MapError::Empty));
    assert!(!place.0.exists());
}
