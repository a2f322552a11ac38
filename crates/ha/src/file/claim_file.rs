use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mooncake_memory::{Private, owner_only};
use rustix::time::{ClockId, clock_gettime};

use crate::CoordinatorError;
use crate::holder::{Holder, MAX_HOLDER_BYTES};

/// The file begins with the end of the lease, twice, so that a reader notices a change under way. The boot id of the
/// host follows, then the holder.
const STAMP_BYTES: usize = 2 * (DIGITS + 1);
const DIGITS: usize = 20;

/// How often a stamp is read while it is being changed.
const READS: usize = 100;

/// The `leader.N` of a leadership of this process. Its lock ends with it, even if child processes live on.
#[derive(Debug)]
pub(super) struct ClaimFile {
    file: Private<File>,
    path: PathBuf,
}

/// The state of a `leader.N`, as other processes see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// Its leader died or resigned.
    Gone,
    /// Its leader holds the lock, but its lease is over.
    Over(Holder),
    /// Its leader leads, for this long if it does not renew the lease.
    Leads(Holder, Duration),
}

impl ClaimFile {
    /// Creates a locked file under a name that no other process uses. It is no claim yet.
    pub(super) fn prepare(path: &Path, holder: &Holder, ttl: Duration) -> io::Result<Self> {
        let file = Private::open_file(owner_only().write(true).create_new(true), path)?;
        file.try_lock()?;
        let text = format!("{}{}\n{}", stamp(ttl), boot_id()?, holder.encode());
        file.write_all_at(text.as_bytes(), 0)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Makes it a claim by linking it under the claim's name. False if the name is taken.
    pub(super) fn link(&mut self, path: &Path) -> io::Result<bool> {
        let linked = fs::hard_link(&self.path, path);
        let _ = fs::remove_file(&self.path);
        match linked {
            Ok(()) => {
                path.clone_into(&mut self.path);
                Ok(true)
            }
            // Not found: a new leader tidied the folder meanwhile.
            Err(error)
                if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the end of a lease that begins now.
    pub(super) fn stamp(&self, ttl: Duration) -> io::Result<()> {
        self.file.write_all_at(stamp(ttl).as_bytes(), 0)
    }

    /// Removes the claim, if it still exists.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Reads the state of a claim.
pub(super) fn read_state(path: &Path) -> Result<ClaimState, CoordinatorError> {
    let failed = |error: io::Error| CoordinatorError::unavailable(path.display(), error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ClaimState::Gone),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => return Ok(ClaimState::Gone),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let corrupt = |reason: String| CoordinatorError::corrupt(path.display(), reason);
    let own_boot = boot_id().map_err(failed)?;
    for _ in 0..READS {
        let text = read_start(&file).map_err(failed)?;
        let Some((until_ns, rest)) = parse_stamp(&text).map_err(corrupt)? else { continue };
        let holder =
            rest.strip_prefix(own_boot.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let holder = holder.ok_or_else(|| {
            corrupt("it is held by another host, or since another boot of this one".to_owned())
        })?;
        let holder = Holder::decode(holder).map_err(corrupt)?;
        let left_ns = until_ns.saturating_sub(now_ns());
        return Ok(match left_ns {
            0 => ClaimState::Over(holder),
            _ => ClaimState::Leads(holder, Duration::from_nanos(left_ns)),
        });
    }
    Err(CoordinatorError::unavailable(path.display(), "its two times never agreed"))
}

fn read_start(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; STAMP_BYTES + MAX_HOLDER_BYTES];
    let len = file.read_at(&mut bytes, 0)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// The end of the lease in nanoseconds, and the bytes behind it; `None` if it is being changed.
fn parse_stamp(text: &[u8]) -> Result<Option<(u64, &[u8])>, String> {
    let (stamp, rest) = text.split_at_checked(STAMP_BYTES).ok_or("it is too short for a claim")?;
    let (first, second) = stamp.split_at(STAMP_BYTES / 2);
    if first != second {
        return Ok(None);
    }
    let digits = first.strip_suffix(b" ").and_then(|digits| str::from_utf8(digits).ok());
    let until_ns = digits.and_then(|digits| digits.parse().ok());
    let until_ns = until_ns.ok_or("it does not begin with the end of a lease")?;
    Ok(Some((until_ns, rest)))
}

fn stamp(ttl: Duration) -> String {
    let until_ns = now_ns().saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX));
    format!("{until_ns:0DIGITS$} {until_ns:0DIGITS$} ")
}

/// The clock of `Instant`, which all processes of a host share.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(now.tv_nsec).unwrap_or_default()
}

fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_whole_or_again() {
        let time = "00000000000000000042 ";
        let other = "00000000000000000043 ";
        for (text, expected) in [
            (format!("{time}{time}rest"), Ok(Some((42, &b"rest"[..])))),
            (format!("{time}{other}rest"), Ok(None)),
            (format!("{time}{}", &time[1..]), Err("it is too short for a claim".to_owned())),
            ("x".repeat(50), Err("it does not begin with the end of a lease".to_owned())),
        ] {
            assert_eq!(parse_stamp(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(stamp(Duration::from_secs(1)).len(), STAMP_BYTES);
    }
}
