//! Segments that are mounted and unmounted while a store is open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mooncake_client::{AllocatedSegment, ErrorCode, SegmentId, Store, StoreConfig};
use mooncake_meta::Meta;
use mooncake_types::{Epoch, SegmentState};

use crate::master::{self, Master};
use crate::rig::{config, content, eventually, get, open, put};
use crate::scene::{mappings, turn};

const MIB: u64 = 1 << 20;
const NOW: Duration = Duration::ZERO;
const NONE: [u64; 0] = [];

/// A file that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &str, len: u64) -> Self {
        let name = format!("mooncake-mount-{}-{len}", std::process::id());
        let path = Path::new(folder).join(name);
        std::fs::write(&path, vec![0; len as usize]).expect("the folder can be written to");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The lengths of the segments in which the master grants ranges.
fn granted(master: &Master) -> Vec<u64> {
    let segments = master.with_meta(|meta| meta.segments());
    let of_state = segments.iter().filter(|segment| segment.state == SegmentState::Ok);
    let mut lens: Vec<u64> = of_state.map(|segment| segment.capacity).collect();
    lens.sort_unstable();
    lens
}

#[test]
fn a_file_is_lent_and_holds_what_is_put() {
    let _turn = turn();
    for folder in ["/dev/shm", "/tmp"] {
        let master = Master::start();
        let node = open(&master, 0);
        let client = open(&master, 0);
        assert_eq!(put(&client, "early", 1000, 1), Err(ErrorCode::NoAvailableHandle));
        let file = Scratch::new(folder, 3 * MIB);
        let id = node.mount_segment(&file.0, 2 * MIB, MIB, "cpu:0").expect("it is lent");
        assert_eq!(granted(&master), [2 * MIB]);
        assert_eq!(put(&client, "key", 100_000, 1), Ok(()));
        assert_eq!(get(&client, "key"), Ok(content("key", 100_000)));
        assert_eq!(get(&node, "key"), Ok(content("key", 100_000)));
        let written = std::fs::read(&file.0).expect("it is there");
        assert_eq!(written[MIB as usize..][..100_000], content("key", 100_000));
        assert!(written[..MIB as usize].iter().all(|&byte| byte == 0), "before the range");
        assert_eq!(node.unmount_segment(&[id], NOW), Ok(()));
        assert_eq!(granted(&master), NONE);
        assert_eq!(get(&client, "key"), Err(ErrorCode::ObjectNotFound));
        eventually("the file is let go", || {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
            !maps.contains("mooncake-mount")
        });
    }
}

#[test]
fn what_cannot_be_lent_is_refused_and_changes_nothing() {
    let _turn = turn();
    let master = Master::start();
    let node = open(&master, MIB);
    let file = Scratch::new("/dev/shm", MIB);
    let id = node.mount_segment(&file.0, MIB / 2, 0, "").expect("it is lent");
    let other = open(&master, 0);
    let invalid = ErrorCode::InvalidParams;
    for (store, path, len, offset, code) in [
        (&node, "/dev/shm/there-is-no-such-file", MIB, 0, ErrorCode::FileNotFound),
        (&node, "/dev/shm", MIB, 0, ErrorCode::FileOpenFail),
        (&node, "/dev/null", MIB, 0, invalid),
        (&node, file.0.to_str().expect("a name"), MIB + 1, 0, invalid),
        (&node, file.0.to_str().expect("a name"), MIB, 4096, invalid),
        (&node, file.0.to_str().expect("a name"), MIB / 2, 100, invalid),
        (&node, file.0.to_str().expect("a name"), MIB, u64::MAX - 4095, invalid),
        (&node, file.0.to_str().expect("a name"), 0, 0, invalid),
        (&node, file.0.to_str().expect("a name"), u64::MAX, 0, invalid),
        (&node, file.0.to_str().expect("a name"), MIB, 0, ErrorCode::SegmentAlreadyExists),
        (&other, file.0.to_str().expect("a name"), 4096, 4096, ErrorCode::SegmentAlreadyExists),
    ] {
        let mounted = store.mount_segment(Path::new(path), len, offset, "");
        assert_eq!(mounted, Err(code), "{len} bytes of {path} from {offset}");
    }
    for len in [0, 1023, u64::MAX] {
        assert_eq!(node.allocate_and_mount_segment(len, ""), Err(invalid), "{len}");
    }
    assert_eq!(granted(&master), [MIB / 2, MIB]);

    let not_found = Err(ErrorCode::SegmentNotFound);
    let allocated = node.allocate_and_mount_segment(MIB, "").expect("there is memory");
    assert_eq!(allocated.len_bytes, 4 * MIB);
    let AllocatedSegment { id: allocated, .. } = allocated;
    assert_eq!(node.unmount_segment(&[id, SegmentId(5)], NOW), not_found);
    assert_eq!(node.unmount_segment(&[id, allocated], NOW), not_found);
    assert_eq!(node.unmount_and_free_segment(&[id], NOW), not_found);
    assert_eq!(other.unmount_segment(&[id], NOW), not_found);
    assert_eq!(granted(&master), [MIB / 2, MIB, 4 * MIB], "nothing was taken back");
    assert_eq!(node.unmount_segment(&[], NOW), Ok(()));
    assert_eq!(node.unmount_segment(&[id, id], NOW), Ok(()));
    assert_eq!(node.unmount_segment(&[id], NOW), not_found);
    assert_eq!(node.unmount_and_free_segment(&[allocated], NOW), Ok(()));
    assert_eq!(granted(&master), [MIB]);
    eventually("the whole file is free again", || {
        let mounted = node.mount_segment(&file.0, MIB, 0, "");
        assert!(matches!(mounted, Ok(_) | Err(ErrorCode::SegmentAlreadyExists)), "{mounted:?}");
        mounted.is_ok()
    });
    node.close();
    let closed = ErrorCode::UnavailableInCurrentStatus;
    assert_eq!(node.mount_segment(&file.0, MIB, 0, ""), Err(closed));
    assert_eq!(node.unmount_segment(&[id], NOW), Err(closed));
}

