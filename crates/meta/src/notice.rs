//! What operators are to be told of the master's own work.

use crate::Meta;

/// Notices that wait to be taken; further ones are lost.
const MOST_NOTICES: usize = 256;

/// Something that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Objects that lack replicas are repaired from now on.
    RepairBegins {
        /// How many lack some.
        objects: usize,
    },
    /// Nothing more can be repaired now.
    RepairEnds {
        /// Replicas that were made.
        replicas: u64,
        /// Their bytes.
        bytes: u64,
        /// Copies that failed.
        failures: u64,
        /// Objects that still lack replicas: there is no room for them, or their sources cannot be read.
        left: usize,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// An object is read so often that it is worth another replica. Of many there is one notice in a tenth of a second.
    Hot {
        /// Its key.
        key: Box<str>,
        /// Replicas that it has.
        replicas: u32,
        /// The segment that gets a further one; absent if it is only observed.
        target: Option<std::sync::Arc<str>>,
    },
}

impl Meta {
    /// Whether [`Meta::take_notices`] has any.
    #[must_use]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// What has happened since this was last asked, in order. At most 256 are kept.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn notify(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        }
    }
}
