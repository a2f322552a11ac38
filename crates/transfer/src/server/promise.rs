use mooncake_wire::{Header, Kind, decode_read};

use super::service::{End, Service};

impl Service {
    /// Promises to hold entries that the peer has copies of.
    pub(super) fn serve_promise(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_read(self.body(header)).map_err(|error| End::body(id, &error))?;
        let gate = self.context.gate(header.kind);
        let promise = |range| gate.check_read(range).and_then(|()| self.host.promise(range));
        let results: Vec<_> = ranges.iter().map(promise).collect();
        self.reply(Kind::PromiseReply, id, &results)
    }
}