#[test]
fn a_segment_that_is_leaving_is_read_and_not_written_until_its_time_is_over() {
    let _turn = turn();
    let master = Master::start();
    let node = open(&master, 0);
    let client = open(&master, 0);
    let before = mappings(std::process::id());
    let id = node.allocate_and_mount_segment(4 * MIB, "").expect("there is memory").id;
    assert_eq!(put(&client, "key", 100_000, 1), Ok(()));
    assert_eq!(node.unmount_and_free_segment(&[id], Duration::from_secs(2)), Ok(()));
    assert_eq!(granted(&master), NONE);
    assert_eq!(put(&client, "later", 1000, 1), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(get(&client, "key"), Ok(content("key", 100_000)));
    assert_eq!(mappings(std::process::id()), before + 2, "the node's and the client's");
    eventually("the object is gone", || {
        let now = get(&client, "key");
        assert!(matches!(now, Ok(_) | Err(ErrorCode::ObjectNotFound)), "{now:?}");
        now.is_err()
    });
    eventually("the memory is gone", || mappings(std::process::id()) == before);
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn what_was_lent_at_run_time_is_mounted_again_after_a_restart_of_the_master() {
    let _turn = turn();
    let master = Master::start();
    let node = open(&master, MIB);
    let id = node.allocate_and_mount_segment(4 * MIB, "").expect("there is memory").id;
    let gone = node.allocate_and_mount_segment(8 * MIB, "").expect("there is memory").id;
    assert_eq!(node.unmount_and_free_segment(&[gone], NOW), Ok(()));
    let master = master.restart(|_| Meta::new(master::config(), Epoch(9)));
    eventually("both are back", || granted(&master) == [MIB, 4 * MIB]);
    assert_eq!(put(&node, "key", 2_000_000, 1), Ok(()));
    assert_eq!(get(&node, "key"), Ok(content("key", 2_000_000)));
    assert_eq!(node.unmount_and_free_segment(&[id], NOW), Ok(()));
    assert_eq!(granted(&master), [MIB]);
    node.close();
    eventually("all are gone", || granted(&master).is_empty());
}

#[test]
fn without_a_master_nothing_is_lent_and_what_is_taken_back_is_served_no_longer() {
    let _turn = turn();
    let mut master = Master::start();
    let config = StoreConfig {
        rpc_timeout: Duration::from_millis(300),
        rpc_connect_timeout: Duration::from_millis(300),
        ..config(&master, MIB)
    };
    let node = Store::open(config).expect("the master is there");
    let before = mappings(std::process::id());
    let id = node.allocate_and_mount_segment(4 * MIB, "").expect("there is memory").id;
    master.set_mute(true);
    let timed_out = node.allocate_and_mount_segment(8 * MIB, "").map(|it| it.id);
    assert_eq!(timed_out, Err(ErrorCode::RpcTimeout));
    master.stop();
    assert_eq!(node.unmount_and_free_segment(&[id], NOW), Err(ErrorCode::RpcFail));
    assert_eq!(mappings(std::process::id()), before, "what is served no longer is given back");
    let master = master.restart(|_| Meta::new(master::config(), Epoch(9)));
    eventually("the rest is lent to the new master", || granted(&master) == [MIB]);
    assert_eq!(node.unmount_and_free_segment(&[id], NOW), Ok(()), "once more is no fault");
    assert_eq!(granted(&master), [MIB]);
}

#[test]
fn transfers_in_a_segment_that_is_taken_back_end_in_an_answer() {
    let _turn = turn();
    let master = Master::start();
    let node = open(&master, 64 * MIB);
    let client = open(&master, 0);
    let before = mappings(std::process::id());
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            for turn in 0..60 {
                let key = format!("key {turn}");
                // An object may have been lost with its segment, but its bytes are never wrong.
                if put(&client, &key, 700_000, 1).is_ok() {
                    match get(&client, &key) {
                        Ok(bytes) => assert_eq!(bytes, content(&key, 700_000)),
                        Err(code) => assert!(
                            matches!(code, ErrorCode::ObjectNotFound | ErrorCode::TransferFail),
                            "{code}"
                        ),
                    }
                }
            }
        });
        while !working.is_finished() {
            let id = node.allocate_and_mount_segment(32 * MIB, "").expect("there is memory").id;
            assert_eq!(node.unmount_and_free_segment(&[id], NOW), Ok(()));
        }
    });
    // The client may keep the node's first segment mapped.
    eventually("the memory is gone", || mappings(std::process::id()) <= before + 1);
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}
