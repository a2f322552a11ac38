use super::FileStore;
use crate::errors::Broken;
use crate::layout::BLOCK;
use crate::record::RecordId;

impl FileStore {
    /// Evicts the least recently used records until there is room for `wanted` more bytes. Even if there seems to be
    /// room, it tries to free `wanted` bytes: other programs may have filled the filesystem.
    pub(super) fn evict(&self, wanted: u64) -> Result<Vec<RecordId>, Broken> {
        let mut state = self.lock();
        state.check()?;
        if !self.config.evicts {
            return Ok(Vec::new());
        }
        // Headers and padding take room as well.
        let wanted = wanted.saturating_add(2 * BLOCK);
        let goal = self.config.capacity.saturating_sub(wanted);
        let (mut freed, mut names) = (0, Vec::new());
        for &offset in state.order.values() {
            if freed >= wanted && state.used_bytes - freed <= goal {
                break;
            }
            let entry = &state.entries[&offset];
            freed += entry.bytes();
            names.push(RecordId { grant: entry.grant, offset });
        }
        let offsets: Vec<u64> = names.iter().map(|name| name.offset).collect();
        if offsets.is_empty() {
            return Ok(names);
        }
        state = self.remove(state, &offsets)?;
        drop(state);
        Ok(names)
    }
}
