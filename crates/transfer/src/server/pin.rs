//! Ranges that stay unchanged while a process of this host views them.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::peer_of;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Header, Kind, decode_read, decode_unpin};

use super::connection::STALL;
use super::held_pins::HeldPins;
use super::service::{End, Service};
use crate::Interrupt;

/// How long a peer may take to give ranges back before the connection's thread waits no longer for it.
const GIVE_BACK: Duration = if cfg!(test) { Duration::from_millis(300) } else { STALL };

impl Service {
    /// Whether the peer has asked for pins. Then it asks for nothing else.
    pub(super) fn has_pinned(&self) -> bool {
        self.pins.next > 0
    }

    /// Whether the peer was asked to give its ranges back, and has said nothing for a while.
    pub(super) fn was_asked_in_vain(&self) -> bool {
        !self.pins.held.is_empty() && self.connection.is_interrupted()
    }

    /// Pins ranges until the peer unpins them, or closes its side.
    pub(super) fn serve_pin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_read(self.body(header)).map_err(|error| End::body(id, &error))?;
        // Set before the peer can view anything.
        self.connection.keep_open();
        self.connection.stream().set_read_timeout(Some(GIVE_BACK))?;
        let results: Vec<_> = ranges.iter().map(|range| self.pin(range)).collect();
        self.reply(Kind::PinReply, id, &results)
    }

    fn pin(&mut self, range: &RangeRead) -> Result<(), ErrorCode> {
        let pinned = self.try_to_pin(range);
        self.pins.next += 1;
        pinned
    }

    fn try_to_pin(&mut self, range: &RangeRead) -> Result<(), ErrorCode> {
        self.context.gate(Kind::Pin).check_read(range)?;
        if !self.pins.has_room_for(range.len) {
            return Err(ErrorCode::NoAvailableHandle);
        }
        let interrupt = Arc::clone(&self.connection) as Arc<dyn Interrupt>;
        let pin = self.host.pin(range, interrupt)?;
        self.pins.keep(pin, range.len);
        self.context.config.served.on_pinned(range.len);
        Ok(())
    }

    pub(super) fn serve_unpin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let numbers = decode_unpin(self.body(header)).map_err(|error| End::body(id, &error))?;
        numbers.into_iter().for_each(|number| self.pins.drop_pin(number));
        Ok(())
    }

    /// Ends all pins, whichever way the connection ended: recalls the ranges from the peer. They stay unchanged until
    /// it has closed its side. Returns the pins of a peer that does not do so in time.
    pub(super) fn drop_pins(&mut self) -> Option<HeldPins> {
        if self.pins.held.is_empty() {
            return None;
        }
        let stream = self.connection.stream();
        // These fail only if the connection has ended already.
        let _ = (stream.shutdown(Shutdown::Write), stream.set_read_timeout(Some(GIVE_BACK)));
        let mut waste = [0; 256];
        let is_overdue = loop {
            match (&mut &*stream).read(&mut waste) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
                _ => break false,
            }
        };
        if is_overdue {
            self.tell_of_overdue_pins();
        }
        let pins = std::mem::take(&mut self.pins);
        if is_overdue {
            return Some(pins);
        }
        pins.end(&self.connection);
        None
    }

    /// Names the process that keeps ranges. It may read them whenever it goes on, so only its end frees them.
    fn tell_of_overdue_pins(&self) {
        let peer = peer_of(self.connection.stream().as_fd());
        let pid = peer.ok().and_then(|peer| peer.pid).unwrap_or_default();
        let (ranges, bytes, waited_s) =
            (self.pins.held.len(), self.pins.bytes, GIVE_BACK.as_secs());
        tracing::warn!(
            pid,
            ranges,
            bytes,
            waited_s,
            "a process of this host keeps ranges that it was asked to give back: if it is stopped, continue or end it"
        );
    }
}
