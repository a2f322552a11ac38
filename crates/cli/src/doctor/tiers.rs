//! The tiers of this host below memory: its disk, the directory that all hosts share, and the object store.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mooncake_client::OffloadConfig;
use mooncake_tier::{BucketProbe, Cloud, FileAccess, FolderProbe, probe_bucket, probe_folder};
use mooncake_types::{ByteSize, SharedDirectory};

/// For how long a probe writes and reads, roughly.
const LIMIT: Duration = Duration::from_secs(2);
/// How long the probe of one tier may take before the tier counts as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// The text about all tiers, and whether all of them work.
pub(super) fn describe(
    offload: &OffloadConfig,
    shared: Option<&SharedDirectory>,
    cluster_id: &str,
) -> (String, bool) {
    let disk = offload.is_enabled.then(|| {
        let hint = "make it writable for this user, or name another folder (MOONCAKE_OFFLOAD_FILE_STORAGE_PATH)";
        describe_folder("disk", &offload.path, false, hint)
    });
    let shared = shared.map(|shared| {
        let hint = "mount it where the master's --root_fs_dir says, writable for this user";
        describe_folder("shared directory", Path::new(&shared.path), true, hint)
    });
    let url = offload.object_store_url.as_deref();
    let store = url.map(|url| describe_bucket(url, cluster_id));
    let all: Vec<(String, bool)> = [disk, shared, store].into_iter().flatten().collect();
    if all.is_empty() {
        let none = "\nno disk, shared directory or object store is used here: MOONCAKE_OFFLOAD_ENABLED, \
                    MOONCAKE_OBJECT_STORE_URL and the master's --root_fs_dir name none\n";
        return (none.to_owned(), true);
    }
    let is_well = all.iter().all(|(_, is_well)| *is_well);
    (all.into_iter().map(|(text, _)| text).collect(), is_well)
}

fn describe_folder(kind: &str, path: &Path, is_shared: bool, hint: &str) -> (String, bool) {
    let head = format!("\n{kind} {}\n", path.display());
    let found = match folder_of(path, is_shared) {
        Ok(folder) => within(PATIENCE, move || probe_folder(&folder, is_shared, LIMIT)),
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => (head + &written_folder(&found), true),
        Err(error) => (head + &unusable(&error, remedy(&error, hint)), false),
    }
}

/// What to do about a folder that cannot be used: a full disk is writable.
fn remedy<'a>(error: &io::Error, hint: &'a str) -> &'a str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "the disk is full: free some space there, or name another folder"
        }
        io::ErrorKind::QuotaExceeded => {
            "the quota of this user is used up: raise it, or free some space there"
        }
        _ => hint,
    }
}

/// The folder to probe: the closest one that exists. For a shared directory it must be the directory or its parent,
/// since the directory must be mounted.
fn folder_of(path: &Path, is_shared: bool) -> io::Result<PathBuf> {
    let may_be = path.ancestors().take(if is_shared { 2 } else { usize::MAX });
    let mut there = may_be.filter(|folder| folder.is_dir());
    there.next().map(Path::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn written_folder(found: &FolderProbe) -> String {
    let FolderProbe { total_bytes, free_bytes, access, written, read, sync } = found;
    let access = match access {
        FileAccess::Direct => "past the system's cache (O_DIRECT)".to_owned(),
        FileAccess::Cached => {
            "by way of the system's cache: this filesystem has no O_DIRECT".to_owned()
        }
        FileAccess::Usrbio => "by the rings of 3FS (USRBIO)".to_owned(),
        FileAccess::WithoutUsrbio(reason) => {
            format!("without USRBIO, though it is on 3FS: {reason}")
        }
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  room        {} free of {}\n  access      {access}",
        ByteSize(*free_bytes),
        ByteSize(*total_bytes)
    );
    let _ = writeln!(
        text,
        "  speed       {:.2} GB/s written, {:.2} GB/s read, {:.1} ms for the sync",
        written / 1e9,
        read / 1e9,
        ms(*sync)
    );
    text
}

fn describe_bucket(url: &str, cluster_id: &str) -> (String, bool) {
    let (head, owned, cluster) =
        (format!("\nobject store {url}\n"), url.to_owned(), cluster_id.to_owned());
    let found = within(PATIENCE, move || {
        let cloud = Cloud::open(&owned).map_err(io::Error::other)?;
        probe_bucket(&cloud.below(&cluster))
    });
    match found {
        Ok(BucketProbe { put, get }) => {
            let text =
                format!("  speed       1 MiB put in {:.1} ms, got in {:.1} ms\n", ms(put), ms(get));
            (head + &text, true)
        }
        Err(error) => {
            let hint = "look at the bucket, and at the keys, region and address in the environment (AWS_*, GOOGLE_*, AZURE_*)";
            (head + &unusable(&error, hint), false)
        }
    }
}

fn unusable(error: &io::Error, hint: &str) -> String {
    format!("  unusable    {error}\n  what to do  {hint}\n")
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The result of `work`, or an error if it takes too long. The thread of a hanging call is left behind.
fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("mooncake-probe".to_owned()).spawn(move || {
        // The send fails only if the caller has timed out.
        let _ = sender.send(work());
    })?;
    receiver.recv_timeout(patience).unwrap_or_else(|_| {
        let reason = format!("it does not answer within {} s", patience.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_described_by_its_room_its_access_and_its_speed() {
        let found = FolderProbe {
            total_bytes: 512 << 30,
            free_bytes: 128 << 30,
            access: FileAccess::Direct,
            written: 1.254e9,
            read: 2.5e9,
            sync: Duration::from_micros(1_250),
        };
        let expected = "  room        128 GB free of 512 GB
  access      past the system's cache (O_DIRECT)
  speed       1.25 GB/s written, 2.50 GB/s read, 1.2 ms for the sync\n";
        assert_eq!(written_folder(&found), expected);
        let access = FileAccess::WithoutUsrbio("no library".to_owned());
        let text = written_folder(&FolderProbe { access, ..found });
        assert!(text.contains("without USRBIO, though it is on 3FS: no library"), "{text}");
    }

    #[test]
    fn what_cannot_be_used_says_what_to_do() {
        let offload = OffloadConfig {
            is_enabled: true,
            path: "/proc/self/nothing".into(),
            object_store_url: Some("http://bucket".to_owned()),
            ..OffloadConfig::default()
        };
        let path = "/no/such/mount/cluster".to_owned();
        let shared = SharedDirectory { path, most_bytes: 0, evicts: true };
        let (text, is_well) = describe(&offload, Some(&shared), "cluster");
        assert!(!is_well, "{text}");
        for line in [
            "disk /proc/self/nothing\n  unusable    ",
            "name another folder",
            "shared directory /no/such/mount/cluster\n  unusable    ",
            "mount it where",
            "object store http://bucket\n  unusable    'http://bucket' is none of s3://",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let (text, is_well) = describe(&OffloadConfig::default(), None, "cluster");
        assert!(is_well && text.contains("no disk, shared directory or object store"), "{text}");
    }

    #[test]
    fn a_full_disk_is_not_to_be_made_writable() {
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, "the disk is full"),
            (io::ErrorKind::QuotaExceeded, "the quota"),
            (io::ErrorKind::PermissionDenied, "make it writable"),
        ] {
            let text = remedy(&kind.into(), "make it writable");
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn what_does_not_answer_is_given_up() {
        let hangs = || {
            thread::sleep(Duration::from_secs(60));
            Ok(())
        };
        let error = within(Duration::from_millis(20), hangs).expect_err("it hangs");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(within(PATIENCE, || Ok(7)).expect("it answers"), 7);
    }
}
