//! Checks that the reads of one key are those of a single register.
//!
//! Each value is written once. So the search over all orders of calls with unknown outcomes reduces to intervals
//! (Gibbons and Korach, *Testing Shared Memories*, 1997).
//!
//! The interval of a value begins with the first end of a call that wrote or read it. It ends with the last beginning
//! of such a call. The value must be present throughout. Two intervals may not overlap, and no other write or removal
//! may lie wholly within one. A failed write has no end; without a read, it need not have happened. Misses are not
//! judged here.

use std::collections::BTreeMap;

use crate::history::{Call, Op, Outcome};
use crate::value::ValueId;

/// The interval in which the calls on one value require it to be present.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    first_end_ns: u64,
    last_begin_ns: u64,
    write: &'a Op,
    /// The read that began last, if there is any.
    read: Option<&'a Op>,
}

impl Span<'_> {
    fn of(write: &Op) -> Span<'_> {
        let first_end_ns = if write.outcome == Outcome::Done { write.ended_ns } else { u64::MAX };
        Span { first_end_ns, last_begin_ns: write.began_ns, write, read: None }
    }

    /// Whether the value must be present during an interval. Otherwise it need only be present at some moment.
    fn lasts(&self) -> bool {
        self.first_end_ns < self.last_begin_ns
    }

    /// The bounds of the interval in which the value must be present, or of the moment at which it was.
    fn bounds(&self) -> (u64, u64) {
        let (one, other) = (self.first_end_ns, self.last_begin_ns);
        (one.min(other), one.max(other))
    }
}

/// Judges all calls on one key.
///
/// # Errors
/// The first contradiction, with the calls that show it.
pub(crate) fn check(ops: &[&Op]) -> Result<(), String> {
    let mut spans: BTreeMap<ValueId, Span<'_>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.call.writes()) {
        spans.insert(op.value, Span::of(op));
    }
    for &op in ops {
        match &op.outcome {
            Outcome::Wrong(text) => return Err(format!("bytes are wrong: {text}\n{op}")),
            &Outcome::Got(id) => {
                let Some(span) = spans.get_mut(&id) else {
                    return Err(format!("what nobody wrote was read\n{op}"));
                };
                if op.ended_ns < span.write.began_ns {
                    return Err(format!("it was read before it was written\n{}\n{op}", span.write));
                }
                span.first_end_ns = span.first_end_ns.min(op.ended_ns);
                if op.began_ns > span.last_begin_ns {
                    (span.last_begin_ns, span.read) = (op.began_ns, Some(op));
                }
            }
            _ => {}
        }
    }
    let is_removal = |op: &&&Op| op.call == Call::Remove && op.outcome == Outcome::Done;
    let removals = ops.iter().filter(is_removal).map(|op| Span::of(op));
    let happened = spans.values().copied().filter(|span| span.first_end_ns < u64::MAX);
    disjoint(happened.chain(removals).collect())?;
    in_order(ops, &spans)
}

/// Checks that no value returns after another value replaced it, or after a removal.
fn disjoint(spans: Vec<Span<'_>>) -> Result<(), String> {
    let (mut lasting, moments): (Vec<_>, Vec<_>) = spans.into_iter().partition(Span::lasts);
    lasting.sort_by_key(Span::bounds);
    for pair in lasting.windows(2) {
        if pair[1].bounds().0 < pair[0].bounds().1 {
            return Err(conflict(
                "a value came back that another had replaced",
                &pair[0],
                &pair[1],
            ));
        }
    }
    for moment in &moments {
        let (from, to) = moment.bounds();
        let before = lasting.partition_point(|span| span.bounds().0 < from);
        let around = before.checked_sub(1).map(|at| lasting[at]);
        if let Some(around) = around.filter(|span| to < span.bounds().1) {
            let what = match moment.write.call {
                Call::Remove => "a value came back that was removed",
                _ => "a value came back that another had replaced",
            };
            return Err(conflict(what, &around, moment));
        }
    }
    Ok(())
}

fn conflict(what: &str, one: &Span<'_>, other: &Span<'_>) -> String {
    let mut lines = vec![what.to_owned()];
    for span in [one, other] {
        lines.push(span.write.to_string());
        lines.extend(span.read.map(Op::to_string));
    }
    lines.join("\n")
}

