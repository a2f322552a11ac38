//! Why a get may miss. The pool is never full in a run, so nothing is evicted, and each miss needs another cause.

use crate::fault::Fault;
use crate::history::{Call, Holders, Op, Outcome};
use crate::monotonic::SECOND_NS;

/// How long a disturbed master or coordinator affects reads: a lease, an election, and the mounts and inventories of
/// nodes.
const MASTER_SETTLES_NS: u64 = 20 * SECOND_NS;

/// How long a disturbed node affects reads, until it is found again and silent connections are closed.
const NODE_SETTLES_NS: u64 = 10 * SECOND_NS;

/// The cause of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// No write of the key was acknowledged before the get.
    NothingThere,
    /// A removal may have taken effect last.
    Removal,
    /// The latest value may be one whose nodes were all disturbed since its write.
    Node,
    /// A master or the coordinator was disturbed.
    Master,
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::NothingThere => "nothing was there",
            Cause::Removal => "removed",
            Cause::Node => "its nodes were disturbed",
            Cause::Master => "the master was disturbed",
        }
    }
}

/// The faults and placements that may explain a miss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) faults: &'a [Fault],
    pub(crate) holders: &'a Holders,
    /// Whether the faults ended long ago, so that a disturbed master explains no miss.
    pub(crate) is_final: bool,
}

impl Circumstances<'_> {
    /// Why a get at this time may have missed, if there is a cause. `ops` are all calls on its key.
    pub(crate) fn cause(&self, ops: &[&Op], began_ns: u64, ended_ns: u64) -> Option<Cause> {
        let is_known =
            |op: &&&Op| op.call.writes() && op.outcome == Outcome::Done && op.ended_ns < began_ns;
        let Some(known_ns) = ops.iter().filter(is_known).map(|op| op.began_ns).max() else {
            return Some(Cause::NothingThere);
        };
        let until = |op: &&&Op| op.began_ns < ended_ns;
        let removes = |op: &&Op| op.call == Call::Remove && op.latest_effect_ns() >= known_ns;
        if ops.iter().filter(until).any(removes) {
            return Some(Cause::Removal);
        }
        let may_be_last = |op: &&&Op| op.call.writes() && op.ended_ns >= known_ns;
        let mut candidates = ops.iter().filter(until).filter(may_be_last);
        if candidates.any(|write| self.is_disturbed(write, ended_ns)) {
            return Some(Cause::Node);
        }
        let of_masters = |fault: &&Fault| fault.touches(&['m', 'e']);
        let mut masters = self.faults.iter().filter(of_masters);
        let meets = |fault: &Fault| {
            fault.began_ns < ended_ns && began_ns < fault.ended_ns.saturating_add(MASTER_SETTLES_NS)
        };
        (!self.is_final && masters.any(meets)).then_some(Cause::Master)
    }

    /// Whether every node that held the value was disturbed since its write. If its nodes are unknown, any node
    /// counts.
    fn is_disturbed(&self, write: &Op, until_ns: u64) -> bool {
        let since_ns = write.began_ns.saturating_sub(NODE_SETTLES_NS);
        let meets = |fault: &&Fault| fault.began_ns < until_ns && fault.ended_ns >= since_ns;
        let mut faults = self.faults.iter().filter(meets);
        match self.holders.get(&(write.key.clone(), write.value)) {
            None => faults.any(|fault| fault.touches(&['n'])),
            Some(hosts) => {
                let faults: Vec<_> = faults.collect();
                hosts.iter().all(|host| faults.iter().any(|fault| fault.hosts.contains(host)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SECOND_NS;

    fn op(call: Call, value: u64, [began, ended]: [u64; 2], outcome: Outcome) -> Op {
        let (worker, key) = ("c1.0.0".to_owned(), "k".to_owned());
        Op { worker, call, key, value, began_ns: began * S, ended_ns: ended * S, outcome }
    }

    fn fault(host: &str, began: u64, ended: u64) -> Fault {
        let hosts = vec![host.to_owned()];
        Fault { kind: "x", hosts, began_ns: began * S, ended_ns: ended * S }
    }

    #[test]
    fn a_miss_needs_a_cause() {
        let up = op(Call::Upsert, 1, [100, 101], Outcome::Done);
        let later = op(Call::Upsert, 2, [150, 151], Outcome::Done);
        let rm = |at: u64, outcome| op(Call::Remove, 0, [at, at + 1], outcome);
        let failed = || Outcome::Failed("RPC_FAIL".to_owned());
        let refused = || Outcome::Failed("OBJECT_HAS_LEASE".to_owned());
        let (node, other) = (fault("n1", 120, 125), fault("n2", 120, 125));
        let (early, master) = (fault("n1", 40, 45), fault("m2", 195, 196));
        for (what, ops, faults, expected) in [
            ("all is well", vec![&up], vec![], None),
            ("before", vec![], vec![], Some(Cause::NothingThere)),
            (
                "failed",
                vec![&op(Call::Upsert, 1, [1, 2], failed())],
                vec![],
                Some(Cause::NothingThere),
            ),
            ("removed", vec![&up, &rm(110, Outcome::Done)], vec![], Some(Cause::Removal)),
            ("perhaps", vec![&up, &rm(110, failed())], vec![], Some(Cause::Removal)),
            ("late", vec![&up, &rm(95, failed())], vec![], Some(Cause::Removal)),
            ("put again", vec![&up, &rm(110, Outcome::Done), &later], vec![], None),
            ("refused", vec![&up, &rm(95, refused())], vec![], None),
            ("too late", vec![&up, &rm(30, failed())], vec![], None),
            ("its node", vec![&up], vec![&node], Some(Cause::Node)),
            ("another node", vec![&up], vec![&other], None),
            ("its node, before", vec![&up], vec![&early], None),
            ("written again", vec![&up, &later], vec![&node], None),
            ("its master", vec![&up], vec![&master], Some(Cause::Master)),
            ("a client", vec![&up], vec![&fault("c1", 195, 205)], None),
        ] {
            let holders = [1, 2].map(|id| (("k".to_owned(), id), vec!["n1".to_owned()]));
            let (faults, holders): (Vec<Fault>, _) =
                (faults.into_iter().cloned().collect(), Holders::from(holders));
            let around = Circumstances { faults: &faults, holders: &holders, is_final: false };
            assert_eq!(around.cause(&ops, 200 * S, 201 * S), expected, "{what}");
            let last = Circumstances { is_final: true, ..around };
            let expected = expected.filter(|cause| *cause != Cause::Master);
            assert_eq!(last.cause(&ops, 200 * S, 201 * S), expected, "{what}, at the end");
        }
    }

    #[test]
    fn one_undisturbed_holder_is_enough_and_unknown_holders_may_be_anywhere() {
        let up = op(Call::Upsert, 1, [100, 101], Outcome::Done);
        let faults = [fault("n1", 120, 125)];
        let hosts = vec!["n1".to_owned(), "n2".to_owned()];
        let (both, unknown) = (Holders::from([(("k".to_owned(), 1), hosts)]), Holders::new());
        for (holders, expected) in [(both, None), (unknown, Some(Cause::Node))] {
            let around = Circumstances { faults: &faults, holders: &holders, is_final: true };
            assert_eq!(around.cause(&[&up], 200 * S, 201 * S), expected);
        }
    }
}
