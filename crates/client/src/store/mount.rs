//! Segments that are lent and taken back while the store is open.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use mooncake_memory::{MapError, Region};
use mooncake_node::Segment;
use mooncake_types::{ErrorCode, Medium, MountOutcome, Reply, Request, SegmentId, limits};
use rustix::fs::OFlags;

use super::Store;
use super::closed::CLOSED;
use super::mounts::{AllocatedSegment, Origin};
use super::segment_warnings;
use super::session::Session;
use crate::heartbeat::LendingChange;
use crate::membership::Lent;
use crate::random::random;

/// Most segments that one store lends besides those with which it was opened.
const MAX_MOUNTS: usize = 256;

/// The size of an allocated segment is rounded up to a multiple of this, in bytes.
const ALLOCATED_STEP: u64 = 4 << 20;

/// Longest wait of an unmount for transfers to release the memory, so that the same file can be lent again at once.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

impl Store {
    /// Whether other hosts may reach what this store lends one-sided, and it what they lend: by NICs, or by libfabric.
    #[must_use]
    pub fn is_one_sided(&self) -> bool {
        self.session().is_some_and(|session| session.metrics.has_device())
    }

    /// Lends `len_bytes` of a file, or of an object in `/dev/shm`, from `offset` on. Its filesystem reserves room for
    /// all of it at once. The pool writes its objects to the file, and overwrites what was there before. The file
    /// must not be truncated while it is lent: touching bytes that are gone ends the process. `location` says where
    /// the memory lies, without effect.
    ///
    /// # Errors
    /// - [`ErrorCode::FileNotFound`] or [`ErrorCode::FileOpenFail`] if the file cannot be opened;
    /// - [`ErrorCode::InternalError`] if its filesystem has no room for it;
    /// - [`ErrorCode::InvalidParams`] if it is no regular file or too short, `offset` is not at a page, or no segment
    ///   has that length;
    /// - [`ErrorCode::SegmentAlreadyExists`] if any process lends a part of the range already;
    /// - [`ErrorCode::UnavailableInCurrentStatus`] if the store is closed or lends 256 segments already;
    /// - the code of the master, if it does not take the segment.
    pub fn mount_segment(
        &self,
        path: &Path,
        len_bytes: u64,
        offset: u64,
        location: &str,
    ) -> Result<SegmentId, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        check_len(len_bytes)?;
        let file = open_file(path).map_err(|error| {
            tracing::warn!(path = %path.display(), %error, "the file to be lent cannot be opened");
            match error.kind() {
                io::ErrorKind::NotFound => ErrorCode::FileNotFound,
                _ => ErrorCode::FileOpenFail,
            }
        })?;
        let file = OwnedFd::from(file);
        if segment_warnings::check_place(&file, path) {
            session.check_size(len_bytes);
        }
        let region = Region::of_file(file, offset, len_bytes).map_err(|error| {
            tracing::warn!(path = %path.display(), %error, "the file cannot be lent");
            why_not_mapped(&error)
        })?;
        tracing::debug!(path = %path.display(), location, "a file is lent");
        session.lend(region, Origin::File)
    }

    /// Lends `len_bytes` more memory of this process, rounded up to 4 MiB. `location` says where it should lie,
    /// without effect.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] if no segment has that length;
    /// - [`ErrorCode::InternalError`] if the system does not give this memory;
    /// - [`ErrorCode::UnavailableInCurrentStatus`] if the store is closed or lends 256 segments already;
    /// - the code of the master, if it does not take the segment.
    pub fn allocate_and_mount_segment(
        &self,
        len_bytes: u64,
        location: &str,
    ) -> Result<AllocatedSegment, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        check_len(len_bytes)?;
        let len_bytes = len_bytes.next_multiple_of(ALLOCATED_STEP);
        session.check_size(len_bytes);
        let region = Region::anonymous(len_bytes).map_err(|error| {
            tracing::warn!(len_bytes, %error, "no memory for a segment");
            ErrorCode::InternalError
        })?;
        tracing::debug!(len_bytes, location, "more memory is lent");
        let id = session.lend(region.emptied_at_end(), Origin::Allocation)?;
        Ok(AllocatedSegment { id, len_bytes })
    }

    /// Takes back segments of [`Store::mount_segment`]. They get no new objects, and serve gets for `grace` more.
    /// Then their objects are gone from the pool, and the file is released when the last transfer in it has ended.
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`] if [`Store::mount_segment`] did not lend one of them; then nothing changes.
    /// [`ErrorCode::UnavailableInCurrentStatus`] if the store is closed. Otherwise the code of the master, or
    /// [`ErrorCode::RpcFail`]. With a `grace`, segments that the master did not unmount stay lent. Without, they are
    /// not served any more, and the master is told as soon as it can be reached; they may be unmounted again.
    pub fn unmount_segment(&self, ids: &[SegmentId], grace: Duration) -> Result<(), ErrorCode> {
        self.session().ok_or(CLOSED)?.unmount_all(ids, grace, Origin::File)
    }

    /// As [`Store::unmount_segment`], for segments of [`Store::allocate_and_mount_segment`].
    ///
    /// # Errors
    /// As [`Store::unmount_segment`].
    pub fn unmount_and_free_segment(
        &self,
        ids: &[SegmentId],
        grace: Duration,
    ) -> Result<(), ErrorCode> {
        self.session().ok_or(CLOSED)?.unmount_all(ids, grace, Origin::Allocation)
    }

    /// Takes back the disk that this store lends ([`crate::StoreConfig::offload`]), as [`Store::unmount_segment`].
    /// Its objects are not read any more, and are gone when the disk is lent again.
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`] if it lends none; else as [`Store::unmount_segment`].
    pub fn unmount_disk(&self, grace: Duration) -> Result<(), ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let ids = session.mounts.ids(Origin::Disk);
        if ids.is_empty() {
            return Err(ErrorCode::SegmentNotFound);
        }
        session.unmount_all(&ids, grace, Origin::Disk)
    }
}

