//! The carrier to segments of this process: all bytes move when a call is completed.

use std::sync::Arc;

use mooncake_calls::Stage;
use mooncake_memory::{with_helpers, with_waiting_helpers};
use mooncake_types::{Epoch, SegmentId};

use crate::begin_reads::disk_order;
use crate::carrier::{Batch, Carrier, Examined, Fate, Pending, begin};
use crate::{LocalTransport, ReadOp, Source, TransferError, WriteOp};

impl Carrier for LocalTransport {
    fn stage(&self) -> Stage {
        Stage::Own
    }

    fn submit<'a>(&'a self, batch: Batch<'a>, fates: &mut [Fate]) -> Option<Box<dyn Pending + 'a>> {
        let positions = begin(fates, |position| self.owns(batch.segment(position)));
        if positions.is_empty() {
            return None;
        }
        Some(match batch {
            Batch::Reads(ops) => Box::new(OwnReads { local: self, ops, positions }),
            Batch::Writes(epoch, ops) => Box::new(OwnWrites { local: self, epoch, ops, positions }),
        })
    }

    fn examine(&self, _endpoint: &Arc<str>, segment: SegmentId) -> Result<Examined, String> {
        if !self.owns(segment) {
            return Err("it is another process".to_owned());
        }
        Ok(Examined { way: None, how: "it is a segment of this process".to_owned() })
    }
}

struct OwnReads<'a> {
    local: &'a LocalTransport,
    ops: &'a [ReadOp<'a>],
    positions: Vec<usize>,
}

struct OwnWrites<'a> {
    local: &'a LocalTransport,
    epoch: Epoch,
    ops: &'a [WriteOp<'a>],
    positions: Vec<usize>,
}

impl Pending for OwnReads<'_> {
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool {
        let Self { local, ops, positions } = *self;
        let on_disk = disk_order(local.host(), positions.iter().map(|&at| (at, &ops[at].range)));
        let is_on_disk =
            |op: &ReadOp| !on_disk.is_empty() && local.host().reads_from_disk(op.range.segment);
        let bytes = positions.iter().map(|&at| ops[at].range.len).fold(0, u64::saturating_add);
        let read = with_helpers(&positions, bytes, |&at| {
            let op = &ops[at];
            (op.dst.is_host() && !is_on_disk(op)).then(|| local.read_one(op))
        });
        settle(fates, &positions, read);
        let read = with_waiting_helpers(&on_disk, |&at| Some(local.read_one(&ops[at])));
        settle(fates, &on_disk, read);
        let of_devices = unsettled(fates, positions);
        let some: Vec<&ReadOp> = of_devices.iter().map(|&at| &ops[at]).collect();
        settle(fates, &of_devices, local.read_to_devices(&some).into_iter().map(Some));
        false
    }
}

impl Pending for OwnWrites<'_> {
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool {
        let Self { local, epoch, ops, positions } = *self;
        let bytes = positions.iter().map(|&at| ops[at].range.len).fold(0, u64::saturating_add);
        let written = with_helpers(&positions, bytes, |&at| {
            let op = &ops[at];
            op.src.is_host().then(|| local.write_one(epoch, op))
        });
        settle(fates, &positions, written);
        let of_devices = unsettled(fates, positions);
        let some: Vec<&WriteOp<'_>> = of_devices.iter().map(|&at| &ops[at]).collect();
        settle(fates, &of_devices, local.write_from_devices(epoch, &some).into_iter().map(Some));
        false
    }
}

fn unsettled(fates: &[Fate], positions: Vec<usize>) -> Vec<usize> {
    positions.into_iter().filter(|&at| !fates[at].is_over()).collect()
}

fn settle(
    fates: &mut [Fate],
    positions: &[usize],
    results: impl IntoIterator<Item = Option<Result<(), TransferError>>>,
) {
    for (&position, result) in positions.iter().zip(results) {
        if let Some(result) = result {
            fates[position] = Fate::Over(result.map(|()| Source::Own));
        }
    }
}
