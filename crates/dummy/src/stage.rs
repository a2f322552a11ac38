//! Places the bytes of a call in shared memory: in place if the caller's memory is shared, otherwise in a range of
//! the dummy's own pool.

use std::sync::Arc;
use std::time::Duration;

use mooncake_device::CopyError;
use mooncake_memory::{HostMemory, PlacedSlice, RawSlice, SliceList, copy_checked};
use mooncake_types::limits::MAX_DUMMY_PIECES;
use mooncake_types::{ErrorCode, Piece};

use super::host_link::{Attachment, HostLink};
use mooncake_client::{CallRange, MemPool};

/// Longest wait for room in the pool.
const PATIENCE: Duration = Duration::from_secs(30);

/// The shared memory of a dummy: its own pool, and memory that its process allocated for sharing.
pub(super) struct Stage<'a> {
    pub(super) pool: Option<&'a MemPool>,
    pub(super) link: &'a HostLink,
    pub(super) attachment: &'a Arc<Attachment>,
}

/// The place of one item's bytes during a call.
pub(super) struct Placed<'a> {
    pub(super) pieces: Vec<Piece>,
    /// The range of the pool through which they pass, unless they are in place.
    pub(super) passing: Option<CallRange<'a>>,
}

/// Why an item has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// There will be room when the calls before it have ended.
    NotNow,
    /// It can have none, for this reason.
    Never(ErrorCode),
}

impl<'a> Stage<'a> {
    /// The pieces of `memory`, if all of it is shared. `None` if it is not, or in too many pieces for a call.
    pub(super) fn in_place(&self, memory: &SliceList) -> Result<Option<Vec<Piece>>, ErrorCode> {
        let mut pieces: Vec<Piece> = Vec::new();
        for slice in memory.pieces().filter(|slice| !slice.is_empty()) {
            let Some(piece) = self.piece(slice)? else { return Ok(None) };
            match pieces.last_mut() {
                Some(last) if last.map == piece.map && last.offset + last.len == piece.offset => {
                    last.len += piece.len;
                }
                _ => pieces.push(piece),
            }
        }
        Ok((pieces.len() <= MAX_DUMMY_PIECES).then_some(pieces))
    }

    /// The piece of one slice, if it is shared.
    pub(super) fn piece(&self, slice: PlacedSlice) -> Result<Option<Piece>, ErrorCode> {
        let Some(slice) = slice.host() else { return Ok(None) };
        let (address, len) = (slice.as_ptr().expose_provenance(), slice.len());
        let in_pool =
            self.pool.and_then(|pool| Some((pool.region(), pool.offset_of(address, len)?)));
        let (region, offset) = match in_pool {
            Some((region, offset)) => (Arc::clone(region), offset),
            None => match HostMemory::of_process().find(address, len) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let map = match self.link.share(self.attachment, &region).map_err(|failure| failure.code())
        {
            Ok(map) => map,
            // The host takes no more regions: the bytes can still pass through the pool.
            Err(ErrorCode::NoAvailableHandle) => return Ok(None),
            Err(code) => return Err(code),
        };
        Ok(Some(Piece { map, offset, len: len as u64 }))
    }

    /// Reserves a range of the pool. With `alone`, no other item of the call holds a range, so that this may wait for
    /// other calls.
    pub(super) fn pass(&self, len: u64, alone: bool) -> Result<Placed<'a>, NoPlace> {
        if len == 0 {
            return Ok(Placed { pieces: Vec::new(), passing: None });
        }
        let no_room = NoPlace::Never(ErrorCode::InvalidParams);
        let pool = self.pool.ok_or(no_room)?;
        self.link.overdue.end_answered(pool);
        let patience = if alone { PATIENCE } else { Duration::ZERO };
        let passing = match pool.pass(len, patience) {
            Some(passing) => passing,
            None if alone => {
                tracing::warn!(len, "the shared memory of the dummy client has no room");
                return Err(no_room);
            }
            None => return Err(NoPlace::NotNow),
        };
        let map = self.link.share(self.attachment, pool.region());
        let map = map.map_err(|failure| NoPlace::Never(failure.code()))?;
        let piece = Piece { map, offset: passing.offset(), len };
        Ok(Placed { pieces: vec![piece], passing: Some(passing) })
    }

    /// Places the bytes of `src` where the host can read them, and copies them for that if need be.
    pub(super) fn put(&self, src: &SliceList, alone: bool) -> Result<Placed<'a>, NoPlace> {
        if let Some(pieces) = self.in_place(src).map_err(NoPlace::Never)? {
            return Ok(Placed { pieces, passing: None });
        }
        let placed = self.pass(src.total_len(), alone)?;
        if let Some(passing) = &placed.passing {
            copy_in(src, passing.slice()).map_err(NoPlace::Never)?;
        }
        Ok(placed)
    }
}

/// Copies to or from memory of the caller. Memory that is not mapped is an error.
pub(super) fn copy(src: RawSlice, dst: RawSlice) -> Result<(), ErrorCode> {
    copy_checked(src, dst).map_err(|error| {
        tracing::warn!(%error, "memory of the caller cannot be used");
        ErrorCode::InvalidParams
    })
}

/// Copies memory of the caller, on the host or on a device, to `dst`.
fn copy_in(src: &SliceList, dst: RawSlice) -> Result<(), ErrorCode> {
    if !src.is_host() {
        return mooncake_device::copy_from_caller(src, dst).map_err(|error| refused(&error));
    }
    let mut from = 0;
    for slice in src.slices() {
        copy(*slice, dst.sub(from, slice.len()))?;
        from += slice.len();
    }
    Ok(())
}

fn refused(error: &CopyError) -> ErrorCode {
    tracing::warn!(%error, "memory of a GPU cannot be used");
    ErrorCode::InvalidParams
}

/// Copies the first bytes of `src` over the first bytes of `dst`, on the host or on a device, as many as the shorter
/// one has.
pub(super) fn copy_out(src: RawSlice, dst: &SliceList) -> Result<(), ErrorCode> {
    if !dst.is_host() {
        let len = dst.total_len().min(src.len() as u64);
        let copied = mooncake_device::copy_to_caller(src.sub(0, len as usize), &dst.part(0, len));
        return copied.map_err(|error| refused(&error));
    }
    let mut from = 0;
    for slice in dst.slices() {
        let len = slice.len().min(src.len() - from);
        copy(src.sub(from, len), slice.sub(0, len))?;
        from += len;
    }
    Ok(())
}
