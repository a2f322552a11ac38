use mooncake_wire::{Header, Kind, decode_drop};

use super::service::{End, Service};

impl Service {
    /// Drops entries, and replies once no reader finds them.
    pub(super) fn serve_drop(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_drop(self.body(header)).map_err(|error| End::body(id, &error))?;
        let is_slow = ranges.iter().any(|range| self.host.reads_from_disk(range.segment));
        let keepalive = is_slow.then(|| self.keepalive(id));
        let results = self.host.drop_ranges(&ranges);
        drop(keepalive);
        self.reply(Kind::DropReply, id, &results)
    }
}
