use std::ops::Deref;

use mooncake_meta::Meta;

/// A `Meta` that records whether it may have changed. Checks of its state alone run only after a change.
pub(crate) struct Watched {
    meta: Meta,
    is_changed: bool,
}

impl Watched {
    pub(crate) fn new(meta: Meta) -> Self {
        Self { meta, is_changed: true }
    }

    /// Access that may change the state machine.
    pub(crate) fn change(&mut self) -> &mut Meta {
        self.is_changed = true;
        &mut self.meta
    }

    /// Whether the state may have changed since the last call.
    pub(crate) fn take_is_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

impl Deref for Watched {
    type Target = Meta;

    fn deref(&self) -> &Meta {
        &self.meta
    }
}
