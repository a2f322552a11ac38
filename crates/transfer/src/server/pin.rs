//! Ranges that stay unchanged while a process of this host views them.

use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;

use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Header, Kind, decode_read, decode_unpin};

use super::connection::STALL;
use super::service::{End, Service};
use crate::Interrupt;

impl Service {
    /// Whether the connection takes frames of this kind. Once it has asked for pins, it takes no others.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.pins.next == 0 || matches!(kind, Kind::Pin | Kind::Unpin)
    }

    /// Pins ranges until the peer unpins them, or closes its side.
    pub(super) fn serve_pin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_read(self.body(header)?).map_err(|error| End::body(id, &error))?;
        // Set before the peer can view anything.
        self.connection.keep_open();
        let results: Vec<_> = ranges.iter().map(|range| self.pin(range)).collect();
        self.reply(Kind::PinReply, id, &results)
    }

    fn pin(&mut self, range: &RangeRead) -> Result<(), ErrorCode> {
        let pinned = if self.pins.has_room_for(range.len) {
            let interrupt = Arc::clone(&self.connection) as Arc<dyn Interrupt>;
            self.host.pin(range, interrupt).map(|pin| {
                self.pins.keep(pin, range.len);
                self.context.config.served.on_pinned(range.len);
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

    /// Ends all pins, whichever way the connection ended: recalls the ranges from the peer. They stay unchanged until
    /// it has closed its side.
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
            // The peer may view the ranges for as long as it likes: this memory is never freed.
            tracing::warn!(bytes = pins.bytes, "a process of this host did not give ranges back");
            std::mem::forget(pins);
        }
    }
}
