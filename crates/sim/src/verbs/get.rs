use mooncake_ops::{GetItem, GetOp, Part, Route, RoutesOp};
use mooncake_types::{Chance, ErrorCode, SegmentId};

use super::Doer;
use super::content::{Wanted, check_item};
use super::routes::RoutedGet;
use crate::key::{KEYS, some_keys};
use crate::run_state::RunState;
use crate::task::{Task, leak};

/// A get of whole objects, or of parts of them.
pub(super) fn random(doer: &Doer<'_>, run_state: &mut RunState) -> Task {
    let keys = some_keys(&mut run_state.chance, run_state.keys);
    match run_state.chance.below(3) {
        0 => ranges(keys, doer, run_state),
        _ => get(keys, doer, run_state),
    }
}

pub(crate) fn get(keys: Vec<usize>, doer: &Doer<'_>, run_state: &mut RunState) -> Task {
    let items = keys.iter().map(|&key| GetItem::whole(KEYS[key], Some(run_state.most_len)));
    let op = begin(leak(items.collect()), &keys, doer, run_state);
    Task::new(op, keys, run_state, |results, mut after| {
        for (position, result) in results.into_iter().enumerate() {
            let whole = |len| vec![(Part { from: 0, len }, true)];
            check_item(position, result.map(whole), &mut after);
        }
        None
    })
}

fn begin(
    items: &'static [GetItem<'static>],
    keys: &[usize],
    doer: &Doer<'_>,
    run_state: &mut RunState,
) -> RoutedGet {
    let op = GetOp::new(items, doer.own, Chance::new(run_state.chance.bits()));
    doer.routes.get(op, keys, doer.now, run_state)
}

/// A few parts, some of them past the end of most objects.
fn random_parts(run_state: &mut RunState) -> &'static [Part] {
    let half = run_state.most_len / 2 + 1;
    let mut part =
        || Part { from: run_state.chance.below(half), len: run_state.chance.below(half) };
    let count = [1, 1, 2, 3][part().from as usize % 4];
    leak((0..count).map(|_| part()).collect())
}

fn ranges(keys: Vec<usize>, doer: &Doer<'_>, run_state: &mut RunState) -> Task {
    let parts: Vec<_> = keys.iter().map(|_| random_parts(run_state)).collect();
    let items = keys.iter().zip(&parts).map(|(&key, parts)| GetItem::parts(KEYS[key], parts));
    let op = begin(leak(items.collect()), &keys, doer, run_state);
    Task::new(op, keys, run_state, move |results, mut after| {
        for (position, result) in results.into_iter().enumerate() {
            check_item(position, result.map(|len| there(parts[position], len)), &mut after);
        }
        None
    })
}

/// The parts, each with whether the object has it.
fn there(parts: &[Part], object_len: u64) -> Vec<Wanted> {
    parts.iter().map(|part| (*part, part.lies_within(object_len))).collect()
}

/// A session of gets: one route is looked up, and several reads of parts use it.
pub(super) fn session(own: &'static [SegmentId], run_state: &mut RunState) -> Task {
    let key = run_state.any_key();
    let op = RoutesOp::new(leak(vec![KEYS[key]]));
    Task::new(op, vec![key], run_state, move |found, mut after| {
        let began = after.began;
        match found.into_iter().next()? {
            Ok(route) => Some(held(Session { key, own, route, began, reads: 3 }, after.run_state)),
            Err(code) => {
                check_item(0, Err(code), &mut after);
                None
            }
        }
    })
}

struct Session {
    key: usize,
    own: &'static [SegmentId],
    route: Route,
    /// When the route was looked up. The object may have been replaced since.
    began: u64,
    reads: u32,
}

fn held(session: Session, run_state: &mut RunState) -> Task {
    let Session { key, own, ref route, began, .. } = session;
    let parts = random_parts(run_state).iter().copied();
    let parts: Vec<Part> = parts.filter(|part| part.lies_within(route.object_len())).collect();
    let items = leak(vec![GetItem::parts(KEYS[key], leak(parts.clone()))]);
    let chance = Chance::new(run_state.chance.bits());
    let op = GetOp::held(items, vec![Some(route.clone())], own, chance);
    let task = Task::new(op, vec![key], run_state, move |results, mut after| {
        // An ended lease, or a version that was replaced or removed, says nothing about the key.
        if let Err(ErrorCode::LeaseExpired | ErrorCode::ObjectNotFound) = results[0] {
            after.run_state.tally.missed += 1;
            return None;
        }
        let found = results[0].map(|len| there(&parts, len));
        let version = check_item(0, found, &mut after);
        if version.is_some_and(|version| version != session.route.version()) {
            let text = format!("{version:?} by a route to {}", session.route.version());
            after.run_state.blame("a session reads one version", text);
        }
        let goes_on = session.reads > 1 && results[0].is_ok();
        goes_on.then(|| held(Session { reads: session.reads - 1, ..session }, after.run_state))
    });
    task.since(began)
}
