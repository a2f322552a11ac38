use std::sync::Arc;

use mooncake_memory::Region;
use mooncake_types::Version;

/// An entry that is being written.
pub(super) struct OpenEntry {
    pub(super) grant: Version,
    /// The bytes of the whole entry.
    pub(super) region: Arc<Region>,
    /// A record was appended and then discarded, since a part of the entry had to be written again.
    pub(super) was_appended: bool,
}
