//! How near segments are: the nearer, the likelier does one failure take several of them.

use std::sync::Arc;

use super::Segments;

impl Segments {
    /// How near two segments are: 0 if they share no failure domain, more for a nearer domain, most for the same
    /// client.
    pub(crate) fn nearness(&self, one: u32, other: u32) -> u8 {
        let (one, other) = (&self[one], &self[other]);
        if one.client == other.client {
            return u8::MAX;
        }
        let level = one.domains.iter().position(|domain| other.domains.contains(domain));
        level.map_or(0, |level| u8::MAX - 1 - level as u8)
    }

    /// How near a segment is to the nearest of several.
    pub(crate) fn nearness_to_any(&self, slot: u32, others: impl Iterator<Item = u32>) -> u8 {
        others.map(|other| self.nearness(slot, other)).max().unwrap_or(0)
    }

    /// Whether a segment that takes puts lies outside all of these domains. No segment may lie in two of them.
    pub(crate) fn are_some_outside(&self, domains: impl Iterator<Item = u32>) -> bool {
        let inside: usize = domains.map(|id| self.domains.counts(id).1).sum();
        inside < self.grantable().len()
    }

    /// The domains that a segment's node named.
    pub(crate) fn named_domains(&self, slot: u32) -> Vec<Arc<str>> {
        let named = self[slot].domains.iter().skip(1);
        named.map(|&id| self.domains.name(id)).collect()
    }
}
