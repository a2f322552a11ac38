use std::io;

use crate::RawSlice;
use crate::system_call::retry;

/// Copies bytes of another process to `dst`, through the kernel, which checks both sides.
///
/// A pid may be reused after its process has ended: after the copy, the caller must check that the process has not
/// ended.
///
/// # Errors
/// `EPERM` if this process may not read that one, `ESRCH` if it has ended, `EFAULT` if either side is not mapped. A
/// part may have been copied.
pub fn copy_from_process(pid: i32, address: u64, dst: RawSlice) -> io::Result<()> {
    let mut done = 0;
    while done < dst.len() {
        let rest = dst.sub(done, dst.len() - done);
        let address = usize::try_from(address).ok().and_then(|address| address.checked_add(done));
        let address = address.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
        let (iov_base, iov_len) = (std::ptr::without_provenance_mut(address), rest.len());
        match read_process(pid, &[libc::iovec { iov_base, iov_len }], &[rest])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

/// Copies pieces of another process's memory to pieces of this one. Returns how many bytes the kernel copied, which
/// may be fewer than all. Unmapped pieces on either side are an error.
pub(crate) fn read_process(pid: i32, from: &[libc::iovec], to: &[RawSlice]) -> io::Result<usize> {
    let to = vectors(to);
    retry(|| {
        // SAFETY: the kernel only reads the sources, which need not lie in this process. The caller of `RawSlice::new`
        // promised that `to` may be written. The kernel checks the mappings on both sides.
        unsafe {
            let (to_count, from_count) = (to.len() as libc::c_ulong, from.len() as libc::c_ulong);
            libc::process_vm_readv(pid, to.as_ptr(), to_count, from.as_ptr(), from_count, 0)
        }
    })
}

/// The slices as the kernel's `iovec`s.
pub(crate) fn vectors<'a>(slices: &'a [RawSlice<'_>]) -> &'a [libc::iovec] {
    // SAFETY: a RawSlice has the layout of an iovec, and the result borrows the slices.
    unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn bytes_of_a_process_are_copied() {
        let bytes: Vec<u8> = (0..100_000_usize).map(|i| (i * 7 + i / 251) as u8).collect();
        let (there, here) = (Buffer::from_vec(bytes), Buffer::zeroed(99_000));
        let pid = i32::try_from(std::process::id()).unwrap();
        let address = there.raw().as_ptr().expose_provenance() as u64 + 500;
        copy_from_process(pid, address, here.raw()).unwrap();
        assert_eq!(here.as_slice(), &there.as_slice()[500..99_500]);
    }

    #[test]
    fn what_cannot_be_copied_is_an_error() {
        let here = Buffer::zeroed(64);
        let own = i32::try_from(std::process::id()).unwrap();
        let errno = |pid, address, dst: RawSlice| {
            copy_from_process(pid, address, dst).unwrap_err().raw_os_error()
        };
        assert_eq!(errno(own, 16, here.raw()), Some(libc::EFAULT));
        assert_eq!(errno(own, u64::MAX, here.raw()), Some(libc::EFAULT));
        let address = here.raw().as_ptr().expose_provenance() as u64;
        assert_eq!(errno(own, address, RawSlice::unmapped(64)), Some(libc::EFAULT));
        assert_eq!(errno(i32::MAX, address, here.raw()), Some(libc::ESRCH));
    }
}
