//! Real folders: which cluster and process own them, and which files they keep.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use mooncake_node::{DiskOptions, DiskSegment, Host, OpenDiskError};
use mooncake_tier::OpenError;
use mooncake_transfer::SegmentHost;
use mooncake_types::{ClientId, Epoch, ErrorCode, SegmentId};

use super::{Piece, check, pieces, put, version};
use crate::shells::options;

const CAPACITY: u64 = 4 << 20;

/// A folder that is removed on drop.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(test: &str) -> Self {
        Self(env::temp_dir().join(format!("mooncake-disk-{test}-{}", process::id())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder may not exist.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn wish(segment: u128) -> DiskOptions {
    options(SegmentId(segment), CAPACITY)
}

fn open(path: &Path, options: DiskOptions) -> Result<DiskSegment, OpenDiskError> {
    DiskSegment::open(path, options)
}

/// A host that lends the disk in this folder.
pub(super) fn lent(path: &Path, options: DiskOptions) -> Host {
    let host = Host::new(Vec::new());
    host.lend_disk(open(path, options).expect("it is ours"));
    host.see_epoch(Epoch(1));
    host
}

fn piece() -> Piece {
    Piece::whole(8192, version(1), 100_000)
}

#[test]
fn the_next_process_lends_the_same_segment_with_all_that_lies_in_it() {
    let scratch = Scratch::new("restart");
    let host = lent(scratch.path(), wish(1));
    put(&host, SegmentId(1), &piece()).expect("it is free");
    host.see_epoch(Epoch(7));
    assert_eq!(
        host.drop_range(&Piece::whole(0, version(2), 1).drop_by(SegmentId(1), leader(7))),
        Ok(())
    );
    drop(host);
    for run in 2..4 {
        let host = lent(scratch.path(), DiskOptions { client: ClientId(9), ..wish(2) });
        let [disk] = &host.disks()[..] else { panic!("one disk was lent") };
        assert_eq!((disk.client(), disk.id(), disk.run()), (ClientId(5), SegmentId(1), run));
        assert_eq!(host.epoch(), Epoch(7), "older leaders are refused");
        assert_eq!(pieces(&host, SegmentId(1)), [piece()]);
        assert_eq!(check(&host, SegmentId(1), &piece()), Ok(()));
        let listed = host.inventory(SegmentId(1), 0, 1).expect("it is here").entries;
        assert_eq!((&*listed[0].key, &*listed[0].attributes), ("key", &[1, 2, 3][..]));
    }
}

fn leader(epoch: u64) -> mooncake_types::Version {
    mooncake_types::Version { epoch: Epoch(epoch), counter: 9 }
}

#[test]
fn what_cannot_be_kept_is_gone_and_the_segment_has_another_id() {
    let other = ClientId(77);
    let same = wish(2);
    for (test, changed, client, run) in [
        ("larger", DiskOptions { capacity_bytes: 2 * CAPACITY, ..same.clone() }, ClientId(5), 2),
        ("smaller", DiskOptions { capacity_bytes: CAPACITY / 2, ..same.clone() }, ClientId(5), 2),
        ("client", DiskOptions { client: other, is_client_settled: true, ..same }, other, 1),
    ] {
        let scratch = Scratch::new(test);
        put(&lent(scratch.path(), wish(1)), SegmentId(1), &piece()).expect("it is free");
        let host = lent(scratch.path(), changed.clone());
        let disks = host.disks();
        let [disk] = &disks[..] else { panic!("one disk was lent") };
        assert_eq!((disk.client(), disk.id(), disk.run()), (client, SegmentId(2), run), "{test}");
        assert_eq!((pieces(&host, SegmentId(2)), disk.usage().records), (vec![], 0), "{test}");
        drop(disks);
        drop(host);
        let again = open(scratch.path(), DiskOptions { segment: SegmentId(3), ..changed });
        assert_eq!(again.expect("it is ours").id(), SegmentId(2), "{test}: it is kept from now on");
    }
}

#[test]
fn a_folder_that_cannot_be_had_is_refused_with_the_reason() {
    let scratch = Scratch::new("refused");
    let path = scratch.path();
    let first = open(path, wish(1)).expect("it is made");
    let refused = |path: &Path, options| open(path, options).err().expect("it cannot be had");
    assert!(matches!(refused(path, wish(2)), OpenDiskError::Log(OpenError::InUse(_))));
    drop(first);
    let foreign = DiskOptions { cluster: "another".to_owned(), ..wish(2) };
    assert!(matches!(refused(path, foreign), OpenDiskError::Log(OpenError::OtherCluster { .. })));
    let small = DiskOptions { capacity_bytes: 1000, ..wish(2) };
    let text = refused(path, small).to_string();
    assert_eq!(text, "a disk of 1000 bytes is too small: 1048576 are the least");
    let none = DiskOptions { staging_bytes: 0, ..wish(2) };
    assert!(matches!(refused(path, none), OpenDiskError::Staging { bytes: 0, .. }));
    let file = path.join("mooncake-disk");
    assert!(
        matches!(refused(&file, wish(2)), OpenDiskError::Log(OpenError::Folder { .. })),
        "a file"
    );
    let unwritable = Path::new("/proc/mooncake-disk");
    assert!(matches!(refused(unwritable, wish(2)), OpenDiskError::Log(OpenError::Folder { .. })));
    let note = path.join("mooncake-disk-note");
    let text = fs::read_to_string(&note).expect("it is there");
    fs::write(&note, text.replace("run 1", "run 2")).expect("it is written");
    assert!(matches!(refused(path, wish(2)), OpenDiskError::DamagedNote));
    fs::write(&note, text).expect("it is written");
    fs::write(&file, "format 1\ncluster cluster\n").expect("it is written");
    assert!(matches!(refused(path, wish(2)), OpenDiskError::Log(OpenError::OtherFormat { .. })));
    fs::write(&file, "format 2\ncluster cluster\n").expect("it is written");
    assert_eq!(open(path, wish(2)).expect("nothing has changed").id(), SegmentId(1));
}

#[test]
fn a_file_that_is_removed_under_a_disk_costs_its_objects_and_nothing_else() {
    let scratch = Scratch::new("removed");
    let host = lent(scratch.path(), wish(1));
    let (first, second) = (piece(), Piece::whole(1 << 20, version(2), 200_000));
    put(&host, SegmentId(1), &first).expect("it is free");
    fs::remove_file(scratch.path().join("0000000000000001.log")).expect("it is there");
    put(&host, SegmentId(1), &second).expect("it is free");
    drop(host);
    let host = lent(scratch.path(), wish(2));
    for lost in [first, second] {
        match pieces(&host, SegmentId(1)).contains(&lost) {
            true => assert_eq!(check(&host, SegmentId(1), &lost), Ok(())),
            false => {
                let missed = check(&host, SegmentId(1), &lost);
                assert_eq!(missed, Err(ErrorCode::ObjectNotFound));
            }
        }
    }
    assert!(!pieces(&host, SegmentId(1)).contains(&first));
    put(&host, SegmentId(1), &Piece::whole(0, version(3), 1000)).expect("it is free");
}

#[test]
fn a_disk_that_is_taken_back_can_be_opened_again_at_once() {
    let scratch = Scratch::new("again");
    for number in 1..4 {
        let host = lent(scratch.path(), wish(1));
        put(&host, SegmentId(1), &Piece::whole(number * 4096, version(number), 4096))
            .expect("it is free");
        let patience = std::time::Duration::from_secs(10);
        host.take_back_waiting(SegmentId(1), patience, || ());
        assert!(host.disks().is_empty());
        let opened = open(scratch.path(), wish(2)).expect("nobody uses it");
        assert_eq!(opened.usage().records as u64, number);
    }
}
