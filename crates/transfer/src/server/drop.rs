use std::sync::Arc;

use mooncake_types::RangeDrop;
use mooncake_wire::{Header, Kind, decode_drop};

use super::service::{End, Service};

impl Service {
    /// Drops entries that the master wants dropped, and replies once no reader finds them.
    pub(super) fn serve_drop(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let sealed = decode_drop(self.body(header)).map_err(|error| End::body(id, &error))?;
        let context = Arc::clone(&self.context);
        let gate = context.gate(header.kind);
        let checked: Vec<_> =
            sealed.iter().map(|(range, seal)| gate.check_drop(range, *seal)).collect();
        let admitted = sealed.iter().zip(&checked).filter(|(_, checked)| checked.is_ok());
        let ranges: Vec<RangeDrop> = admitted.map(|((range, _), _)| *range).collect();
        let is_slow = ranges.iter().any(|range| self.host.reads_from_disk(range.segment));
        let keepalive = is_slow.then(|| self.keepalive(id));
        let mut dropped = self.host.drop_ranges(&ranges).into_iter();
        drop(keepalive);
        let result = |checked: Result<(), _>| {
            checked.and_then(|()| dropped.next().expect("one result for each range"))
        };
        let results: Vec<_> = checked.into_iter().map(result).collect();
        self.reply(Kind::DropReply, id, &results)
    }
}
