use std::ops::Deref;

use mooncake_meta::Meta;

/// A state machine that knows whether it may have changed: what follows from its state alone is looked at only then.
pub(crate) struct Watched {
    meta: Meta,
    is_changed: bool,
}

impl Watched {
    pub(crate) fn new(meta: Meta) -> Self {
        Self { meta, is_changed: true }
    }

    /// To do something with it that may change it.
    pub(crate) fn change(&mut self) -> &mut Meta {
        self.is_changed = true;
        &mut self.meta
    }

    /// Whether it may have changed since this was last asked.
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
