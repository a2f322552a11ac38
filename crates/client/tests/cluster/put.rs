use mooncake_client::ReplicateConfig;
use mooncake_ops::{CloseOp, Closed, Closing, Part, PutOp, PutPartsOp, PutSession, StartOp};
use mooncake_types::{ErrorCode, PutItem};

use crate::key::{KEYS, MAX_LEN, any_key, some_keys};
use crate::pool::Pool;
use crate::task::{After, Task, leak};

/// Sessions end when the master says so: what keeps bytes right must not depend on the client's clock.
const SESSION_TTL_MS: u64 = 3_600_000;

fn config(replica_num: u32) -> ReplicateConfig<'static> {
    ReplicateConfig { replica_num, ..ReplicateConfig::default() }
}

fn tally(results: Vec<Result<(), ErrorCode>>, after: After<'_>) -> Option<Task> {
    for (result, &key) in results.into_iter().zip(&after.keys) {
        after.pool.tally.count_put(result);
        if result.is_ok() {
            after.pool.acknowledge_put(after.client, key);
        }
    }
    None
}

/// Puts or upserts of random keys and lengths.
pub(crate) fn random(pool: &mut Pool) -> Task {
    let keys = some_keys(pool);
    let lens = keys.iter().map(|_| 1 + pool.chance.below(MAX_LEN)).collect();
    let replicas = 1 + pool.chance.below(3) as u32;
    let upserts = pool.chance.below(2) == 0;
    put(keys, lens, replicas, upserts, pool)
}

pub(crate) fn put(
    keys: Vec<usize>,
    lens: Vec<u64>,
    replicas: u32,
    upserts: bool,
    pool: &Pool,
) -> Task {
    let items = keys.iter().zip(lens).map(|(&key, len)| PutItem::new(KEYS[key], len));
    let items = leak(items.collect());
    let op = match upserts {
        true => PutOp::upsert(items, &config(replicas)),
        false => PutOp::new(items, &config(replicas)),
    };
    Task::new(op, keys, pool, tally)
}

/// A put that is written part by part, in random order; now and then a part is left out.
pub(crate) fn session(pool: &mut Pool) -> Task {
    let (key, len) = (any_key(pool), 1 + pool.chance.below(MAX_LEN));
    let items = leak(vec![PutItem::new(KEYS[key], len)]);
    let op = StartOp::new(items, &config(1 + pool.chance.below(2) as u32), SESSION_TTL_MS);
    Task::new(op, vec![key], pool, move |started, after| match started.into_iter().next()? {
        Ok(put) => {
            let parts = random_parts(len, after.pool);
            Some(Session { key, put, parts }.go_on(after.pool))
        }
        Err(code) => tally(vec![Err(code)], after),
    })
}

/// All bytes of an object in parts, shuffled; one in eight times not quite all.
fn random_parts(len: u64, pool: &mut Pool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut from = 0;
    while from < len {
        let part_len = 1 + pool.chance.below((len - from).min(200));
        parts.push(Part { from, len: part_len });
        from += part_len;
    }
    for at in (1..parts.len()).rev() {
        parts.swap(at, pool.chance.below(at as u64 + 1) as usize);
    }
    if pool.chance.below(8) == 0 {
        parts.pop();
    }
    parts
}

struct Session {
    key: usize,
    put: PutSession,
    /// What is still to be written.
    parts: Vec<Part>,
}

impl Session {
    fn go_on(mut self, pool: &mut Pool) -> Task {
        let count = self.parts.len().min(1 + pool.chance.below(3) as usize);
        let parts = self.parts.split_off(self.parts.len() - count);
        let begun = match parts.is_empty() {
            true => Err(ErrorCode::Ok),
            false => self.put.begin(0, KEYS[self.key], &parts, pool.now),
        };
        let Ok(write) = begun else { return self.close(pool) };
        let key = self.key;
        let op = PutPartsOp::new(vec![write]);
        Task::new(op, vec![key], pool, move |written, after| {
            for write in written {
                // A put that no replica is left for fails when it is closed.
                let _ = self.put.finish(&write);
            }
            Some(self.go_on(after.pool))
        })
    }

    fn close(self, pool: &mut Pool) -> Task {
        let key = KEYS[self.key];
        let ending = self.put.ending(key);
        let closing = match ending {
            Ok(end) if pool.chance.below(10) > 0 => Closing::End(end),
            _ => self.put.giving_up(key),
        };
        let closings = leak(vec![closing]);
        let op = CloseOp::new(closings);
        Task::new(op, vec![self.key], pool, move |closed, after| match closed[0] {
            Closed::Unknown(_) if after.pool.chance.below(2) == 0 => Some(self.close(after.pool)),
            Closed::Settled(Ok(())) if matches!(closings[0], Closing::End(_)) => {
                after.pool.tally.sessions += 1;
                after.pool.acknowledge_put(after.client, self.key);
                None
            }
            _ => None,
        })
    }
}
