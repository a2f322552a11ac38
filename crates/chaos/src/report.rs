//! The report of a run, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::{Evidence, Verdict};
use crate::fault::Fault;
use crate::history::{Call, Op, Outcome};
use crate::monotonic::SECOND_NS;

/// How long after a fault its effects are attributed to it, unless another fault begins before.
const AFTERMATH_NS: u64 = 15 * SECOND_NS;

/// The longest times without a successful call, over clients whose host was under no fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gaps {
    count: u64,
    read_ns: u64,
    write_ns: u64,
}

/// The whole report.
pub(crate) fn text(evidence: &Evidence, verdict: &Verdict) -> String {
    let mut text = calls(&evidence.ops);
    let wrong = |op: &&Op| matches!(op.outcome, Outcome::Wrong(_));
    let uncertain = |op: &&Op| op.is_uncertain();
    let count = |is: &dyn Fn(&&Op) -> bool| evidence.ops.iter().filter(is).count();
    let lines = [
        ("wrong bytes", count(&wrong)),
        ("changes whose outcome is unknown", count(&uncertain)),
        ("values whose nodes are known", evidence.holders.len()),
    ];
    for (what, count) in lines {
        let _ = writeln!(text, "{count:>9}  {what}");
    }
    for (cause, count) in &verdict.misses {
        let _ = writeln!(text, "{count:>9}  misses: {}", cause.name());
    }
    let _ = writeln!(text, "{:>9}  keys that were there at the end", verdict.found);
    for (cause, count) in &verdict.gone {
        let _ = writeln!(text, "{count:>9}  keys that were not: {}", cause.name());
    }
    let _ = writeln!(text, "{:>9}  violations", verdict.violations.len());
    text.push_str(&unavailability(evidence));
    text
}

fn calls(ops: &[Op]) -> String {
    let mut counts: BTreeMap<Call, [u64; 4]> = BTreeMap::new();
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut longest: BTreeMap<Call, u64> = BTreeMap::new();
    for op in ops {
        let column = match &op.outcome {
            Outcome::Done | Outcome::Got(_) => 0,
            Outcome::Missing => 1,
            Outcome::Failed(code) => {
                *codes.entry(code).or_default() += 1;
                2
            }
            Outcome::Unknown | Outcome::Wrong(_) => 3,
        };
        counts.entry(op.call).or_default()[column] += 1;
        if column < 3 {
            let took = longest.entry(op.call).or_default();
            *took = (*took).max(op.ended_ns - op.began_ns);
        }
    }
    let mut text = "\n| calls | done | nothing there | failed | no answer | longest |\n".to_owned();
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (call, [done, missing, failed, unknown]) in counts {
        let took = seconds(longest.get(&call).copied().unwrap_or_default());
        let row = format!("| {} | {done} | {missing} | {failed} | {unknown} |", call.name());
        let _ = writeln!(text, "{row} {took} s |");
    }
    let codes = codes.iter().map(|(code, count)| format!("{code} {count}"));
    let _ = writeln!(text, "\nerrors: {}\n", codes.collect::<Vec<_>>().join(", "));
    text
}

fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / SECOND_NS as f64)
}

fn unavailability(evidence: &Evidence) -> String {
    let mut kinds: BTreeMap<&str, Gaps> = BTreeMap::new();
    let mut workers: BTreeMap<&str, Vec<&Op>> = BTreeMap::new();
    for op in evidence.ops.iter().filter(|op| op.began_ns < evidence.settled_ns) {
        workers.entry(&op.worker).or_default().push(op);
    }
    for ops in workers.values_mut() {
        ops.sort_by_key(|op| op.ended_ns);
    }
    for fault in &evidence.faults {
        let window = window(fault, &evidence.faults);
        let gaps = kinds.entry(fault.kind).or_default();
        gaps.count += 1;
        for ops in workers.values() {
            let host = ops[0].host();
            let meets = |other: &Fault| other.began_ns < window[1] && other.ended_ns > window[0];
            let is_touched =
                |other: &Fault| meets(other) && other.hosts.iter().any(|it| it == host);
            if evidence.faults.iter().any(is_touched) {
                continue;
            }
            gaps.read_ns = gaps.read_ns.max(gap(ops, window, false));
            gaps.write_ns = gaps.write_ns.max(gap(ops, window, true));
        }
    }
    let mut text = "\n| fault | times | no get for up to | no put for up to |\n".to_owned();
    text.push_str("| --- | ---: | ---: | ---: |\n");
    for (kind, Gaps { count, read_ns, write_ns }) in kinds {
        let (read, write) = (seconds(read_ns), seconds(write_ns));
        let _ = writeln!(text, "| {kind} | {count} | {read} s | {write} s |");
    }
    text
}

