//! Entries whose bytes are lost, although nobody dropped them. Their nodes report them.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ClientId, ErrorCode, RangeDrop, Reply};

use super::record::ObjectState;
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
            let Some((object, replica)) = self.find_lost(from, key, range) else {
                are_written &= self.is_loss_told(key, range);
                continue;
            };
            match self.may_lose(object, replica) {
                true => self.lose_replica(object, replica),
                false => are_written = false,
            }
        }
        Reply::Done(if are_written { Ok(()) } else { Err(ErrorCode::UnavailableInCurrentStatus) })
    }

    /// The object and its replica that lay in a range, unless the range holds something else by now.
    fn find_lost(&self, from: ClientId, key: &str, range: &RangeDrop) -> Option<(u32, u8)> {
        let slot = self.segments.find(range.segment)?;
        let object = self.find(key)?;
        let record = &self.objects[object];
        let is_its = self.segments[slot].client == from
            && record.state == ObjectState::Complete
            && record.version == range.version;
        let mut ranges = self.ranges_of(object).filter(|_| is_its);
        let lost =
            ranges.find(|(_, it)| it.segment == slot && self.offset_of(it) == range.offset)?;
        Some((object, lost.1.replica))
    }
}
