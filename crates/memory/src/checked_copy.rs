use std::io;
use std::sync::Once;

use crate::other_process::{copy_from_process, read_process, vectors};
use crate::{Buffer, RawSlice, process_id};

/// Copies `src` to `dst` through the kernel, so that unmapped memory is an error instead of a crash. It takes about a
/// microsecond more than a plain copy, and is meant for transfers of a few KiB.
///
/// Where a sandbox forbids the system call, this is a plain copy without any check, and one line of the log says so.
///
/// # Errors
/// The kernel's error: `EFAULT` for unmapped memory. A part may have been copied.
///
/// # Panics
/// If the lengths differ.
pub fn copy_checked(src: RawSlice, dst: RawSlice) -> io::Result<()> {
    assert_eq!(src.len(), dst.len(), "copy between slices of different lengths");
    match copy_from_process(own_process(), src.as_ptr().addr() as u64, dst) {
        Err(error) if is_forbidden(&error) => {
            say_unchecked();
            src.copy_to(dst);
            Ok(())
        }
        copied => copied,
    }
}

/// Whether [`copy_checked`] checks memory: false where a sandbox forbids the system call for that.
#[must_use]
pub fn copies_are_checked() -> bool {
    let (src, dst) = (Buffer::zeroed(1), Buffer::zeroed(1));
    let copied = copy_from_process(own_process(), src.raw().as_ptr().addr() as u64, dst.raw());
    !copied.is_err_and(|error| is_forbidden(&error))
}

/// What it means that [`copies_are_checked`] is false.
pub const UNCHECKED: &str = "a sandbox forbids process_vm_readv: memory that callers name is copied unchecked, and a bad address \
     ends the process instead of the call";

fn say_unchecked() {
    static SAID: Once = Once::new();
    SAID.call_once(|| tracing::warn!("{UNCHECKED}"));
}

/// Appends the bytes of all `slices` to `out`, many slices with one system call. Checks them as [`copy_checked`] does.
///
/// # Errors
/// The kernel's error, `EFAULT` for unmapped memory, or [`io::ErrorKind::OutOfMemory`]. A part may have been appended.
pub fn append_checked(slices: &[RawSlice], out: &mut Vec<u8>) -> io::Result<()> {
    for slices in slices.chunks(MAX_VECTORS) {
        let total: usize = slices.iter().map(RawSlice::len).sum();
        out.try_reserve(total).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the vector's spare capacity, which this function uses exclusively during the copy.
        let room = unsafe { RawSlice::new(out.spare_capacity_mut().as_mut_ptr().cast(), total) };
        copy_pieces_checked(PieceDirection::Gather, slices, room)?;
        // SAFETY: the copy has just initialised all of these bytes behind the vector's end.
        unsafe { out.set_len(out.len() + total) }
    }
    Ok(())
}

/// Direction of a copy between pieces and one contiguous range.
#[derive(Clone, Copy)]
pub(crate) enum PieceDirection {
    Gather,
    Scatter,
}

/// Copies between `pieces` and `whole`, many pieces with one system call. Checks them as [`copy_checked`] does.
///
/// # Errors
/// As [`copy_checked`].
///
/// # Panics
/// If the lengths differ.
pub(crate) fn copy_pieces_checked(
    way: PieceDirection,
    pieces: &[RawSlice],
    whole: RawSlice,
) -> io::Result<()> {
    let mut from = 0;
    for pieces in pieces.chunks(MAX_VECTORS) {
        let part = whole.sub(from, pieces.iter().map(RawSlice::len).sum());
        if !copy_at_once(way, pieces, part)? {
            let mut at = 0;
            for &piece in pieces {
                let there = part.sub(at, piece.len());
                match way {
                    PieceDirection::Gather => copy_checked(piece, there)?,
                    PieceDirection::Scatter => copy_checked(there, piece)?,
                }
                at += piece.len();
            }
        }
        from += part.len();
    }
    assert_eq!(from, whole.len(), "copy between slices of different lengths");
    Ok(())
}

