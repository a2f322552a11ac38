use mooncake_wire::{Header, decode_drop, encode_drop_reply};

use super::connection::{End, Service};
use crate::stream;

impl Service {
    /// Drops entries, and says so once they cannot be found.
    pub(super) fn serve_drop(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_drop(self.body(header)?).map_err(|error| End::body(id, &error))?;
        let results = self.host.drop_ranges(&ranges);
        self.out.clear();
        encode_drop_reply(&mut self.out, id, &results);
        Ok(stream::send_all(self.connection.stream(), &self.out, &[], false)?)
    }
}