/// Checks that an acknowledged upsert hides every write that was answered before it began, even with an error.
/// Versions grow, so such a write cannot take effect later. A plain register would allow that.
fn in_order(ops: &[&Op], spans: &BTreeMap<ValueId, Span<'_>>) -> Result<(), String> {
    let is_upsert = |op: &&&Op| op.call == Call::Upsert && op.outcome == Outcome::Done;
    let mut done: Vec<&Op> = ops.iter().filter(is_upsert).copied().collect();
    done.sort_by_key(|op| op.ended_ns);
    // For each upsert in order of ends: the one among it and its predecessors that began last.
    let mut latest: Vec<&Op> = Vec::with_capacity(done.len());
    for op in &done {
        let last = latest.last().copied().filter(|last| last.began_ns > op.began_ns);
        latest.push(last.unwrap_or(op));
    }
    for &read in ops {
        let Outcome::Got(id) = read.outcome else { continue };
        let before = done.partition_point(|op| op.ended_ns < read.began_ns);
        let Some(newest) = before.checked_sub(1).map(|at| latest[at]) else { continue };
        let Some(write) = spans.get(&id).map(|span| span.write) else { continue };
        if write.ended_ns < newest.began_ns {
            return Err(format!("an older value was read\n{write}\n{newest}\n{read}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a history: calls with semicolons between them. Each has kind, value, beginning, end and outcome.
    fn ops(text: &str) -> Vec<Op> {
        let read = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let [call, value, began, ended, how] = words[..] else { panic!("{text}") };
            let value: u64 = value.parse().expect("a number");
            let call = match call {
                "up" => Call::Upsert,
                "put" => Call::Put,
                "rm" => Call::Remove,
                _ => Call::Get,
            };
            let outcome = match (call, how) {
                (_, "miss") => Outcome::Missing,
                (_, "fail") => Outcome::Failed("X".to_owned()),
                (_, "wrong") => Outcome::Wrong("torn".to_owned()),
                (Call::Get, _) => Outcome::Got(value),
                _ => Outcome::Done,
            };
            let ended_ns = ended.parse().unwrap_or(u64::MAX);
            let began_ns = began.parse().expect("a number");
            let (worker, key) = ("w".to_owned(), "k".to_owned());
            Op { worker, call, key, value, began_ns, ended_ns, outcome }
        };
        text.split(';').map(read).collect()
    }

    fn verdict(text: &str) -> Result<(), String> {
        let ops = ops(text);
        let found = check(&ops.iter().collect::<Vec<_>>());
        found.map_err(|text| text.lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn what_one_register_could_give_passes() {
        for history in [
            "up 1 0 1 ok; get 1 2 3 ok; up 2 4 5 ok; get 2 6 7 ok",
            // Overlapping writes take effect in either order, as long as all reads agree.
            "up 1 0 9 ok; up 2 1 8 ok; get 2 10 11 ok",
            "up 1 0 9 ok; up 2 1 8 ok; get 1 10 11 ok",
            // A read that overlaps a write may return either value.
            "up 1 0 1 ok; up 2 4 9 ok; get 2 5 6 ok; get 2 7 8 ok",
            "up 1 0 1 ok; up 2 4 9 ok; get 1 5 6 ok; get 2 7 8 ok",
            // A failed write takes effect late, or never.
            "up 1 0 1 ok; put 2 2 3 fail; get 1 4 5 ok; get 2 6 7 ok",
            "up 1 0 1 ok; put 2 2 never fail; up 3 4 5 ok; get 2 6 7 ok",
            "up 1 0 1 ok; up 2 2 3 fail; get 1 4 5 ok",
            // Removals, and misses at any time.
            "up 1 0 1 ok; get 1 2 3 ok; rm 0 4 5 ok; get 0 6 7 miss; up 2 8 9 ok; get 2 10 11 ok",
            "up 1 0 1 ok; get 0 2 3 miss; get 1 4 5 ok",
            "up 1 0 1 ok; rm 0 2 9 ok; get 1 4 5 ok",
            "up 1 0 1 ok; rm 0 2 3 fail; get 1 4 5 ok",
        ] {
            assert_eq!(verdict(history), Ok(()), "{history}");
        }
    }

    #[test]
    fn what_no_register_gives_is_found() {
        for (history, expected) in [
            (
                "up 1 0 1 ok; up 2 2 3 ok; get 1 4 5 ok",
                "a value came back that another had replaced",
            ),
            (
                "up 1 0 9 ok; up 2 1 9 ok; get 1 2 3 ok; get 2 4 5 ok; get 1 6 7 ok",
                "a value came back that another had replaced",
            ),
            // The failed write was read, so it took effect before that read.
            (
                "up 1 0 1 ok; up 2 2 3 fail; get 2 4 5 ok; get 1 6 7 ok",
                "a value came back that another had replaced",
            ),
            ("up 1 0 1 ok; rm 0 2 3 ok; get 1 4 5 ok", "a value came back that was removed"),
            // The same holds for a write with an unknown outcome, once it was read.
            (
                "up 1 0 never fail; get 1 1 2 ok; rm 0 3 4 ok; get 1 5 6 ok",
                "a value came back that was removed",
            ),
            ("get 1 0 1 ok; up 1 2 3 ok", "it was read before it was written"),
            ("get 7 0 1 ok", "what nobody wrote was read"),
            ("get 7 0 1 wrong", "bytes are wrong: torn"),
            // A register would allow this; growing versions do not.
            ("up 1 0 1 fail; up 2 2 3 ok; get 1 4 5 ok", "an older value was read"),
        ] {
            assert_eq!(verdict(history), Err(expected.to_owned()), "{history}");
        }
    }

    /// Whether some order of the calls explains all reads. Each call takes effect between its beginning and its end.
    fn has_order(ops: &[Op], left: u32, register: u64) -> bool {
        let open = |at: &usize| left & (1 << at) != 0;
        let all: Vec<usize> = (0..ops.len()).filter(open).collect();
        let must = |at: usize| ops[at].ended_ns < u64::MAX;
        if !all.iter().any(|&at| must(at)) {
            return true;
        }
        let first_end = all.iter().map(|&at| ops[at].ended_ns).min().unwrap_or(u64::MAX);
        all.iter().any(|&at| {
            let op = &ops[at];
            let next = match op.outcome {
                Outcome::Got(id) if id != register => return false,
                Outcome::Got(id) => id,
                _ => op.value,
            };
            op.began_ns <= first_end && has_order(ops, left & !(1 << at), next)
        })
    }

    /// The intervals agree with a search over all orders, on small random histories without the check of versions.
    #[test]
    fn intervals_say_what_a_search_over_all_orders_says() {
        let mut chance = mooncake_types::Chance::new(11);
        let mut counts = [0; 2];
        for round in 0..20_000 {
            let mut times: Vec<u64> = (0..14).collect();
            for at in (1..times.len()).rev() {
                times.swap(at, chance.below(at as u64 + 1) as usize);
            }
            let made: Vec<Op> = (0..7)
                .map(|at| {
                    let (one, other) = (times[2 * at], times[2 * at + 1]);
                    let (began_ns, mut ended_ns) = (one.min(other), one.max(other));
                    let (call, value, mut outcome) = match at {
                        0..3 => (Call::Put, at as u64 + 1, Outcome::Done),
                        // The removal writes a value that no get reads.
                        3 => (Call::Remove, 99, Outcome::Done),
                        _ => (Call::Get, 0, Outcome::Got(1 + chance.below(3))),
                    };
                    if at == 2 && round % 2 == 0 {
                        (outcome, ended_ns) = (Outcome::Unknown, u64::MAX);
                    }
                    let (worker, key) = ("w".to_owned(), "k".to_owned());
                    Op { worker, call, key, value, began_ns, ended_ns, outcome }
                })
                .collect();
            let found = check(&made.iter().collect::<Vec<_>>());
            let expected = has_order(&made, (1 << made.len()) - 1, 0);
            assert_eq!(found.is_ok(), expected, "round {round}: {found:?}\n{made:#?}");
            counts[usize::from(expected)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 500), "{counts:?}");
    }
}
