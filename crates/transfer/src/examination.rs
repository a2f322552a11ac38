//! Which way this process takes to a segment, for people who wonder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::SliceList;
use mooncake_types::{RangeRead, Seal, SegmentId, Version};

use crate::carrier::{Batch, Carrier, Fate, carry};
use crate::near::Distance;
use crate::{Paths, ReadOp, TransferError, Transports, Way};

/// How one segment is reached from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The way that reads take; frames over a node's local socket count as shared memory. `None`: there is none.
    pub way: Option<Way>,
    /// Why this way, in words.
    pub why: String,
    /// The shortest of a few empty questions to the node; `None` if it gave no answer.
    pub round_trip: Option<Duration>,
}

/// Questions of which the fastest answer counts.
const QUESTIONS: usize = 5;

impl Paths {
    /// Which way this process reads a segment of a node, why, and how long an empty question takes.
    #[must_use]
    pub fn examine(&self, endpoint: &Arc<str>, segment: SegmentId) -> Examination {
        let distance = self.distance(endpoint);
        let mut why = vec![distance.to_string()];
        let (mut way, mut round_trip) = (None, None);
        let is_up = !matches!(distance, Distance::Unreachable(_));
        for carrier in self.carriers.iter().filter(|_| is_up) {
            match carrier.examine(endpoint, segment) {
                Ok(examined) => {
                    why.extend(Some(examined.how).filter(|how| !how.is_empty()));
                    way = examined.way;
                    round_trip = time_questions(carrier, endpoint, segment);
                    break;
                }
                Err(reason) if why.contains(&reason) => {}
                Err(reason) => why.push(reason),
            }
        }
        if self.ways != Transports::default() {
            why.push(format!("allowed are only {}", self.ways));
        }
        Examination { way, why: why.join("; "), round_trip }
    }
}

/// Reads a version that does not exist: the node looks it up, and sends no payload.
fn time_questions(
    carrier: &Arc<dyn Carrier>,
    endpoint: &Arc<str>,
    segment: SegmentId,
) -> Option<Duration> {
    let version = Version::default();
    let range = RangeRead {
        segment,
        offset: 0,
        version,
        object_offset: 0,
        from: 0,
        len: 0,
        seal: Seal::NONE,
    };
    let read = ReadOp { endpoint: Arc::clone(endpoint), range, dst: SliceList::default() };
    let time = |_| {
        let (start, mut fates) = (Instant::now(), [Fate::Open]);
        carry(std::slice::from_ref(carrier), Batch::Reads(std::slice::from_ref(&read)), &mut fates);
        let [fate] = fates;
        let answered = matches!(
            fate,
            Fate::Over(Ok(_) | Err(TransferError::Stale | TransferError::Refused(_)))
        );
        answered.then(|| start.elapsed())
    };
    (0..QUESTIONS).filter_map(time).min()
}
