//! Files on a mounted 3FS, with a test double of its library. The tests of a process share the double's state, so they
//! run in turn.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, RawSlice};
use mooncake_usrbio::testing::{find_with, use_library};
use mooncake_usrbio::{BUFFER_BYTES, LANES, Mount, MountError, RegisteredFile};
use mooncake_usrbio_double::{control, symbol};

static TURN: Mutex<()> = Mutex::new(());

/// A folder that passes for a mounted 3FS, removed on drop.
struct Scene {
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Scene {
    fn new(test: &str) -> Scene {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        use_library(symbol);
        control::move_at_most(usize::MAX);
        let folder =
            std::env::temp_dir().join(format!("mooncake-usrbio-{test}-{}", std::process::id()));
        fs::create_dir_all(folder.join("cluster")).expect("it can be made");
        control::mount(&folder);
        Scene { folder, _turn: turn }
    }

    fn mount(&self) -> Arc<Mount> {
        let found = Mount::find(&self.folder.join("cluster")).expect("it can be used");
        Arc::new(found.expect("it is on 3FS"))
    }

    fn file(&self, name: &str) -> File {
        let path = self.folder.join("cluster").join(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options.open(path).expect("it can be made")
    }

    fn open(&self, mount: &Arc<Mount>, name: &str) -> RegisteredFile {
        RegisteredFile::new(self.file(name), mount).expect("it is on 3FS")
    }

    /// How many buffers and rings are registered.
    fn links(&self) -> usize {
        fs::read_dir(self.folder.join("3fs-virt/iovs")).expect("it is there").count()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The folder may not exist.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Bytes generated from the offset and the seed.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 257 + seed * 7) as u8).collect()
}

/// Cuts memory into slices of these lengths.
fn cut<'m>(memory: RawSlice<'m>, lens: &[usize]) -> Vec<RawSlice<'m>> {
    let mut from = 0;
    let mut slices = Vec::new();
    for &len in lens {
        slices.push(memory.sub(from, len));
        from += len;
    }
    slices
}

#[test]
fn bytes_go_to_and_from_a_file_however_their_slices_lie() {
    let scene = Scene::new("slices");
    let mount = scene.mount();
    let file = scene.open(&mount, "a");
    let lens = [1, 4095, 0, 5_000_000, 100_000, 9 << 20, 3];
    let total: usize = lens.iter().sum();
    let source = Buffer::from_vec(pattern(total, 1));
    file.write(&cut(source.raw(), &lens), 4096).expect("there is room");
    file.sync().expect("it can be synced");
    let bytes = fs::read(scene.folder.join("cluster/a")).expect("it is there");
    assert!(bytes[4096..] == pattern(total, 1));
    let target = Buffer::zeroed(total);
    let backwards: Vec<usize> = lens.iter().rev().copied().collect();
    file.read(&cut(target.raw(), &backwards), 4096).expect("it is there");
    assert!(target.into_vec() == pattern(total, 1));
    file.read(&[], 1 << 40).expect("nothing is asked for");
    assert_eq!(control::buffer_bytes(), BUFFER_BYTES);
}

#[test]
fn many_threads_share_the_lanes_and_never_each_others_bytes() {
    let scene = Scene::new("threads");
    let mount = scene.mount();
    thread::scope(|scope| {
        for number in 0..3 * LANES {
            let (scene, mount) = (&scene, &mount);
            scope.spawn(move || {
                let file = scene.open(mount, &format!("{number}"));
                for round in 0..8 {
                    let len = 1 + (number * 7_919 + round * 104_729) % 200_000;
                    let source = Buffer::from_vec(pattern(len, number + round));
                    file.write(&[source.raw()], 512).expect("there is room");
                    let target = Buffer::zeroed(len);
                    file.read(&[target.raw()], 512).expect("it is there");
                    assert!(target.into_vec() == source.into_vec(), "file {number}");
                }
            });
        }
    });
    assert_eq!((control::rings(), control::registered()), (2 * LANES, 0));
    drop(mount);
    assert_eq!((control::rings(), control::buffer_bytes(), scene.links()), (0, 0, 0));
}

#[test]
fn requests_that_move_few_bytes_go_on_where_they_ended() {
    let scene = Scene::new("short");
    let mount = scene.mount();
    let file = scene.open(&mount, "a");
    control::move_at_most(1000);
    let source = Buffer::from_vec(pattern(10_500, 3));
    file.write(&[source.raw()], 0).expect("there is room");
    let target = Buffer::zeroed(10_500);
    file.read(&cut(target.raw(), &[700, 9_000, 800]), 0).expect("it is there");
    assert!(target.into_vec() == pattern(10_500, 3));
    // The file ends within the requested range, or before it.
    let beyond = Buffer::zeroed(10_501);
    for at in [0, 10_500, 1 << 40] {
        let error = file.read(&[beyond.raw()], at).expect_err("there is less");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{at}");
    }
    control::move_at_most(0);
    let error = file.write(&[source.raw()], 0).expect_err("nothing is written");
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}

