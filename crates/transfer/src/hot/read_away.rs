//! Reads of what lies on other hosts, through the cache.

use std::sync::Arc;

use mooncake_memory::Buffer;

use super::{CacheLookup, HotCache};
use crate::carrier::{Batch, Carrier, Fate, carry, open};
use crate::{ReadOp, Source};

impl HotCache {
    /// Copies the open ranges that the cache holds, and has the carriers read the others. For a cached range without
    /// a promise, they ask the node whether it still holds the version.
    pub(crate) fn read_away(
        &self,
        ops: &[ReadOp],
        is_kept: impl Fn(usize) -> bool,
        carriers: &[Arc<dyn Carrier>],
        fates: &mut [Fate],
    ) {
        let wanted: Vec<usize> = open(fates).filter(|&position| is_kept(position)).collect();
        let mut copied = vec![CacheLookup::Miss; ops.len()];
        for &position in &wanted {
            copied[position] = self.read(&ops[position]);
            if matches!(copied[position], CacheLookup::Promised { .. }) {
                fates[position] = Fate::Over(Ok(Source::Host));
            }
        }
        if copied.contains(&CacheLookup::Unpromised) {
            // Each answer comes with a byte that has no use.
            let bytes = Buffer::zeroed(ops.len());
            carry(carriers, Batch::Reads(&questions(ops, &copied, &bytes)), fates);
        } else {
            carry(carriers, Batch::Reads(ops), fates);
        }
        for position in wanted {
            if let Fate::Over(Ok(source)) = &mut fates[position] {
                if copied[position] != CacheLookup::Miss {
                    *source = Source::Host;
                }
                self.on_read(&ops[position], copied[position]);
            }
        }
    }
}

/// The reads, with a question in place of each range that was copied without a promise.
fn questions<'a>(
    ops: &'a [ReadOp<'a>],
    copied: &[CacheLookup],
    bytes: &'a Buffer,
) -> Vec<ReadOp<'a>> {
    let asked = ops.iter().enumerate().map(|(position, op)| match copied[position] {
        CacheLookup::Unpromised => ReadOp {
            endpoint: Arc::clone(&op.endpoint),
            range: op.range.question(),
            dst: bytes.raw().sub(position, 1).into(),
        },
        CacheLookup::Miss | CacheLookup::Promised { .. } => op.clone(),
    });
    asked.collect()
}
