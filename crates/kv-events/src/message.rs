//! Batches of events, encoded.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::event::{Event, Fields, Packer};

/// Numbers events, and encodes them in batches: `[milliseconds since 1970, [event, ...], 0]`.
#[derive(Debug)]
pub(crate) struct Encoder {
    fields: Fields,
    next_event: u64,
}

impl Encoder {
    /// An encoder whose first event gets the number after `last`.
    pub(crate) fn new(fields: Fields, last: u64) -> Encoder {
        Encoder { fields, next_event: last + 1 }
    }

    /// Encodes a batch. If keys are not named, events of keys that are no numbers are left out. Also returns how many
    /// events have such keys.
    pub(crate) fn batch(&mut self, events: &[Event]) -> (Bytes, u64) {
        let is_unnumbered =
            |event: &&Event| matches!(event, Event::Key { .. }) && event.number().is_none();
        let unnumbered = events.iter().filter(is_unnumbered).count() as u64;
        let is_told = |event: &&Event| self.fields.is_key_there || !is_unnumbered(event);
        let told: Vec<&Event> = events.iter().filter(is_told).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = now.as_millis() as u64;
        let mut packer = Packer::default();
        packer.array(3);
        packer.number(time_ms);
        packer.array(told.len());
        for event in told {
            event.pack(&self.fields, (self.next_event, time_ms), &mut packer);
            self.next_event += 1;
        }
        packer.number(0);
        (packer.0.into(), unnumbered)
    }
}
