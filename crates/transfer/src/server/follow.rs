use mooncake_types::{ErrorCode, FollowPage};
use mooncake_wire::{Header, decode_follow, encode_follow_reply};

use super::service::{End, Service};

/// Most bytes of the send buffer that stay allocated after a page.
const KEPT_BYTES: usize = 64 << 10;

impl Service {
    /// Tells a standby master what lies in a segment, or what changed there.
    pub(super) fn serve_follow(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let follow = decode_follow(self.body(header)).map_err(|error| End::body(id, &error))?;
        self.out.clear();
        let out = &mut self.out;
        let mut tell =
            |page: &FollowPage<'_>| encode_follow_reply(out, id, (follow.segment, Ok(page)));
        let admitted = match self.host.owns(follow.segment) {
            true => self.context.gate(header.kind).check_follow(&follow),
            false => Err(ErrorCode::SegmentNotFound),
        };
        if let Err(code) = admitted.and_then(|()| self.host.follow(&follow, &mut tell)) {
            self.out.clear();
            encode_follow_reply(&mut self.out, id, (follow.segment, Err(code)));
        }
        self.send_out()?;
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        Ok(())
    }
}
