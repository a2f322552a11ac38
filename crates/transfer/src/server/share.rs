use std::os::fd::AsFd;

use mooncake_memory::send_with_descriptors;
use mooncake_types::ErrorCode;
use mooncake_wire::{Header, Shared, decode_share, encode_share_reply};

use super::service::{End, Service};

impl Service {
    /// Hands over a segment's slot table, and its memory if that can be shared.
    pub(super) fn serve_share(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let segment = decode_share(self.body(header)).map_err(|error| End::body(id, &error))?;
        self.out.clear();
        let lender = self.lender();
        let Some(shared) = self.host.share(segment) else {
            encode_share_reply(&mut self.out, id, Err(ErrorCode::SegmentNotFound));
            return self.send_out();
        };
        if let Some(lender) = lender {
            return self.lend(header, &lender, (segment, &shared));
        }
        let memory = shared.region.sealed_descriptor();
        let answer = Shared {
            len: shared.region.len(),
            address: shared.region.whole().as_ptr().addr() as u64,
            has_memory: memory.is_some(),
            remote: None,
        };
        encode_share_reply(&mut self.out, id, Ok(&answer));
        let mut descriptors = vec![shared.slots.descriptor()];
        descriptors.extend(memory);
        Ok(send_with_descriptors(self.connection.stream().as_fd(), &self.out, &descriptors)?)
    }
}
