//! Protection domains and registrations.

use std::ffi::{c_int, c_void};

use super::{null, unbox};
use crate::abi::*;
use crate::state::{MrState, state};

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
        let mut state = state();
        let start = address.expose_provenance() as u64;
        let is_writable = access & 1 != 0 || access & 2 == 0;
        if len == 0 || iova != start || !is_writable {
            return null(libc::EINVAL);
        }
        let locked: u64 = state.mrs.values().map(|mr| mr.len).sum();
        if state.lockable.is_some_and(|most| locked + len as u64 > most) {
            return null(libc::ENOMEM);
        }
        let Some(users) = state.pds.get_mut(&pd.addr()) else { return null(libc::EINVAL) };
        *users += 1;
        let key = state.new_key();
        let mr = MrState { pd: pd.addr(), address: start, len: len as u64, access };
        state.mrs.insert(key, mr);
        // SAFETY: the domain lives.
        let context = unsafe { (*pd).context };
        let mr = Mr { context, pd, addr: address, length: len, handle: key, lkey: key, rkey: key };
        Box::into_raw(Box::new(mr))
    }

    fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
        let mut state = state();
        // SAFETY: the registration lives, and nobody else gives it back.
        let (key, pd) = unsafe { ((*mr).handle, (*mr).pd.addr()) };
        if state.mrs.remove(&key).is_none() {
            return libc::EINVAL;
        }
        state.give_back_key(key);
        *state.pds.get_mut(&pd).expect("it has this user") -= 1;
        // SAFETY: as above.
        unsafe { unbox(mr) }
    }
}
