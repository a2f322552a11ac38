//! Judges the answers that clients got.

mod linear;
mod miss;

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::history::{Call, Holders, Op, Outcome};
use crate::monotonic::SECOND_NS;

pub(crate) use miss::{Cause, Circumstances};

/// No call may take longer than this, under any fault.
const LONGEST_CALL_NS: u64 = 60 * SECOND_NS;

/// A violation on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) key: String,
    pub(crate) text: String,
}

/// The result of judging a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// How many misses had which cause.
    pub(crate) misses: BTreeMap<Cause, u64>,
    /// How many keys had a value at the end.
    pub(crate) found: u64,
    /// How many keys had no value at the end, by cause.
    pub(crate) gone: BTreeMap<Cause, u64>,
}

/// Everything that is known about a run.
#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) ops: Vec<Op>,
    pub(crate) holders: Holders,
    pub(crate) faults: Vec<Fault>,
    /// The moment from which on the cluster has had no faults for long.
    pub(crate) settled_ns: u64,
}

impl Evidence {
    /// The calls on each key, sorted by their beginnings.
    fn by_key(&self) -> BTreeMap<&str, Vec<&Op>> {
        let mut keys: BTreeMap<&str, Vec<&Op>> = BTreeMap::new();
        for op in &self.ops {
            keys.entry(&op.key).or_default().push(op);
        }
        keys.values_mut().for_each(|ops| ops.sort_by_key(|op| op.began_ns));
        keys
    }

    fn circumstances(&self, is_final: bool) -> Circumstances<'_> {
        Circumstances { faults: &self.faults, holders: &self.holders, is_final }
    }

    /// Each key of the run, with whether a get that begins now must find a value.
    pub(crate) fn expected(&self, now_ns: u64) -> Vec<(String, bool)> {
        let around = self.circumstances(true);
        let keys = self.by_key().into_iter();
        keys.map(|(key, ops)| (key.to_owned(), around.cause(&ops, now_ns, now_ns).is_none()))
            .collect()
    }

    /// Judges all calls.
    pub(crate) fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for (key, ops) in self.by_key() {
            let mut blame = |text: String| {
                verdict.violations.push(Violation { key: key.to_owned(), text });
            };
            if let Err(text) = linear::check(&ops) {
                blame(text);
            }
            for op in &ops {
                if self.took_too_long(op) {
                    blame(format!(
                        "a call took longer than {} s\n{op}",
                        LONGEST_CALL_NS / SECOND_NS
                    ));
                }
            }
            match self.last_get(&ops) {
                Some(Ok(None)) => verdict.found += 1,
                Some(Ok(Some(cause))) => *verdict.gone.entry(cause).or_default() += 1,
                Some(Err(text)) => blame(text),
                None => {}
            }
            for op in ops.iter().filter(|op| is_miss(op) && op.began_ns < self.settled_ns) {
                match self.circumstances(false).cause(&ops, op.began_ns, op.ended_ns) {
                    Some(cause) => *verdict.misses.entry(cause).or_default() += 1,
                    None => blame(format!("a get missed what was there\n{op}")),
                }
            }
        }
        verdict
    }

    /// Judges the last get of a key after the faults: earlier ones may miss. A miss needs a cause. `None` if no get
    /// was made.
    fn last_get(&self, ops: &[&Op]) -> Option<Result<Option<Cause>, String>> {
        let gets = ops.iter().filter(|op| op.call == Call::Get && op.began_ns >= self.settled_ns);
        let last = gets.max_by_key(|op| op.ended_ns)?;
        if let Outcome::Got(_) | Outcome::Wrong(_) = last.outcome {
            return Some(Ok(None));
        }
        let cause = self.circumstances(true).cause(ops, last.began_ns, last.ended_ns);
        let lost = || format!("what was acknowledged is lost\n{last}");
        Some(cause.map(Some).ok_or_else(lost))
    }

    /// Whether an answered call took too long. Calls of hosts under a fault do not count.
    fn took_too_long(&self, op: &Op) -> bool {
        let answered = op.outcome != Outcome::Unknown;
        let is_stopped = |fault: &Fault| {
            fault.hosts.iter().any(|host| host == op.host())
                && fault.began_ns < op.ended_ns
                && fault.ended_ns > op.began_ns
        };
        answered
            && op.ended_ns - op.began_ns > LONGEST_CALL_NS
            && !self.faults.iter().any(is_stopped)
    }

    /// The calls on a key as text, for a person.
    pub(crate) fn history_of(&self, key: &str) -> String {
        let ops = self.by_key().remove(key).unwrap_or_default();
        let mut text = String::new();
        for op in ops {
            text.push_str(&op.to_string());
            if let Some(hosts) = self.holders.get(&(op.key.clone(), op.value)) {
                text.push_str(&format!(" on {}", hosts.join(", ")));
            }
            text.push('\n');
        }
        text
    }
}

fn is_miss(op: &Op) -> bool {
    op.call == Call::Get && op.outcome == Outcome::Missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(call: Call, value: u64, began_s: u64, outcome: Outcome) -> Op {
        let (worker, key) = ("c1.0.0".to_owned(), "k".to_owned());
        let (began_ns, ended_ns) = (began_s * SECOND_NS, (began_s + 1) * SECOND_NS);
        Op { worker, call, key, value, began_ns, ended_ns, outcome }
    }

    fn judge(ops: Vec<Op>, faults: Vec<Fault>) -> Vec<String> {
        let holders = Holders::from([(("k".to_owned(), 1), vec!["n1".to_owned()])]);
        let evidence = Evidence { ops, holders, faults, settled_ns: 100 * SECOND_NS };
        let first = |violation: Violation| violation.text.lines().next().map(str::to_owned);
        evidence.judge().violations.into_iter().filter_map(first).collect()
    }

    #[test]
    fn what_is_lost_at_the_end_is_blamed_and_what_comes_back_is_not() {
        let up = || op(Call::Upsert, 1, 10, Outcome::Done);
        let get = |at, outcome| op(Call::Get, 0, at, outcome);
        let node = |at: u64| {
            let hosts = vec!["n1".to_owned()];
            Fault { kind: "x", hosts, began_ns: at * SECOND_NS, ended_ns: (at + 1) * SECOND_NS }
        };
        let lost = ["what was acknowledged is lost".to_owned()];
        let failed = || Outcome::Failed("RPC_FAIL".to_owned());
        assert_eq!(judge(vec![up(), get(110, Outcome::Missing)], vec![]), lost);
        assert_eq!(judge(vec![up(), get(110, failed())], vec![]), lost);
        assert_eq!(judge(vec![up(), get(110, Outcome::Missing)], vec![node(50)]), [""; 0]);
        let found = vec![up(), get(110, Outcome::Missing), get(120, Outcome::Got(1))];
        assert_eq!(judge(found, vec![]), [""; 0]);
        let missed = judge(vec![up(), get(50, Outcome::Missing)], vec![]);
        assert_eq!(missed, ["a get missed what was there"]);
    }

    #[test]
    fn a_call_that_takes_long_is_blamed_unless_its_host_was_stopped() {
        let long = Op { ended_ns: 90 * SECOND_NS, ..op(Call::Get, 0, 10, Outcome::Missing) };
        assert_eq!(judge(vec![long.clone()], vec![]), ["a call took longer than 60 s"]);
        let hosts = vec!["c1".to_owned()];
        let stop = Fault { kind: "x", hosts, began_ns: 20 * SECOND_NS, ended_ns: 80 * SECOND_NS };
        assert_eq!(judge(vec![long], vec![stop]), [""; 0]);
    }
}
