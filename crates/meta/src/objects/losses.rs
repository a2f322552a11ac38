//! Entries whose bytes are lost, although nobody dropped them. Their nodes report them.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ClientId, ErrorCode, RangeDrop, Reply};

use super::record::{ObjectState, Range};
use crate::Meta;

impl Meta {
    /// Objects lose the replicas that lay in these ranges of the client's own segments, so that their keys can be put
    /// again, and other replicas copied. The client must tell it again while the record does not have what they hid.
    pub(crate) fn take_losses(
        &mut self,
        from: ClientId,
        keys: &[&str],
        ranges: &[RangeDrop],
    ) -> Reply {
        if is_broken(Rule::LossesAreTaken) {
            return Reply::Done(Ok(()));
        }
        let mut are_written = true;
        for (key, range) in keys.iter().zip(ranges) {
            are_written &= self.take_loss(from, key, range);
        }
        Reply::Done(if are_written { Ok(()) } else { Err(ErrorCode::UnavailableInCurrentStatus) })
    }

    /// False while the record does not have what the lost bytes hid.
    fn take_loss(&mut self, from: ClientId, key: &str, lost: &RangeDrop) -> bool {
        let Some(id) = self.find_lost(from, key, lost) else { return self.is_loss_told(key, lost) };
        let &Range { object, replica, segment, .. } = &self.ranges[id];
        match self.objects[object].state {
            ObjectState::Complete => {
                let may_lose = self.may_lose(object, replica);
                if may_lose {
                    self.lose_replica(object, replica);
                }
                return may_lose;
            }
            // The put or copy ends without it.
            ObjectState::Processing
            | ObjectState::Waiting
            | ObjectState::Overtaken
            | ObjectState::Copying => self.reviews.lose(segment, id),
            ObjectState::Gathering => self.forget_piece(lost.version, id),
            ObjectState::Tombstone => {}
        }
        self.is_loss_told(key, lost)
    }

    /// The range of the lost entry on a segment of the client, unless something else lies there by now.
    fn find_lost(&self, from: ClientId, key: &str, lost: &RangeDrop) -> Option<u32> {
        let slot = self.segments.find(lost.segment)?;
        let is_its = self.segments[slot].client == from;
        self.range_at(slot, lost.offset, key, lost.version).filter(|_| is_its)
    }
}
