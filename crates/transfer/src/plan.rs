//! Plans which ranges go to which peer, and in which frames. Pure: no sockets, no memory.

use std::ops::Range;
use std::sync::Arc;

/// How much one frame may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameLimits {
    /// Most ranges.
    pub(crate) ranges: usize,
    /// Most payload bytes, unless the frame holds a single range.
    pub(crate) payload: u64,
}

/// All that goes to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerPlan {
    /// The peer.
    pub(crate) endpoint: Arc<str>,
    /// Positions of its operations among all, ascending.
    pub(crate) positions: Vec<usize>,
    /// Consecutive parts of `positions`.
    pub(crate) frames: Vec<FramePlan>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FramePlan {
    /// Which of the peer's `positions`.
    pub(crate) ops: Range<usize>,
    /// Bytes of payload of all of them.
    pub(crate) payload: u64,
}

/// Groups operations, each `(position, endpoint, payload bytes)` in ascending order of position, by peer. Cuts each
/// group into frames. Peers come in the order of their endpoints: calls that take lanes in that order cannot
/// deadlock.
pub(crate) fn plan(mut ops: Vec<(usize, &Arc<str>, u64)>, limits: FrameLimits) -> Vec<PeerPlan> {
    // Stable, and the positions came in order.
    ops.sort_by(
        |(_, left, _), (_, right, _)| {
            if Arc::ptr_eq(left, right) { std::cmp::Ordering::Equal } else { left.cmp(right) }
        },
    );
    ops.chunk_by(|(_, left, _), (_, right, _)| Arc::ptr_eq(left, right) || left == right)
        .map(|group| PeerPlan {
            endpoint: Arc::clone(group[0].1),
            positions: group.iter().map(|&(position, ..)| position).collect(),
            frames: cut(group.iter().map(|&(.., len)| len), limits),
        })
        .collect()
}

fn cut(lens: impl Iterator<Item = u64>, limits: FrameLimits) -> Vec<FramePlan> {
    let mut frames: Vec<FramePlan> = Vec::new();
    for (index, len) in lens.enumerate() {
        match frames.last_mut() {
            Some(frame)
                if frame.ops.len() < limits.ranges
                    && frame.payload.saturating_add(len) <= limits.payload =>
            {
                frame.ops.end = index + 1;
                frame.payload += len;
            }
            _ => frames.push(FramePlan { ops: index..index + 1, payload: len }),
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FrameLimits = FrameLimits { ranges: 3, payload: 100 };

    fn frames(lens: &[u64]) -> Vec<(Range<usize>, u64)> {
        let cut = cut(lens.iter().copied(), LIMITS);
        cut.into_iter().map(|frame| (frame.ops, frame.payload)).collect()
    }

    #[test]
    fn frames_are_cut_by_ranges_and_by_payload() {
        type Frames<'a> = &'a [(Range<usize>, u64)];
        let cases: [(&[u64], Frames<'_>); 8] = [
            (&[], &[]),
            (&[10], &[(0..1, 10)]),
            (&[10, 20, 30, 40], &[(0..3, 60), (3..4, 40)]),
            (&[60, 40, 1], &[(0..2, 100), (2..3, 1)]),
            (&[60, 41], &[(0..1, 60), (1..2, 41)]),
            (&[1000, 1, 1], &[(0..1, 1000), (1..3, 2)]),
            (&[1, 1000, 1], &[(0..1, 1), (1..2, 1000), (2..3, 1)]),
            (&[0, 0, u64::MAX, u64::MAX], &[(0..2, 0), (2..3, u64::MAX), (3..4, u64::MAX)]),
        ];
        for (lens, expected) in cases {
            assert_eq!(frames(lens), expected, "{lens:?}");
        }
    }

    #[test]
    fn operations_are_grouped_by_peer_and_keep_their_positions() {
        let (b, a, b_again): (Arc<str>, Arc<str>, Arc<str>) =
            ("b:1".into(), "a:1".into(), "b:1".into());
        let ops = vec![(0, &b, 50), (2, &a, 7), (3, &b_again, 50), (9, &b, 1)];
        let expected = vec![
            PeerPlan {
                endpoint: a.clone(),
                positions: vec![2],
                frames: vec![FramePlan { ops: 0..1, payload: 7 }],
            },
            PeerPlan {
                endpoint: b.clone(),
                positions: vec![0, 3, 9],
                frames: vec![
                    FramePlan { ops: 0..2, payload: 100 },
                    FramePlan { ops: 2..3, payload: 1 },
                ],
            },
        ];
        assert_eq!(plan(ops, LIMITS), expected);
        assert_eq!(plan(Vec::new(), LIMITS), vec![]);
    }
}
