//! Protection domains and registrations.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use super::{null, unbox};
use crate::abi::*;
use crate::state::{MrState, state};

/// Of the host.
const PAGE: u64 = 4096;

api! {
    fn ibv_alloc_pd(context: *mut Context) -> *mut Pd {
        let mut state = state();
        let Some(opened) = state.contexts.get_mut(&context.addr()) else {
            return null(libc::EINVAL);
        };
        opened.users += 1;
        let pd = Box::into_raw(Box::new(Pd { context, handle: 0 }));
        state.pds.insert(pd.addr(), 0);
        pd
    }

    fn ibv_dealloc_pd(pd: *mut Pd) -> c_int {
        let mut state = state();
        if state.pds.get(&pd.addr()) != Some(&0) {
            return libc::EBUSY;
        }
        state.pds.remove(&pd.addr());
        // SAFETY: it was allocated, and nobody else gives it back.
        unsafe {
            let context = (*pd).context.addr();
            state.contexts.get_mut(&context).expect("it has this user").users -= 1;
            unbox(pd)
        }
    }

    fn ibv_reg_mr_iova2(
        pd: *mut Pd, address: *mut c_void, len: usize, iova: u64, access: u32
    ) -> *mut Mr {
        let start = address.expose_provenance() as u64;
        if iova != start {
            return null(libc::EINVAL);
        }
        let peermem = state().peermem;
        let memory = match is_accessible(address) {
            true => Ok((start as usize, None)),
            // Memory of a device is reached by its address only with the help of its driver.
            false => match peermem.and_then(|peermem| peermem(start, len)) {
                Some((file, offset)) => map(&file, offset, len),
                None => Err(libc::EFAULT),
            },
        };
        match memory {
            Ok(memory) => register(pd, (start, len), access, memory),
            Err(number) => null(number),
        }
    }

    fn ibv_reg_dmabuf_mr(
        pd: *mut Pd, offset: u64, len: usize, iova: u64, file: c_int, access: c_int
    ) -> *mut Mr {
        if state().lacks_dmabuf {
            return null(libc::EOPNOTSUPP);
        }
        if offset % PAGE != iova % PAGE {
            return null(libc::EINVAL);
        }
        // SAFETY: the caller has it open during the call.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        match map(file, offset, len) {
            Ok(memory) => register(pd, (iova, len), access.cast_unsigned(), memory),
            Err(number) => null(number),
        }
    }

    fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
        let mut state = state();
        // SAFETY: the registration lives, and nobody else gives it back.
        let (key, pd) = unsafe { ((*mr).handle, (*mr).pd.addr()) };
        let Some(registered) = state.mrs.remove(&key) else { return libc::EINVAL };
        unmap(registered.mapping);
        state.give_back_key(key);
        *state.pds.get_mut(&pd).expect("it has this user") -= 1;
        // SAFETY: as above.
        unsafe { unbox(mr) }
    }
}

/// Where the bytes of memory are in this process, and the mapping that was made for them.
type Memory = (usize, Option<(usize, usize)>);

/// Adds a registration of memory that requests call by the address `start`.
fn register(
    pd: *mut Pd,
    (start, len): (u64, usize),
    access: u32,
    (bytes, mapping): Memory,
) -> *mut Mr {
    let mut state = state();
    let is_writable = access & 1 != 0 || access & 2 == 0;
    let locked: u64 = state.mrs.values().map(|mr| mr.len).sum();
    let is_too_much = state.lockable.is_some_and(|most| locked + len as u64 > most);
    let number = match len == 0 || !is_writable || !state.pds.contains_key(&pd.addr()) {
        true => libc::EINVAL,
        false if is_too_much => libc::ENOMEM,
        false => 0,
    };
    if number != 0 {
        unmap(mapping);
        return null(number);
    }
    *state.pds.get_mut(&pd.addr()).expect("it is there") += 1;
    let key = state.new_key();
    let mr = MrState { pd: pd.addr(), address: start, len: len as u64, access, bytes, mapping };
    state.mrs.insert(key, mr);
    // SAFETY: the domain lives.
    let context = unsafe { (*pd).context };
    let addr = ptr::with_exposed_provenance_mut(start as usize);
    let mr = Mr { context, pd, addr, length: len, handle: key, lkey: key, rkey: key };
    Box::into_raw(Box::new(mr))
}

/// Whether the processor can read the byte at an address.
fn is_accessible(address: *mut c_void) -> bool {
    let mut byte = 0_u8;
    let into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let from = libc::iovec { iov_base: address, iov_len: 1 };
    // SAFETY: the kernel checks the address, and writes one byte.
    unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const into, 1, &raw const from, 1, 0) == 1
    }
}

/// Maps `len` bytes of a file from `offset` on.
fn map(file: impl AsFd, offset: u64, len: usize) -> Result<Memory, c_int> {
    let within = (offset % PAGE) as usize;
    let (all, access) = (len + within, libc::PROT_READ | libc::PROT_WRITE);
    let (file, from) = (file.as_fd().as_raw_fd(), (offset - within as u64).cast_signed());
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe { libc::mmap(ptr::null_mut(), all, access, libc::MAP_SHARED, file, from) };
    match start == libc::MAP_FAILED {
        true => Err(libc::EINVAL),
        false => Ok((start.expose_provenance() + within, Some((start.addr(), all)))),
    }
}

fn unmap(mapping: Option<(usize, usize)>) {
    if let Some((start, len)) = mapping {
        // SAFETY: exactly a mapping of `map`, whose registration is gone.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(start), len) };
    }
}
