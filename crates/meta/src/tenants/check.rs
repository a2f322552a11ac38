use std::collections::BTreeMap;

use mooncake_types::{Medium, split_tenant};

use super::account::Account;
use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{Pin, QueueKind};

/// Bytes, ranges, objects, sinking and pinned bytes in memory.
type Sums = (u64, u64, u64, u64, u64);

impl Meta {
    pub(crate) fn every_tenant_is_charged_for_its_memory(&self) -> Check {
        if !self.tenants.is_enforced() {
            return Ok(());
        }
        let mut sums: BTreeMap<&str, Sums> = BTreeMap::new();
        let in_memory =
            self.ranges.iter().filter(|(_, it)| self.segments[it.segment].medium == Medium::Memory);
        for (_, range) in in_memory {
            let (name, _) = split_tenant(&self.objects[range.object].key);
            let sum = sums.entry(name).or_default();
            (sum.0, sum.1) = (sum.0 + range.len, sum.1 + 1);
            sum.3 += if range.queue == QueueKind::Sinking { range.len } else { 0 };
            sum.4 += if self.objects[range.object].pin == Pin::Hard { range.len } else { 0 };
        }
        for (payer, pieces) in self.tombstones.reserved().paid() {
            for piece in pieces.iter().filter(|piece| self.is_charged(piece.segment)) {
                let sum = sums.entry(&*self.tenants.accounts[payer].name).or_default();
                (sum.0, sum.1) = (sum.0 + piece.len, sum.1 + 1);
            }
        }
        for (object, record) in self.objects.iter() {
            if self.counts_in_memory(object) {
                sums.entry(split_tenant(&record.key).0).or_default().2 += 1;
            }
        }
        for (_, account) in self.tenants.accounts.iter() {
            let sum = sums.remove(&*account.name).unwrap_or_default();
            let Account { bytes, ranges, objects, sinking, pinned, .. } = *account;
            let charged = (bytes, ranges, objects, sinking, pinned);
            ensure("a tenant is charged for what it has in memory", charged == sum, || {
                format!("{account:?}: {sum:?}")
            })?;
            let is_needed = account.quota.is_some() || account.ranges > 0;
            ensure("an account has a quota or a range", is_needed, || format!("{account:?}"))?;
        }
        ensure("each tenant with a range has an account", sums.is_empty(), || format!("{sums:?}"))
    }
}