#[test]
fn the_error_of_each_call_is_the_error_of_the_transfer_and_the_next_goes_well() {
    let scene = Scene::new("errors");
    let mount = scene.mount();
    let file = scene.open(&mount, "a");
    let memory = Buffer::from_vec(pattern(5_000_000, 1));
    file.write(&[memory.raw()], 0).expect("there is room");
    for (call, before, error) in [
        ("hf3fs_prep_io", 0, libc::EAGAIN),
        ("hf3fs_prep_io", 1, libc::EBADF),
        ("hf3fs_submit_ios", 0, libc::EINVAL),
        ("hf3fs_wait_for_ios", 1, libc::EINTR),
        ("read", 0, libc::EIO),
        ("read", 1, libc::EREMOTEIO),
        ("write", 0, libc::ENOSPC),
        ("write", 1, libc::EDQUOT),
    ] {
        control::fail(call, before, error);
        let failed = if call == "write" {
            file.write(&[memory.raw()], 0)
        } else {
            file.read(&[memory.raw()], 0)
        };
        let failed = failed.expect_err("a call failed").raw_os_error();
        assert_eq!(failed, Some(error), "{call} after {before}");
        file.read(&[memory.raw()], 0).expect("it is there");
        assert!(memory.raw().to_vec() == pattern(5_000_000, 1), "{call} after {before}");
    }
    control::fail("write", 0, libc::ENOSPC);
    let full = file.write(&[memory.raw()], 0).expect_err("it is full");
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    control::fail("hf3fs_reg_fd", 0, libc::EMFILE);
    let refused = RegisteredFile::new(scene.file("b"), &mount).expect_err("it is refused");
    assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
}

#[test]
fn a_mount_that_cannot_be_made_leaves_nothing_behind() {
    let scene = Scene::new("unmade");
    let calls = [("hf3fs_iovcreate", 0), ("hf3fs_iorcreate", 0), ("hf3fs_iorcreate", 5)];
    for (call, before) in calls {
        control::fail(call, before, libc::ENOMEM);
        let error = Mount::find(&scene.folder).expect_err("a call failed").to_string();
        assert!(error.starts_with(call), "{error}");
        assert_eq!((control::rings(), control::buffer_bytes(), scene.links()), (0, 0, 0));
    }
    assert!(Mount::find(&scene.folder).expect("it can be used").is_some());
}

#[test]
fn what_is_not_on_3fs_is_left_alone() {
    let scene = Scene::new("other");
    let asked = || control::calls("hf3fs_extract_mount_point");
    let before = asked();
    let other = scene.folder.with_extension("other");
    fs::create_dir_all(&other).expect("it can be made");
    assert!(Mount::find(&other).expect("it is no error").is_none());
    assert_eq!(asked(), before, "the library is not asked");
    // A folder with the files of 3FS that is not on 3FS.
    fs::create_dir_all(other.join("3fs-virt")).expect("it can be made");
    assert!(matches!(Mount::find(&other), Err(MountError::NotOn3fs)));
    fs::remove_dir_all(&other).expect("it is there");
    assert!(matches!(Mount::find(&other), Err(MountError::Path(_))));
    let mount = scene.mount();
    let outside = File::open("/proc/self/exe").expect("it is there");
    let refused = RegisteredFile::new(outside, &mount).expect_err("it is not on 3FS");
    assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
    let name = "x".repeat(250);
    let long = scene.folder.join(&name);
    fs::create_dir_all(&long).expect("it can be made");
    control::mount(&long);
    assert!(matches!(Mount::find(Path::new(&long)), Err(MountError::PathTooLong)));
}

/// The daemon may carry out a request after its timeout. By then its memory must not belong to another request.
#[test]
fn a_request_that_was_not_answered_never_touches_the_bytes_of_others() {
    let scene = Scene::new("unanswered");
    let limit = Duration::from_millis(20);
    let found = find_with(&scene.folder, limit).expect("it can be used");
    let mount = Arc::new(found.expect("it is on 3FS"));
    let (stuck, file) = (scene.open(&mount, "stuck"), scene.open(&mount, "file"));
    let raw = scene.file("stuck");
    raw.write_all_at(&[7; 4096], 0).expect("there is room");
    let (source, target) = (Buffer::from_vec(pattern(4096, 5)), Buffer::zeroed(4096));
    file.write(&[source.raw()], 0).expect("there is room");
    for _ in 1..LANES {
        control::leave_unanswered(1);
        let error = stuck.read(&[target.raw()], 0).expect_err("nothing answers");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
    // One lane remains, and it serves every request.
    for _ in 0..10 {
        file.read(&[target.raw()], 0).expect("it is there");
        control::answer_late();
        assert!(target.raw().to_vec() == pattern(4096, 5));
    }
    control::leave_unanswered(1);
    stuck.read(&[target.raw()], 0).expect_err("nothing answers");
    let begun = Instant::now();
    let error = file.read(&[target.raw()], 0).expect_err("no lane is left");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(begun.elapsed() < limit, "it does not wait");
    control::answer_late();
}
