use std::collections::BTreeMap;

use super::connection::PeerConnection;
use crate::Pin;

/// Most ranges, and most bytes, that one connection pins at a time: a peer copies all of them before a writer of one
/// of them goes on.
const MAX_PINS: usize = 4096;
const MAX_BYTES: u64 = 1 << 30;

/// What a connection has pinned.
#[derive(Default)]
pub(super) struct HeldPins {
    /// The number of the next range that is asked for.
    pub(super) next: u64,
    pub(super) held: BTreeMap<u64, (Pin, u64)>,
    pub(super) bytes: u64,
}

impl HeldPins {
    /// Ends all pins of a peer whose connection has ended.
    pub(super) fn end(self, connection: &PeerConnection) {
        if connection.is_severed() {
            // The peer may view the ranges for as long as it likes: this memory is never freed.
            tracing::warn!(bytes = self.bytes, "a process of this host did not give ranges back");
            std::mem::forget(self);
        }
    }

    pub(super) fn has_room_for(&self, len: u64) -> bool {
        self.held.len() < MAX_PINS
            && self.bytes.checked_add(len).is_some_and(|bytes| bytes <= MAX_BYTES)
    }

    pub(super) fn keep(&mut self, pin: Pin, len: u64) {
        self.held.insert(self.next, (pin, len));
        self.bytes += len;
    }

    /// Drops a pin. Does nothing if the pin was refused, or is dropped already.
    pub(super) fn drop_pin(&mut self, number: u64) {
        if let Some((_, len)) = self.held.remove(&number) {
            self.bytes -= len;
        }
    }
}
