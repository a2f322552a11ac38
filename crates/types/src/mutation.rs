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
    /// L8: whoever reads a version has dropped first what nodes may hold of older ones.
    PredecessorsAreDropped,
    /// A node drops nothing for a leader before the one that it obeys.
    OldLeadersDropsAreRefused,
    /// L8: a range that readers may have routes to is not granted again.
    LeavingRangesAreReserved,
    /// A lookup grants a lease, and what is leased is not evicted.
    ReadsGrantLeases,
    /// L4, L6: whoever removes or replaces a key is told of all that nodes may still hold of it.
    RemovalsReachTheNodes,
    /// L5: what is reported to a new leader is reserved before anything is granted there.
    RangesAreReserved,
    /// L5: of the versions of a key that are reported the highest is served.
    HighestVersionWins,
    /// L5: a range that was being written is held back until its writer can do no harm.
    WritersAreWaitedFor,
    /// L5: what a leader knew when it stood by counts only once the node has told what changed since.
    ShadowsAreConfirmed,
    /// L5: a node that tells what changed tells of what was dropped too.
    DropsAreTold,
    /// L6: what was removed or put since a leader began is not overruled by a late inventory.
    LatecomersGiveWay,
    /// L4: what nodes drop is confirmed before a removal is acknowledged.
    DropsAreConfirmed,
    /// A removal that is asked for again takes only what it took before.
    RepeatsAreBounded,
    /// What a node does not hold any more that was started again counts as lost.
    RestartedNodesAreReviewed,
    /// The end of a put that was asked for twice and finds nothing may have been taken, and is not written again.
    LostEndsAreUnknown,
    /// L6: reads begin with known routes only for as long as the leader that named them said with its last answers.
    RoutesEndWithTheirLeader,
    /// L4, L6: of a copy in a hot cache the node is asked whether it still holds that version, unless it promised to.
    CopiesAreAskedFor,
    /// L4, L6: a node does not say that it dropped what it promised to hold.
    PromisesAreKept,
    /// L6: a new leader changes nothing before routes from under the last one are over, or every member has come.
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
