use mooncake_ops::{GetItem, GetOp, HoldOp, Part, Route};
use mooncake_types::{Chance, ErrorCode, SegmentId, Version};

use crate::cached::{CachedGet, Routes};
use crate::cell::{Wanted, one_version};
use crate::key::{KEYS, MAX_LEN, any_key, some_keys};
use crate::pool::Pool;
use crate::task::{After, Task, leak};

type Own = &'static [SegmentId];

/// Who gets: the segments of its process, and the routes that it knows.
pub(crate) struct Reader {
    pub(crate) own: Own,
    pub(crate) routes: Routes,
}

/// Gets of whole objects or of parts of them.
pub(crate) fn random(reader: &Reader, pool: &mut Pool) -> Task {
    let keys = some_keys(pool);
    match pool.chance.below(3) {
        0 => ranges(keys, reader, pool),
        _ => get(keys, reader, pool),
    }
}

pub(crate) fn get(keys: Vec<usize>, reader: &Reader, pool: &mut Pool) -> Task {
    let items = keys.iter().map(|&key| GetItem::whole(KEYS[key], Some(MAX_LEN)));
    let op = begin(leak(items.collect()), &keys, reader, pool);
    Task::new(op, keys, pool, |results, mut after| {
        for (position, result) in results.into_iter().enumerate() {
            let whole = |len| vec![(Part { from: 0, len }, Wanted(true))];
            check(position, result.map(whole), &mut after);
        }
        None
    })
}

fn begin(
    items: &'static [GetItem<'static>],
    keys: &[usize],
    reader: &Reader,
    pool: &mut Pool,
) -> CachedGet {
    let op = GetOp::new(items, reader.own, Chance::new(pool.chance.bits()));
    reader.routes.get(op, keys, pool.now, &mut pool.tally.hits)
}

/// A few parts, some of them past the end of most objects.
fn random_parts(chance: &mut Chance) -> &'static [Part] {
    let part = |chance: &mut Chance| {
        let from = chance.below(MAX_LEN / 2);
        Part { from, len: chance.below(200) }
    };
    leak((0..1 + chance.below(4)).map(|_| part(chance)).collect())
}

fn ranges(keys: Vec<usize>, reader: &Reader, pool: &mut Pool) -> Task {
    let parts: Vec<_> = keys.iter().map(|_| random_parts(&mut pool.chance)).collect();
    let items = keys.iter().zip(&parts).map(|(&key, parts)| GetItem::parts(KEYS[key], parts));
    let op = begin(leak(items.collect()), &keys, reader, pool);
    Task::new(op, keys, pool, move |results, mut after| {
        for (position, result) in results.into_iter().enumerate() {
            let found = result.map(|len| there(parts[position], len));
            check(position, found, &mut after);
        }
        None
    })
}

/// The parts, and which of them the object has.
fn there(parts: &[Part], object_len: u64) -> Vec<(Part, Wanted)> {
    parts.iter().map(|part| (*part, Wanted(part.lies_within(object_len)))).collect()
}

/// A route that is held, and several reads of parts by it.
pub(crate) fn session(own: Own, pool: &mut Pool) -> Task {
    let key = any_key(pool);
    let op = HoldOp::new(leak(vec![KEYS[key]]));
    Task::new(op, vec![key], pool, move |found, mut after| {
        let began_at = after.began_at;
        match found.into_iter().next()? {
            Ok(route) => Some(held(Session { key, own, route, began_at, reads: 4 }, after.pool)),
            Err(code) => {
                check(0, Err(code), &mut after);
                None
            }
        }
    })
}

struct Session {
    key: usize,
    own: Own,
    route: Route,
    /// When the route was looked up: what it leads to may have been replaced since.
    began_at: u64,
    reads: u32,
}

fn held(session: Session, pool: &mut Pool) -> Task {
    let Session { key, own, ref route, began_at, .. } = session;
    let parts: Vec<Part> = random_parts(&mut pool.chance)
        .iter()
        .filter(|part| part.lies_within(route.object_len()))
        .copied()
        .collect();
    let items = leak(vec![GetItem::parts(KEYS[key], leak(parts.clone()))]);
    let chance = Chance::new(pool.chance.bits());
    let op = GetOp::held(items, vec![Some(route.clone())], own, chance);
    let task = Task::new(op, vec![key], pool, move |results, mut after| {
        if results[0] == Err(ErrorCode::LeaseExpired) {
            after.pool.tally.expired += 1;
            return None;
        }
        if results[0] == Err(ErrorCode::ObjectNotFound) {
            // What the session began with was replaced or removed.
            after.pool.tally.missed += 1;
            return None;
        }
        let version = check(0, results[0].map(|len| there(&parts, len)), &mut after);
        if let Some(version) = version {
            assert_eq!(version, session.route.version(), "a session reads one version");
            after.pool.tally.held_reads += 1;
        }
        let goes_on = session.reads > 1 && results[0].is_ok();
        goes_on.then(|| held(Session { reads: session.reads - 1, ..session }, after.pool))
    });
    task.since(began_at)
}

/// What an item was answered must be true: if its parts were read, all their bytes are of one committed version that was
/// there after the get began. Gives the version, unless there was nothing to read.
fn check(
    position: usize,
    found: Result<Vec<(Part, Wanted)>, ErrorCode>,
    after: &mut After<'_>,
) -> Option<Version> {
    let parts = match found {
        Ok(parts) => parts,
        Err(code) => {
            after.pool.tally.count_failed_get(code);
            if code == ErrorCode::ObjectNotFound {
                after.pool.check_miss(after.keys[position], after.began_at);
            }
            return None;
        }
    };
    let (key, cells) = (after.keys[position], &after.buffers[position]);
    let version = one_version(key, &parts, cells);
    let version = version.unwrap_or_else(|cell| panic!("{cell:?} among {parts:?} of key {key}"))?;
    after.pool.check_version(key, version, after.began_at);
    after.pool.tally.right += 1;
    Some(version)
}