/// The time attributed to a fault: from its beginning until some time after its end, or until the next fault.
fn window(fault: &Fault, all: &[Fault]) -> [u64; 2] {
    let after_ns = fault.ended_ns.saturating_add(AFTERMATH_NS);
    let next = all.iter().map(|other| other.began_ns).filter(|&at| at > fault.ended_ns).min();
    [fault.began_ns, next.map_or(after_ns, |at| at.min(after_ns))]
}

/// The longest time without a successful call within a window. `ops` are sorted by their ends.
fn gap(ops: &[&Op], [from, to]: [u64; 2], of_writes: bool) -> u64 {
    let is_success = |op: &&&Op| match op.outcome {
        Outcome::Got(_) | Outcome::Missing => !of_writes,
        Outcome::Done => of_writes && op.call.writes(),
        _ => false,
    };
    // The worker may have started or been killed within the window; only the time in between counts.
    let from = from.max(ops.first().map_or(u64::MAX, |op| op.began_ns));
    let to = to.min(ops.iter().map(|op| op.began_ns).max().unwrap_or(0));
    let first = ops.partition_point(|op| op.ended_ns <= from);
    let here = ops[first..].iter().take_while(|op| op.ended_ns < to);
    let ends = here.filter(is_success).map(|op| op.ended_ns);
    let (mut last, mut longest) = (from, 0);
    for end in ends.chain([to]) {
        longest = longest.max(end.saturating_sub(last));
        last = end;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(call: Call, began_ns: u64, outcome: Outcome) -> Op {
        let (worker, key) = ("c1.0.0".to_owned(), "k".to_owned());
        Op { worker, call, key, value: 1, began_ns, ended_ns: began_ns + 1, outcome }
    }

    #[test]
    fn a_gap_is_the_longest_time_without_success_while_somebody_tried() {
        let failed = || Outcome::Failed("X".to_owned());
        let ops = [
            op(Call::Get, 10, Outcome::Got(1)),
            op(Call::Put, 20, Outcome::Done),
            op(Call::Get, 30, failed()),
            op(Call::Put, 40, failed()),
            op(Call::Get, 50, Outcome::Missing),
            op(Call::Remove, 60, Outcome::Done),
            op(Call::Get, 70, failed()),
            // The process was killed.
            Op { ended_ns: u64::MAX, ..op(Call::Get, 80, Outcome::Unknown) },
        ];
        let ops: Vec<&Op> = ops.iter().collect();
        for (window, of_writes, expected) in [
            ([0, 100], false, 40),
            ([0, 100], true, 59),
            ([45, 100], false, 29),
            ([25, 45], false, 20),
            ([0, 5], false, 0),
            ([90, 100], true, 0),
        ] {
            assert_eq!(gap(&ops, window, of_writes), expected, "{window:?} {of_writes}");
        }
    }

    #[test]
    fn a_fault_is_blamed_until_the_next_begins() {
        let fault = |began_ns, ended_ns| Fault { kind: "x", hosts: Vec::new(), began_ns, ended_ns };
        let second = |seconds: u64| seconds * SECOND_NS;
        let all = [fault(second(1), second(2)), fault(second(9), second(10))];
        assert_eq!(window(&all[0], &all), [second(1), second(9)]);
        assert_eq!(window(&all[1], &all), [second(9), second(10) + AFTERMATH_NS]);
    }
}
