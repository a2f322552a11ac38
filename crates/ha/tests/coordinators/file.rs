use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mooncake_ha::{Coordinator, CoordinatorError, Options};

use crate::world::{CLUSTER, TTL, TestFolder, World, at, candidate, follow, lead, options};

/// A folder, and the locks of the claims that tests made there.
struct Folder {
    folder: TestFolder,
    locks: Mutex<Vec<File>>,
}

impl Folder {
    fn new() -> Self {
        Self { folder: TestFolder::new(), locks: Mutex::default() }
    }

    fn address(&self) -> String {
        format!("file://{}", self.folder.0.display())
    }

    fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.0.join(CLUSTER);
        fs::create_dir_all(&folder).expect("a folder");
        folder.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("").as_path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> =
            names.map(|name| name.into_string().expect("plain text")).collect();
        names.sort();
        names
    }
}

impl World for Folder {
    fn connect_to(&self, cluster_id: &str) -> Coordinator {
        at(&self.address(), cluster_id)
    }

    fn spoil_leader(&self, bytes: &[u8]) {
        let path = self.path(&format!("leader.{:020}", 9));
        fs::write(&path, bytes).expect("a file");
        let file = File::open(&path).expect("a file");
        let mut locks = self.locks.lock().expect("no panic");
        locks.clear();
        file.try_lock().expect("nobody has it");
        locks.push(file);
    }

    fn spoil_record(&self, bytes: &[u8]) {
        let names = self.names();
        let record = names.iter().rfind(|name| name.starts_with("record.")).expect("a record");
        fs::write(self.path(record), bytes).expect("a file");
    }

    fn reach(&self) -> (String, Options) {
        (self.address(), options(CLUSTER))
    }
}

crate::contract!(Folder::new());
crate::contract_of_processes!(Folder::new());

#[test]
fn a_leader_that_died_is_followed_without_waiting_for_its_lease() {
    let world = Folder::new();
    let began = Instant::now();
    drop(lead(&world.connect(), "a", Duration::ZERO));
    drop(lead(&world.connect(), "b", Duration::ZERO));
    assert!(began.elapsed() < TTL, "{:?}", began.elapsed());
}

#[test]
fn a_new_leader_tidies_the_folder() {
    let world = Folder::new();
    for name in ["a", "b", "c"] {
        drop(lead(&world.connect(), name, Duration::ZERO));
    }
    fs::write(world.path("new.leftover"), "of a crash").expect("a file");
    let last = lead(&world.connect(), "d", Duration::ZERO);
    let number = format!("{:020}", last.epoch().0);
    assert_eq!(world.names(), [format!("leader.{number}"), format!("record.{number}")]);
}

#[test]
fn a_folder_that_lost_its_records_is_an_error() {
    let world = Folder::new();
    let first = lead(&world.connect(), "a", Duration::ZERO);
    fs::remove_file(world.path(&format!("record.{:020}", first.epoch().0))).expect("a record");
    drop(first);
    let refused = world.connect().campaign(&candidate("b"), Duration::ZERO);
    assert!(matches!(refused, Err(CoordinatorError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_claim_that_came_to_nothing_is_passed_over() {
    let world = Folder::new();
    let first = lead(&world.connect(), "a", Duration::ZERO);
    first.apply(&[mooncake_ha::Change::Join(mooncake_types::SegmentId(1))]).expect("it leads");
    let next = first.epoch().0 + 1_000_000;
    drop(first);
    fs::write(world.path(&format!("leader.{next:020}")), "").expect("a file");
    let second = lead(&world.connect(), "b", Duration::ZERO);
    assert_eq!(second.epoch().0, next + 1);
    assert_eq!(second.record().members().len(), 1);
}

#[test]
fn a_leader_of_another_host_is_an_error() {
    let world = Folder::new();
    let leadership = lead(&world.connect(), "a", Duration::ZERO);
    let path = world.path(&format!("leader.{:020}", leadership.epoch().0));
    let text = fs::read_to_string(&path).expect("a claim");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    fs::write(&path, text.replace(boot.trim_end(), &"0".repeat(36))).expect("a file");
    let seen = world.connect().leader();
    assert!(matches!(seen, Err(CoordinatorError::Corrupt { .. })), "{seen:?}");
}

#[test]
fn a_number_that_is_no_epoch_is_an_error() {
    let world = Folder::new();
    fs::write(world.path(&format!("leader.{}", u64::MAX)), "").expect("a file");
    let refused = world.connect().campaign(&candidate("a"), Duration::ZERO);
    assert!(matches!(refused, Err(CoordinatorError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = TestFolder::new();
    let file = folder.0.join("a file");
    fs::write(&file, "").expect("a file");
    let coordinator = at(&format!("file://{}", file.display()), CLUSTER);
    match coordinator.campaign(&candidate("a"), Duration::ZERO) {
        Err(CoordinatorError::Unavailable { place, .. }) => {
            assert_eq!(place, file.join(CLUSTER).display().to_string());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_that_nobody_followed_goes_on_after_its_lease() {
    let world = Folder::new();
    let leadership = lead(&world.connect(), "a", Duration::ZERO);
    crate::wait::wait_for("the end of the lease", TTL * 2, || {
        (!leadership.is_valid() && world.connect().leader() == Ok(None)).then_some(())
    });
    leadership.renew().expect("nobody else leads");
    assert!(leadership.is_valid());
    drop(leadership);
    follow(&world.connect(), "b", TTL);
}
