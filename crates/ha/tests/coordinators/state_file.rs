use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mooncake_ha::{Change, CoordinatorError, Ended, Leadership, Member, StateFile, StateFileError};
use mooncake_types::{Epoch, SegmentId, Version};

use crate::world::{CLUSTER, TestFolder};

fn open(path: &std::path::Path) -> Leadership {
    StateFile::lead(path, CLUSTER).expect("a state file")
}

fn place() -> (TestFolder, PathBuf) {
    let folder = TestFolder::new();
    let path = folder.0.join("made/by it/membership.json");
    (folder, path)
}

/// Since when segments are behind in these tests.
const SINCE: Version = Version { epoch: Epoch(6), counter: 7 };

#[test]
fn the_record_outlives_a_single_master() {
    let (_folder, path) = place();
    let first = open(&path);
    assert!(first.record().is_fresh());
    assert_eq!(first.record().epoch(), first.epoch());
    let (one, two) = (SegmentId(1), SegmentId(u128::MAX));
    first
        .apply(&[Change::Join(one), Change::Join(two), Change::MarkBehind(two, SINCE)])
        .expect("a file");
    let epoch = first.epoch();
    drop(first);

    let second = open(&path);
    let member = |segment, behind| Member { segment, behind, is_disk: false, is_drained: false };
    let expected = [member(one, None), member(two, Some(SINCE))];
    assert_eq!(second.record().members().collect::<Vec<_>>(), expected);
    assert!(!second.record().is_fresh());
    assert!(second.epoch() > epoch);
}

#[test]
fn epochs_grow_though_the_clock_is_behind() {
    let (_folder, path) = place();
    let first = open(&path);
    let ahead = Epoch(first.epoch().0 + (1 << 31));
    first.apply(&[Change::RaiseEpoch(ahead)]).expect("a file");
    drop(first);
    for round in 1..4 {
        assert_eq!(open(&path).epoch(), Epoch(ahead.0 + round));
    }
}

/// Every later leader would raise its epoch above the recorded one.
#[test]
fn an_epoch_from_nowhere_does_not_go_into_the_record() {
    let (_folder, path) = place();
    let first = open(&path);
    let member = Change::Join(SegmentId(1));
    for wild in [first.epoch().0 + (1 << 33), (1 << 61) - 1, u64::MAX] {
        first.apply(&[Change::RaiseEpoch(Epoch(wild)), member]).expect("a file");
        assert_eq!(first.record().epoch(), first.epoch(), "{wild}");
    }
    assert_eq!(first.record().members().len(), 1, "the rest is written");
    let epoch = first.epoch();
    drop(first);
    assert!(open(&path).epoch().0 < epoch.0 + (1 << 32));
}

#[test]
fn a_single_master_leads_for_ever() {
    let (_folder, path) = place();
    let leadership = open(&path);
    assert!(leadership.valid_until() > Instant::now() + Duration::from_secs(1 << 30));
    assert_eq!(leadership.renew(), Ok(leadership.valid_until()));
    assert_eq!(leadership.keep(&true.into()), Ended::Stopped);
    assert_eq!(leadership.resign(), Ok(()));
    assert!(!leadership.is_valid());
}

#[test]
fn two_masters_do_not_share_a_file() {
    let (_folder, path) = place();
    let first = open(&path);
    let refused = StateFile::lead(&path, CLUSTER).map(|leadership| leadership.epoch());
    assert_eq!(refused, Err(StateFileError::InUse { path: path.clone() }));
    drop(first);
    open(&path);
}

#[test]
fn a_file_that_is_not_its_own_is_refused_and_left_alone() {
    let (_folder, path) = place();
    drop(open(&path));
    let good = fs::read_to_string(&path).expect("a file");
    for (text, reason) in [
        (String::new(), "it is no membership record"),
        ("garbage".to_owned(), "it is no membership record"),
        (good[..good.len() / 2].to_owned(), "it is no membership record"),
        (good.replace("\"layout\":1", "\"layout\":7"), "its layout is 7"),
        (good.replace(CLUSTER, "someone-else"), "its checksum is wrong"),
        ("x".repeat(9 << 20), "it is larger than"),
    ] {
        fs::write(&path, &text).expect("a file");
        match StateFile::lead(&path, CLUSTER) {
            Err(error @ StateFileError::Corrupt { .. }) => {
                let said = error.to_string();
                assert!(said.contains(reason) && said.contains("membership.json"), "{said}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).expect("a file"), text);
    }
}

#[test]
fn the_file_of_another_cluster_is_refused() {
    let (_folder, path) = place();
    drop(open(&path));
    match StateFile::lead(&path, "another") {
        Err(StateFileError::Corrupt { reason, .. }) => {
            assert_eq!(reason, format!("it is that of the cluster {CLUSTER:?}"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = TestFolder::new();
    fs::write(folder.0.join("file"), "").expect("a file");
    fs::create_dir_all(folder.0.join("folder")).expect("a folder");
    for path in [folder.0.join("file/membership.json"), folder.0.join("folder")] {
        match StateFile::lead(&path, CLUSTER) {
            Err(error @ StateFileError::Unusable { .. }) => {
                assert!(error.to_string().contains(path.to_str().expect("plain")), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_change_that_was_not_written_did_not_happen() {
    let (_folder, path) = place();
    let leadership = open(&path);
    // A folder with the name of the temporary file makes every write fail.
    let in_the_way = path.with_file_name("membership.json.new");
    fs::create_dir(&in_the_way).expect("a folder");
    let failed = leadership.apply(&[Change::Join(SegmentId(1))]);
    assert!(matches!(failed, Err(CoordinatorError::Unavailable { .. })), "{failed:?}");
    assert_eq!(leadership.record().members().len(), 0);
    fs::remove_dir(&in_the_way).expect("a folder");
    leadership.apply(&[Change::Join(SegmentId(2))]).expect("a file");
    drop(leadership);
    assert!(open(&path).record().members().map(|m| m.segment).eq([SegmentId(2)]));
}

#[test]
fn a_crash_in_the_middle_of_a_write_leaves_the_record_of_before() {
    let (_folder, path) = place();
    let first = open(&path);
    first.apply(&[Change::Join(SegmentId(1))]).expect("a file");
    drop(first);
    let text = fs::read(&path).expect("a file");
    fs::write(path.with_file_name("membership.json.new"), &text[..text.len() / 2]).expect("a file");
    assert!(open(&path).record().members().map(|m| m.segment).eq([SegmentId(1)]));
}

#[test]
fn a_leadership_without_a_file_keeps_its_record_in_memory() {
    let leadership = Leadership::unrecorded();
    leadership.apply(&[Change::Join(SegmentId(1))]).expect("memory");
    assert!(leadership.is_valid() && leadership.record().is_fresh());
    assert_eq!(leadership.record().members().len(), 1);
}
