use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::Region;
use mooncake_node::{Host, Segment};
use mooncake_transfer::{Interrupt, SegmentHost};
use mooncake_types::{Epoch, Follow, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::frame::{Frame, decode, split};
use crate::seed::runner;
use crate::strategy::{follow, range_drop, range_read, range_write};

struct Nobody;

impl Interrupt for Nobody {
    fn interrupt(&self) {}
}

/// What a peer asks a node for, and what becomes of the bytes that it writes.
#[derive(Clone, Debug)]
enum Question {
    Read(RangeRead),
    Write(RangeWrite<'static>, WriteEnd),
    Drop(RangeDrop),
    Follow(Follow),
}

#[derive(Clone, Copy, Debug)]
enum WriteEnd {
    /// With so many checksums.
    Complete(usize),
    Abandon,
}

fn question() -> impl Strategy<Value = Question> {
    let end = prop_oneof![(0..3_usize).prop_map(WriteEnd::Complete), Just(WriteEnd::Abandon)];
    prop_oneof![
        3 => range_read().prop_map(Question::Read),
        6 => (range_write(), end).prop_map(|(range, end)| Question::Write(range, end)),
        1 => range_drop().prop_map(Question::Drop),
        1 => follow().prop_map(Question::Follow),
    ]
}

impl Question {
    fn frame(&self) -> Frame<'static> {
        match self {
            Question::Read(range) => Frame::Read(vec![*range]),
            Question::Write(range, _) => Frame::Write(Epoch(2), vec![*range]),
            Question::Drop(range) => Frame::Drop(vec![(*range, Seal::NONE)]),
            Question::Follow(follow) => Frame::Follow(*follow),
        }
    }
}

fn answer(host: &Host, frame: Frame<'_>, question: &Question) {
    match frame {
        Frame::Read(ranges) => ranges.iter().for_each(|range| {
            let _ = host.promise(range);
            if let Ok(ticket) = host.begin_read(range) {
                host.learn_checksums(&ticket, &[7]);
            }
        }),
        Frame::Write(epoch, ranges) => ranges.iter().for_each(|range| {
            let Ok(ticket) = host.begin_write(epoch, range, Arc::new(Nobody)) else { return };
            assert_eq!(ticket.memory.len() as u64, range.len);
            match question {
                Question::Write(_, WriteEnd::Complete(sums)) => {
                    let _ = host.complete_write(ticket, vec![7; *sums]);
                }
                _ => host.abandon_write(ticket),
            }
        }),
        Frame::Drop(ranges) => ranges.iter().for_each(|(range, _)| {
            let _ = host.drop_range(range);
        }),
        Frame::Follow(follow) => drop(host.follow(&follow, &mut |_| {})),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_range_off_a_socket_ends_a_node() {
    let region = || Region::anonymous(1 << 16).expect("sixteen pages");
    runner(20_000)
        .run(&vec(question(), 1..40), |questions| {
            let segments = (0..2).map(|id| Segment::new(SegmentId(id), region())).collect();
            let host = Host::new(segments).with_patience(Duration::from_millis(1));
            host.see_epoch(Epoch(2));
            for question in &questions {
                let bytes = question.frame().encode(1);
                let (header, body) = split(&bytes);
                let _ = decode(header.kind, body, |frame| answer(&host, frame, question));
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
