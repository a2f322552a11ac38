//! Rules of recovery that can be broken on purpose, so that a test can show that it would notice.

use mooncake_types::mutation::{self, is_broken};

use crate::Meta;

/// A rule that a build with the feature `mutations` can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Whoever removes or replaces a key is told of all that nodes may still hold of it.
    RemovalsReachTheNodes,
    /// What is reported is reserved before anything is granted there.
    RangesAreReserved,
    /// Of the versions of a key the highest is served.
    HighestVersionWins,
    /// A range that was being written is held back until its writer can do no harm.
    WritersAreWaitedFor,
    /// What was removed or put since the master began is not overruled by a late inventory.
    LatecomersGiveWay,
    /// A new leader changes nothing before routes from under the last one are over, or every member has come.
    RoutesAreWaitedFor,
}

impl Meta {
    /// From now on the state machine does not keep to a rule.
    #[cfg(feature = "mutations")]
    pub fn break_rule(&mut self, rule: Rule) {
        self.broken = Some(rule);
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn obeys(&self, rule: Rule) -> bool {
        self.broken != Some(rule) && !is_broken(rule.of_all())
    }

    #[cfg(not(feature = "mutations"))]
    #[expect(clippy::unused_self, reason = "a build that can break the rules of one leader looks")]
    pub(crate) fn obeys(&self, rule: Rule) -> bool {
        !is_broken(rule.of_all())
    }
}

impl Rule {
    /// The same for all leaders of a thread.
    const fn of_all(self) -> mutation::Rule {
        match self {
            Self::RemovalsReachTheNodes => mutation::Rule::RemovalsReachTheNodes,
            Self::RangesAreReserved => mutation::Rule::RangesAreReserved,
            Self::HighestVersionWins => mutation::Rule::HighestVersionWins,
            Self::WritersAreWaitedFor => mutation::Rule::WritersAreWaitedFor,
            Self::LatecomersGiveWay => mutation::Rule::LatecomersGiveWay,
            Self::RoutesAreWaitedFor => mutation::Rule::RoutesAreWaitedFor,
        }
    }
}
