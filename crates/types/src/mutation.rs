//! Rules that a test breaks on purpose, to see that a simulation finds it. Only builds with debug assertions can.

/// A rule, in the words in which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// L1: a range is taken only when the entries that overlap it are gone.
    OverlappedEntriesAreDropped,
    /// L2: an entry is complete only when all its parts are in place.
    AllPartsAreThere,
    /// L3: a node obeys only the highest epoch that it has seen.
    OldLeadersAreRefused,
    /// L7: a write under an older grant than the last that began in its range is refused.
    OlderGrantsAreRefused,
    /// L7: an older writer has stopped before a newer one's bytes land.
    OlderWritersStopFirst,
    /// L8: a removal or a replacement is over only when no node holds the old version any more.
    RemainsAreDropped,
    /// L8: before a client reads a version, it has the nodes drop what they may hold of older ones.
    PredecessorsAreDropped,
    /// A node drops nothing for a leader before the one that it obeys.
    OldLeadersDropsAreRefused,
    /// L8: a range that readers may have routes to is not granted again.
    LeavingRangesAreReserved,
    /// A lookup grants a lease, and what is leased is not evicted.
    ReadsGrantLeases,
    /// L4, L6: a client that removes or replaces a key is told of all versions of it that nodes may still hold.
    RemovalsReachTheNodes,
    /// L5: what is reported to a new leader is reserved before anything is granted there.
    RangesAreReserved,
    /// L5: of the versions of a key that are reported the highest is served.
    HighestVersionWins,
    /// L5: a new leader reserves a range that was being written until the writer must have stopped.
    WritersAreWaitedFor,
    /// L5: a leader uses what it learned as a standby only after the node has told what changed since.
    ShadowsAreConfirmed,
    /// L5: a node that tells what changed tells of what was dropped too.
    DropsAreTold,
    /// L6: what was removed or put since a leader began is not overruled by a late inventory.
    LatecomersGiveWay,
    /// L4: what nodes drop is confirmed before a removal is acknowledged.
    DropsAreConfirmed,
    /// A removal that is repeated under a later leader takes only the versions that it took before.
    RepeatsAreBounded,
    /// Entries that a restarted node no longer holds count as lost.
    RestartedNodesAreReviewed,
    /// A `PutEnd` that was sent twice and finds no put may have succeeded the first time: its outcome is unknown.
    LostEndsAreUnknown,
    /// L6: a client begins reads with cached routes only for as long as their leader's last pong allows.
    RoutesEndWithTheirLeader,
    /// L4, L6: before a client uses a copy in its hot cache, it asks the node whether that still holds the version, unless the
    /// node has promised so.
    CopiesAreAskedFor,
    /// L4, L6: a node confirms no drop of an entry while it promises that it holds it.
    PromisesAreKept,
    /// L6: a new leader changes nothing before the routes of earlier leaders are over, or every member has reported.
    RoutesAreWaitedFor,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 25] = [
        Rule::OverlappedEntriesAreDropped,
        Rule::AllPartsAreThere,
        Rule::OldLeadersAreRefused,
        Rule::OlderGrantsAreRefused,
        Rule::OlderWritersStopFirst,
        Rule::RemainsAreDropped,
        Rule::PredecessorsAreDropped,
        Rule::OldLeadersDropsAreRefused,
        Rule::LeavingRangesAreReserved,
        Rule::ReadsGrantLeases,
        Rule::RemovalsReachTheNodes,
        Rule::RangesAreReserved,
        Rule::HighestVersionWins,
        Rule::WritersAreWaitedFor,
        Rule::ShadowsAreConfirmed,
        Rule::DropsAreTold,
        Rule::LatecomersGiveWay,
        Rule::DropsAreConfirmed,
        Rule::RestartedNodesAreReviewed,
        Rule::RepeatsAreBounded,
        Rule::LostEndsAreUnknown,
        Rule::RoutesEndWithTheirLeader,
        Rule::CopiesAreAskedFor,
        Rule::PromisesAreKept,
        Rule::RoutesAreWaitedFor,
    ];
}

#[cfg(debug_assertions)]
std::thread_local! {
    static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(debug_assertions)]
static BROKEN_EVERYWHERE: std::sync::OnceLock<Rule> = std::sync::OnceLock::new();

/// Breaks a rule in all threads of this process, until its end. The first one counts.
#[cfg(debug_assertions)]
pub fn break_rule_everywhere(rule: Rule) {
    BROKEN_EVERYWHERE.get_or_init(|| rule);
}

/// Breaks a rule in this thread, or none.
#[cfg(debug_assertions)]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.set(rule);
}

/// Whether a rule is broken; never so without debug assertions.
#[cfg(debug_assertions)]
#[must_use]
pub fn is_broken(rule: Rule) -> bool {
    BROKEN.get() == Some(rule) || BROKEN_EVERYWHERE.get() == Some(&rule)
}

/// Whether a rule is broken; never so without debug assertions.
#[cfg(not(debug_assertions))]
#[must_use]
#[inline(always)]
pub const fn is_broken(_rule: Rule) -> bool {
    false
}
