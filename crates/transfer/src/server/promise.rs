use mooncake_wire::{Header, decode_promise, encode_promise_reply};

use super::connection::{End, Service};
use crate::stream;

impl Service {
    /// Promises entries of which the peer has copies.
    pub(super) fn serve_promise(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_promise(self.body(header)?).map_err(|error| End::body(id, &error))?;
        let results: Vec<_> = ranges.iter().map(|range| self.host.promise(range)).collect();
        self.out.clear();
        encode_promise_reply(&mut self.out, id, &results);
        Ok(stream::send_all(self.connection.stream(), &self.out, &[], false)?)
    }
}