/// Most pieces that one system call takes (`IOV_MAX`).
const MAX_VECTORS: usize = 1024;

/// Copies all pieces with one system call. Returns false if the kernel copied only a part, or a sandbox forbids the
/// call.
fn copy_at_once(way: PieceDirection, pieces: &[RawSlice], whole: RawSlice) -> io::Result<bool> {
    let copied = match way {
        PieceDirection::Gather => read_process(own_process(), vectors(pieces), &[whole]),
        PieceDirection::Scatter => read_process(own_process(), vectors(&[whole]), pieces),
    };
    match copied {
        Err(error) if is_forbidden(&error) => Ok(false),
        copied => Ok(copied? == whole.len()),
    }
}

fn own_process() -> i32 {
    process_id().cast_signed()
}

/// Whether a sandbox forbids the system call. Callers then make a plain copy, which checks nothing.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied() {
        for len in [0, 1, 100, 70_000] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 3 + i / 256) as u8).collect();
            let (src, dst) = (Buffer::from_vec(bytes), Buffer::zeroed(len));
            copy_checked(src.raw(), dst.raw()).unwrap();
            assert_eq!(dst.as_slice(), src.as_slice());
        }
    }

    /// Forbids a system call to this process, and to none of its parents: it fails with `EPERM`.
    fn forbid(call: libc::c_long) {
        let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            // The number of the call is the first word of what the filter sees.
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
            statement(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the kernel copies the filter; both calls change what this thread may ask of it, and no memory.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
        }
    }

    #[test]
    fn a_sandbox_that_takes_the_check_away_is_noticed() {
        assert!(copies_are_checked());
        // A filter is a thread's own, and ends with it.
        let checked = std::thread::spawn(|| {
            forbid(libc::SYS_process_vm_readv);
            let (src, dst) = (Buffer::from_vec(b"bytes".to_vec()), Buffer::zeroed(5));
            copy_checked(src.raw(), dst.raw()).expect("it is a plain copy");
            assert_eq!(dst.as_slice(), b"bytes");
            copies_are_checked()
        });
        assert!(!checked.join().expect("no panic"));
        assert!(copies_are_checked());
    }

    #[test]
    fn slices_are_appended_in_order() {
        let bytes: Vec<u8> = (0..3000_usize).map(|i| (i * 5 + i / 255) as u8).collect();
        let buffer = Buffer::from_vec(bytes.clone());
        for step in [1, 7, 3000] {
            let slices: Vec<RawSlice> = (0..3000)
                .step_by(step)
                .map(|at| buffer.raw().sub(at, step.min(3000 - at)))
                .collect();
            let mut out = b"head".to_vec();
            append_checked(&slices, &mut out).unwrap();
            assert_eq!(out, [b"head".as_slice(), &bytes].concat(), "steps of {step}");
        }
        let mut out = Vec::new();
        append_checked(&[RawSlice::EMPTY], &mut out).unwrap();
        append_checked(&[], &mut out).unwrap();
        assert_eq!(out, b"");
    }

    #[test]
    fn a_slice_that_is_not_there_is_an_error_among_others() {
        let buffer = Buffer::zeroed(64);
        // SAFETY: only the kernel is given this address, and it answers EFAULT.
        let nowhere = unsafe { RawSlice::new(std::ptr::without_provenance_mut(16), 64) };
        let error = append_checked(&[buffer.raw(), nowhere], &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn more_than_there_is_memory_for_is_an_error() {
        let region = crate::Region::anonymous(1 << 46).unwrap();
        let error = append_checked(&[region.whole()], &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let buffer = Buffer::zeroed(64);
        // SAFETY: only the kernel is given this address, and it answers EFAULT.
        let nowhere = unsafe { RawSlice::new(std::ptr::without_provenance_mut(16), 64) };
        for (src, dst) in [(nowhere, buffer.raw()), (buffer.raw(), nowhere)] {
            assert_eq!(copy_checked(src, dst).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
    }
}
