use mooncake_client::{ReplicateConfig, SoftPin};
use mooncake_ops::{CloseOp, CloseOutcome, Closing, Part, PutOp, PutPartsOp, PutSession, StartOp};
use mooncake_types::{ErrorCode, PutItem, Tick};

use crate::desk::RunRecord;
use crate::key::{KEYS, some_keys};
use crate::task::{After, Task, leak};

/// Only the master ends sessions: correctness may not depend on the client's clock.
const SESSION_TTL_MS: u64 = 3_600_000;

fn config(desk: &mut RunRecord, replica_num: u32) -> ReplicateConfig<'static> {
    let hard_pin = desk.chance.below(16) == 0;
    let soft_pin = if desk.has_soft_pins { soft_pin(desk) } else { SoftPin::Preserve };
    ReplicateConfig { replica_num, hard_pin, soft_pin, ..ReplicateConfig::default() }
}

fn soft_pin(desk: &mut RunRecord) -> SoftPin {
    match desk.chance.below(6) {
        0 => SoftPin::Sliding,
        1 => SoftPin::Enable { ttl_ms: None },
        2 => SoftPin::Enable { ttl_ms: Some(desk.chance.below(2_000)) },
        3 => SoftPin::Disable,
        _ => SoftPin::Preserve,
    }
}

/// An object to put, with a random group or none. The master refuses an upsert that names another group.
fn item(key: usize, len: u64, desk: &mut RunRecord) -> PutItem<'static> {
    let group = match desk.has_groups && !desk.is_ending {
        true => ["", "g", "h"][desk.chance.below(3) as usize],
        false => "",
    };
    PutItem { group, ..PutItem::new(KEYS[key], len) }
}

fn tally(results: Vec<Result<(), ErrorCode>>, after: After<'_>) -> Option<Task> {
    for (result, &key) in results.into_iter().zip(&after.keys) {
        after.desk.count_put(result);
        if result.is_ok() {
            after.desk.acknowledge_put(after.client, key);
        }
    }
    None
}

/// A put or an upsert of random keys and lengths.
pub(super) fn random(desk: &mut RunRecord) -> Task {
    let keys = some_keys(&mut desk.chance, desk.keys);
    let lens = keys.iter().map(|_| desk.any_len()).collect();
    let replicas = [1, 1, 2, 3][desk.chance.below(4) as usize];
    let upserts = desk.chance.below(2) == 0;
    put(keys, lens, replicas, upserts, desk)
}

pub(crate) fn put(
    keys: Vec<usize>,
    lens: Vec<u64>,
    replicas: u32,
    upserts: bool,
    desk: &mut RunRecord,
) -> Task {
    let items = leak(keys.iter().zip(lens).map(|(&key, len)| item(key, len, desk)).collect());
    let config = config(desk, replicas);
    let op = match upserts {
        true => PutOp::upsert(items, &config),
        false => PutOp::new(items, &config),
    };
    Task::new(op, keys, desk, tally)
}

/// A put session: its parts are written in random order, and at times one is left out.
pub(super) fn session(desk: &mut RunRecord) -> Task {
    let (key, len) = (desk.any_key(), desk.any_len());
    let items = leak(vec![item(key, len, desk)]);
    let replicas = 1 + desk.chance.below(2) as u32;
    let config = config(desk, replicas);
    let op = StartOp::new(items, &config, SESSION_TTL_MS);
    Task::new(op, vec![key], desk, move |started, after| match started.into_iter().next()? {
        Ok(put) => {
            let parts = random_parts(len, after.desk);
            Some(Session { key, put, parts }.go_on(after.now, after.desk))
        }
        Err(code) => tally(vec![Err(code)], after),
    })
}

/// The parts of an object in random order. Once in eight times one is missing.
fn random_parts(len: u64, desk: &mut RunRecord) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut from = 0;
    while from < len {
        let part_len = match parts.len() {
            0..3 => 1 + desk.chance.below(len - from),
            _ => len - from,
        };
        parts.push(Part { from, len: part_len });
        from += part_len;
    }
    for at in (1..parts.len()).rev() {
        parts.swap(at, desk.chance.below(at as u64 + 1) as usize);
    }
    if desk.chance.below(8) == 0 {
        parts.pop();
    }
    parts
}

struct Session {
    key: usize,
    put: PutSession,
    /// The parts that are not written yet.
    parts: Vec<Part>,
}

impl Session {
    fn go_on(mut self, now: Tick, desk: &mut RunRecord) -> Task {
        let count = self.parts.len().min(1 + desk.chance.below(3) as usize);
        let parts = self.parts.split_off(self.parts.len() - count);
        let begun = match parts.is_empty() {
            true => Err(ErrorCode::Ok),
            false => self.put.begin(0, KEYS[self.key], &parts, now),
        };
        let Ok(write) = begun else { return self.close(desk) };
        let key = self.key;
        let op = PutPartsOp::new(vec![write]);
        Task::new(op, vec![key], desk, move |written, after| {
            for write in written {
                // If no replica is left, closing the put fails.
                let _ = self.put.finish(&write);
            }
            Some(self.go_on(after.now, after.desk))
        })
    }

    fn close(mut self, desk: &mut RunRecord) -> Task {
        let key = KEYS[self.key];
        let closing = match self.put.ending(key) {
            Ok(end) if desk.chance.below(10) > 0 => Closing::End(end),
            _ => self.put.giving_up(key),
        };
        self.put.note(&closing);
        let closings = leak(vec![closing]);
        let op = CloseOp::new(closings);
        Task::new(op, vec![self.key], desk, move |closed, after| match closed[0] {
            CloseOutcome::Unknown(_) if after.desk.chance.below(2) == 0 => {
                Some(self.close(after.desk))
            }
            CloseOutcome::Settled(Ok(())) if matches!(closings[0], Closing::End(_)) => {
                after.desk.tally.sessions += 1;
                after.desk.acknowledge_put(after.client, self.key);
                None
            }
            _ => None,
        })
    }
}
