use std::io;

use crate::RawSlice;

/// Copies bytes of another process to `dst`, through the kernel, which checks both sides.
///
/// A number may be given to another process once its own has ended: make sure afterwards that it had not.
///
/// # Errors
/// `EPERM` if this process may not look into that one, `ESRCH` if it has ended, `EFAULT` if a part of either side is not
/// mapped; what was copied before is unspecified.
pub fn copy_from_process(pid: i32, address: u64, dst: RawSlice) -> io::Result<()> {
    let mut done = 0;
    while done < dst.len() {
        let rest = dst.sub(done, dst.len() - done);
        let address = usize::try_from(address).ok().and_then(|address| address.checked_add(done));
        let address = address.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
        let from = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address),
            iov_len: rest.len(),
        };
        let to = libc::iovec { iov_base: rest.as_ptr().cast(), iov_len: rest.len() };
        // SAFETY: the source is no memory of this process, or only read; `dst` may be written, as whoever made it promised
        // (`RawSlice::new`); the kernel checks the mappings of both.
        let count = unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) };
        match count {
            1.. => done += count as usize,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
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