fn check_len(len_bytes: u64) -> Result<(), ErrorCode> {
    match (limits::MIN_SEGMENT_BYTES..=limits::MAX_SEGMENT_BYTES).contains(&len_bytes) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidParams),
    }
}

/// Opens a file without blocking, even if it is a pipe or a device.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).open(path)
}

fn why_not_mapped(error: &MapError) -> ErrorCode {
    match error {
        MapError::Taken => ErrorCode::SegmentAlreadyExists,
        MapError::System { .. } => ErrorCode::InternalError,
        _ => ErrorCode::InvalidParams,
    }
}

impl Session {
    /// Warns if this process has less memory than it lends with `more_bytes` more.
    fn check_size(&self, more_bytes: u64) {
        let lent: u64 = self.host.segments().iter().map(|segment| segment.len_bytes()).sum();
        segment_warnings::check_size(lent.saturating_add(more_bytes));
    }

    fn lend(&self, region: Region, origin: Origin) -> Result<SegmentId, ErrorCode> {
        if self.mounts.count_lent_at_run_time() >= MAX_MOUNTS {
            tracing::warn!("no more than {MAX_MOUNTS} segments can be lent at run time");
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        self.serving.start().map_err(|error| {
            tracing::warn!(%error, "the data server cannot be started");
            ErrorCode::InternalError
        })?;
        let id = SegmentId(random().map_err(|_| ErrorCode::InternalError)?);
        let (name, endpoint) = (self.mounts.hostname.clone(), self.mounts.endpoint.clone());
        let (len, run, medium) = (region.len(), self.host.run(), Medium::Memory);
        let domains = self.mounts.domains.clone();
        let lent = Lent { id, name, endpoint, len, run, medium, domains };
        self.host.lend(Segment::new(id, region).verifying(self.mounts.verifies));
        self.mount(&lent)?;
        self.mounts.lock().insert(id, (origin, lent.clone()));
        self.heartbeat.change(vec![LendingChange::Lend(lent)]);
        if let Err(error) = self.upkeep.start_or_wake() {
            // The segment is lent all the same: the caller needs its id to take it back.
            tracing::warn!(%error, "pages are provided when they are first written");
        }
        Ok(id)
    }

    /// Has the master mount a segment that is served already. If it does not, the segment is not served any more.
    fn mount(&self, lent: &Lent) -> Result<(), ErrorCode> {
        let epoch = self.host.epoch();
        let key = self.seals.as_ref().map(|seals| seals.key_for(epoch)).transpose();
        let key = key.map_err(|error| {
            tracing::warn!(%error, "no key for the segment can be drawn");
            self.host.take_back(lent.id);
            ErrorCode::InternalError
        })?;
        let request = lent.mount(epoch, true, key);
        let code = match self.pool.call(&request) {
            Ok(Reply::Mounted(MountOutcome::Ready)) => return Ok(()),
            Ok(Reply::Done(Err(code)) | Reply::Refused(code)) => code,
            // It is unknown whether the master mounted it. Have it unmounted, so that no more objects are placed
            // there.
            Ok(_) => self.give_up_mount(lent.id, ErrorCode::InternalError),
            Err(error) => self.give_up_mount(lent.id, error.code()),
        };
        tracing::warn!(segment = lent.name, bytes = lent.len, %code, "the segment was not mounted");
        self.host.take_back(lent.id);
        Err(code)
    }

    fn give_up_mount(&self, id: SegmentId, code: ErrorCode) -> ErrorCode {
        self.heartbeat.change(vec![LendingChange::Unmount(id)]);
        code
    }

    fn unmount_all(
        &self,
        ids: &[SegmentId],
        grace: Duration,
        origin: Origin,
    ) -> Result<(), ErrorCode> {
        let lent = self.mounts.withdraw(ids, origin)?;
        self.heartbeat.change(lent.iter().map(|lent| LendingChange::TakeBack(lent.id)).collect());
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let results: Vec<_> =
            lent.into_iter().map(|lent| self.unmount_one(lent, grace_ms, origin)).collect();
        results.into_iter().collect()
    }

    /// Unmounts a segment. It is not served after the master has unmounted it: otherwise a cached route could read an
    /// object here that was replaced meanwhile.
    fn unmount_one(&self, lent: Lent, grace_ms: u64, origin: Origin) -> Result<(), ErrorCode> {
        // It may have got another id, if it started empty since it was mounted. From here on it keeps its id.
        let id = self.host.current_id(lent.id).unwrap_or(lent.id);
        self.host.end_promises(&[id]);
        let due = self.clock.now().after_ms(grace_ms);
        let tell = || self.tell_unmount(id, grace_ms);
        let result = match grace_ms {
            0 => self.host.take_back_waiting(id, RELEASE_PATIENCE, tell),
            _ => tell(),
        };
        let change = match result {
            Ok(()) if grace_ms == 0 => return Ok(()),
            Ok(()) => LendingChange::ServeUntil(id, due),
            Err(code) => {
                tracing::warn!(segment = lent.name, %code, "the segment was not unmounted");
                self.mounts.lock().insert(lent.id, (origin, lent.clone()));
                if grace_ms == 0 {
                    LendingChange::Unmount(id)
                } else {
                    LendingChange::Lend(Lent { id, ..lent })
                }
            }
        };
        self.heartbeat.change(vec![change]);
        result
    }

    fn tell_unmount(&self, id: SegmentId, grace_ms: u64) -> Result<(), ErrorCode> {
        match self.pool.call(&Request::UnmountSegment { id, grace_ms, failure: "" }) {
            // A master that forgot the segment has nothing to take back.
            Ok(Reply::Done(Ok(()) | Err(ErrorCode::SegmentNotFound))) => Ok(()),
            Ok(Reply::Done(Err(code)) | Reply::Refused(code)) => {
                // The master still has it. After any other failure it may not, and then no reader may get a promise.
                self.host.resume_promises(&[id]);
                Err(code)
            }
            Ok(_) => Err(ErrorCode::InternalError),
            Err(error) => Err(error.code()),
        }
    }
}
