//! Ranges that stay as they are, because a process of this host looks at them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;

use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Header, Kind, decode_pin, decode_unpin, encode_pin_reply};

use super::connection::{End, STALL, Service};
use crate::{Interrupt, Pin, stream};

/// Most ranges that one connection pins at a time, and most bytes of them: what a peer has to copy before a writer that
/// wants one of them goes on.
const MAX_PINS: usize = 4096;
const MAX_BYTES: u64 = 1 << 30;

/// What a connection has pinned.
#[derive(Default)]
pub(super) struct Pins {
    /// The number of the next range that is asked for.
    next: u64,
    held: BTreeMap<u64, (Pin, u64)>,
    bytes: u64,
}

impl Pins {
    fn has_room_for(&self, len: u64) -> bool {
        self.held.len() < MAX_PINS
            && self.bytes.checked_add(len).is_some_and(|bytes| bytes <= MAX_BYTES)
    }

    fn keep(&mut self, pin: Pin, len: u64) {
        self.held.insert(self.next, (pin, len));
        self.bytes += len;
    }

    /// Drops a pin. One that was refused, or is dropped already, is none.
    fn drop_pin(&mut self, number: u64) {
        if let Some((_, len)) = self.held.remove(&number) {
            self.bytes -= len;
        }
    }
}

impl Service {
    /// Whether the connection takes frames of this kind. One that has asked for pins is for them alone.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.pins.next == 0 || matches!(kind, Kind::Pin | Kind::Unpin)
    }

    /// Keeps ranges as they are until the peer says otherwise, or has closed its side.
    pub(super) fn serve_pin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_pin(self.body(header)?).map_err(|error| End::body(id, &error))?;
        // Before the peer can look at anything.
        self.connection.keep_open();
        let results: Vec<_> = ranges.iter().map(|range| self.pin(range)).collect();
        self.out.clear();
        encode_pin_reply(&mut self.out, id, &results);
        Ok(stream::send_all(self.connection.stream(), &self.out, &[], false)?)
    }

    fn pin(&mut self, range: &RangeRead) -> Result<(), ErrorCode> {
        let pinned = if self.pins.has_room_for(range.len) {
            let interrupt = Arc::clone(&self.connection) as Arc<dyn Interrupt>;
            self.host.pin(range, interrupt).map(|pin| {
                self.pins.keep(pin, range.len);
                self.site.config.served.on_pinned(range.len);
            })
        } else {
            Err(ErrorCode::NoAvailableHandle)
        };
        self.pins.next += 1;
        pinned
    }

    pub(super) fn serve_unpin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let numbers = decode_unpin(self.body(header)?).map_err(|error| End::body(id, &error))?;
        numbers.into_iter().for_each(|number| self.pins.drop_pin(number));
        Ok(())
    }

    /// Whichever way the connection ended: the peer is told that its ranges are wanted, and they stay as they are until it
    /// has closed its side.
    pub(super) fn drop_pins(&mut self) {
        if self.pins.held.is_empty() {
            return;
        }
        let stream = self.connection.stream();
        // These fail only if the connection has ended already.
        let _ = (stream.shutdown(Shutdown::Write), stream.set_read_timeout(Some(STALL)));
        let mut waste = [0; 256];
        let is_waiting =
            |kind| matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        loop {
            match (&mut &*stream).read(&mut waste) {
                Ok(1..) => {}
                Err(error) if is_waiting(error.kind()) => {}
                _ => break,
            }
        }
        let pins = std::mem::take(&mut self.pins);
        if self.connection.is_severed() {
            // It may be looking at them for as long as it likes: this memory is never given back.
            tracing::warn!(bytes = pins.bytes, "a process of this host did not give ranges back");
            std::mem::forget(pins);
        }
    }
}
