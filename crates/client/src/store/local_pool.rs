use std::sync::OnceLock;

use super::Store;
use crate::mem_pool::MemPool;

/// The local buffer of a store: mapped when the first range of it is asked for.
pub(super) struct LocalPool {
    len_bytes: u64,
    pool: OnceLock<Option<MemPool>>,
}

impl LocalPool {
    pub(super) fn new(len_bytes: u64) -> Self {
        Self { len_bytes, pool: OnceLock::new() }
    }

    fn mapped(&self) -> Option<&MemPool> {
        let map = || {
            let mapped = (self.len_bytes > 0).then(|| MemPool::map(self.len_bytes))?;
            mapped.inspect_err(|error| tracing::warn!(%error, "no local buffer")).ok()
        };
        self.pool.get_or_init(map).as_ref()
    }
}

impl Store {
    /// The length of the local buffer, in bytes.
    #[must_use]
    pub fn local_buffer_bytes(&self) -> u64 {
        self.local_pool.len_bytes
    }

    /// Hands out memory of the local buffer until [`Store::free_to_mem_pool`] or the drop of this store; gives its address.
    /// `None` if there are not `len_bytes` together, or the store is closed.
    #[must_use]
    pub fn alloc_from_mem_pool(&self, len_bytes: u64) -> Option<usize> {
        // Also for a forked process: it shares the memory with its parent, which would hand out the same range.
        self.session()?;
        self.local_pool.mapped()?.alloc(len_bytes)
    }

    /// Takes back what was handed out at this address, also after [`Store::close`]; false if nothing was.
    pub fn free_to_mem_pool(&self, address: usize) -> bool {
        self.local_pool.pool.get().and_then(Option::as_ref).is_some_and(|pool| pool.free(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_no_bytes_hands_nothing_out() {
        assert!(LocalPool::new(0).mapped().is_none());
        let pool = LocalPool::new(1 << 12);
        let mapped = pool.mapped().expect("a little memory");
        let address = mapped.alloc(1 << 12).expect("all of it");
        assert!(mapped.alloc(1).is_none());
        assert!(pool.mapped().is_some_and(|again| again.free(address)), "it is the same pool");
    }
}
