use std::sync::OnceLock;

use crate::mem_pool::MemPool;

/// The local buffer of a store. It is mapped when its first range is asked for.
pub(super) struct LocalPool {
    len_bytes: u64,
    pool: OnceLock<Option<MemPool>>,
}

impl LocalPool {
    pub(super) fn new(len_bytes: u64) -> Self {
        Self { len_bytes, pool: OnceLock::new() }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Takes back the range that was handed out at this address. False if there is none.
    pub(super) fn free(&self, address: usize) -> bool {
        self.pool.get().and_then(Option::as_ref).is_some_and(|pool| pool.free(address))
    }

    pub(super) fn mapped(&self) -> Option<&MemPool> {
        let map = || {
            let mapped = (self.len_bytes > 0).then(|| MemPool::map(self.len_bytes))?;
            mapped.inspect_err(|error| tracing::warn!(%error, "no local buffer")).ok()
        };
        self.pool.get_or_init(map).as_ref()
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
