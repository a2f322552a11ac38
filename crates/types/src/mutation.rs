//! Rules that a test breaks on purpose, to check that a simulation finds the fault. Only builds with debug assertions
//! can break them.

/// A rule of the protocol. Each comment states the rule; `ARCHITECTURE.md` states L1 to L8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// L1: a writer takes a range only after the entries that overlap it were dropped.
    OverlappedEntriesAreDropped,
    /// L2: an entry is complete only when all its parts are in place.
    AllPartsAreThere,
    /// L3: a node refuses writes under an epoch below the epoch that its own master has named.
    OldLeadersAreRefused,
    /// L7: a node refuses a write under a grant older than the last one that began in the range.
    OlderGrantsAreRefused,
    /// L7: an older writer has stopped before bytes of a newer one land.
    OlderWritersStopFirst,
    /// L7: a node completes or abandons a one-sided write only when its writer cannot reach the range any more.
    WritersAreShutOut,
    /// L8: a removal or a replacement is over only when no node holds the old version.
    RemainsAreDropped,
    /// L8: before a client reads a version, it has the nodes drop the older versions that they may hold.
    PredecessorsAreDropped,
    /// A node obeys no drop that a leader named before the leader that it obeys.
    OldLeadersDropsAreRefused,
    /// L8: the master does not grant a range to which readers may have routes.
    LeavingRangesAreReserved,
    /// A lookup grants a lease, and the master evicts no leased object.
    ReadsGrantLeases,
    /// L4, L6: the reply to a removal or a replacement names all versions of the key that nodes may still hold.
    RemovalsReachTheNodes,
    /// L5: a new leader reserves the ranges that a segment reports before it grants any range there.
    RangesAreReserved,
    /// L5: of the reported versions of a key, the leader serves the highest.
    HighestVersionWins,
    /// L5: a new leader reserves a range with an unfinished write until its writer must have stopped.
    WritersAreWaitedFor,
    /// L5: a leader uses the ledger that it followed as a standby only after the node has reported the changes since.
    ShadowsAreConfirmed,
    /// L5: a node that reports changes also reports dropped entries.
    DropsAreTold,
    /// L6: a late inventory does not overrule removals and puts since the leader began.
    LatecomersGiveWay,
    /// L4: nodes confirm their drops before a client acknowledges a removal.
    DropsAreConfirmed,
    /// A removal that is repeated under a later leader removes only the versions that it removed before.
    RepeatsAreBounded,
    /// If a restarted node does not report an entry again, the entry counts as lost.
    RestartedNodesAreReviewed,
    /// A `PutEnd` that was sent twice and finds no put may have succeeded the first time: its outcome is unknown.
    LostEndsAreUnknown,
    /// L6: a client begins reads with cached routes only as long as the last pong of their leader allows.
    RoutesEndWithTheirLeader,
    /// L4, L6: before a client uses a copy in its hot cache, it asks the node whether the entry still holds the
    /// version. It need not ask while a promise of the node holds.
    CopiesAreAskedFor,
    /// L4, L6: a node confirms no drop of an entry while it promises that the entry stays.
    PromisesAreKept,
    /// L6: a new leader changes no object until the routes of earlier leaders have ended, or every member has
    /// reported.
    RoutesAreWaitedFor,
    /// L6: a leader serves changes only after the record marks the members behind that have not reported.
    TheSilentAreMarked,
    /// L5: a leader gives up no member that is reporting.
    ReportersAreAwaited,
    /// L5: a leader gives up no member whose node pings and is to report after others.
    TheHeardAreAwaited,
    /// L6: a segment that is behind reports after those that know what it lacks.
    WhoKnowsMoreReportsFirst,
    /// L4, L6: a segment that the record does not name, as it was struck, starts empty.
    StrangersStartEmpty,
    /// L4, L6: a segment starts empty if no leader can tell what it lacks.
    TheUntoldStartEmpty,
    /// L4, L6: with a segment that alone could tell what others lack, the record gives up what it knew of those.
    WhoAloneKnewTakesOthersAlong,
    /// L4, L6: the record overrules a version on segments that are behind before the last version in step is gone that
    /// hides it.
    ChangesAreWrittenAhead,
    /// L4, L6: a later leader believes no entry that the record overrules.
    OverruledEntriesAreDropped,
    /// L4, L6: that holds for keys in the filter of the record, too.
    FilteredKeysAreOverruled,
    /// A removal by pattern costs segments that are behind no other objects.
    PatternsSpareOthers,
    /// An object whose bytes a node lost does not count as there.
    LossesAreTaken,
    /// L6: a node tells a new leader what it lost before it reports what is left.
    LossesAreToldFirst,
    /// A put is granted only if its tenant has no more than its quota allows with it.
    QuotasAreKept,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 40] = [
        Rule::OverlappedEntriesAreDropped,
        Rule::AllPartsAreThere,
        Rule::OldLeadersAreRefused,
        Rule::OlderGrantsAreRefused,
        Rule::OlderWritersStopFirst,
        Rule::WritersAreShutOut,
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
        Rule::TheSilentAreMarked,
        Rule::ReportersAreAwaited,
        Rule::TheHeardAreAwaited,
        Rule::WhoKnowsMoreReportsFirst,
        Rule::StrangersStartEmpty,
        Rule::TheUntoldStartEmpty,
        Rule::WhoAloneKnewTakesOthersAlong,
        Rule::ChangesAreWrittenAhead,
        Rule::OverruledEntriesAreDropped,
        Rule::FilteredKeysAreOverruled,
        Rule::PatternsSpareOthers,
        Rule::LossesAreTaken,
        Rule::LossesAreToldFirst,
        Rule::QuotasAreKept,
    ];
}

#[cfg(debug_assertions)]
std::thread_local! {
    static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(debug_assertions)]
static BROKEN_EVERYWHERE: std::sync::OnceLock<Rule> = std::sync::OnceLock::new();

/// Breaks a rule in all threads, until the process ends. Only the first call has an effect.
#[cfg(debug_assertions)]
pub fn break_rule_everywhere(rule: Rule) {
    BROKEN_EVERYWHERE.get_or_init(|| rule);
}

/// Breaks this rule, or none, in the calling thread.
#[cfg(debug_assertions)]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.set(rule);
}

/// Whether a test has broken the rule. Always false without debug assertions.
#[cfg(debug_assertions)]
#[must_use]
pub fn is_broken(rule: Rule) -> bool {
    BROKEN.get() == Some(rule) || BROKEN_EVERYWHERE.get() == Some(&rule)
}

/// Whether a test has broken the rule. Always false without debug assertions.
#[cfg(not(debug_assertions))]
#[must_use]
#[inline(always)]
pub const fn is_broken(_rule: Rule) -> bool {
    false
}
