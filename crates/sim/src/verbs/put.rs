use mooncake_client::{ReplicateConfig, SoftPin};
use mooncake_ops::{CloseOp, CloseOutcome, Closing, Part, PutOp, PutPartsOp, PutSession, StartOp};
use mooncake_types::{ErrorCode, PutItem, Tick};

use crate::key::{KEYS, some_keys};
use crate::run_state::RunState;
use crate::task::{After, Task, leak};

/// Only the master ends sessions: correctness may not depend on the client's clock.
const SESSION_TTL_MS: u64 = 3_600_000;

fn config(run_state: &mut RunState, replica_num: u32) -> ReplicateConfig<'static> {
    // At the end every put must succeed, and pins beyond the guaranteed share of a tenant are refused.
    let may_pin = !(run_state.is_ending && run_state.has_quotas);
    let hard_pin = run_state.chance.below(16) == 0 && may_pin;
    let soft_pin = if run_state.has_soft_pins { soft_pin(run_state) } else { SoftPin::Preserve };
    ReplicateConfig { replica_num, hard_pin, soft_pin, ..ReplicateConfig::default() }
}

fn soft_pin(run_state: &mut RunState) -> SoftPin {
    match run_state.chance.below(6) {
        0 => SoftPin::Sliding,
        1 => SoftPin::Enable { ttl_ms: None },
        2 => SoftPin::Enable { ttl_ms: Some(run_state.chance.below(2_000)) },
        3 => SoftPin::Disable,
        _ => SoftPin::Preserve,
    }
}

/// An object to put, with a random group or none. The master refuses an upsert that names another group.
fn item(key: usize, len: u64, run_state: &mut RunState) -> PutItem<'static> {
    let group = match run_state.has_groups && !run_state.is_ending {
        true => ["", "g", "h"][run_state.chance.below(3) as usize],
        false => "",
    };
    PutItem { group, ..PutItem::new(KEYS[key], len) }
}

fn tally(results: Vec<Result<(), ErrorCode>>, after: After<'_>) -> Option<Task> {
    for (result, &key) in results.into_iter().zip(&after.keys) {
        after.run_state.count_put(result);
        if result.is_ok() {
            after.run_state.acknowledge_put(after.client, key);
        }
    }
    None
}

/// A put or an upsert of random keys and lengths.
pub(super) fn random(run_state: &mut RunState) -> Task {
    let keys = some_keys(&mut run_state.chance, run_state.keys);
    let lens = keys.iter().map(|_| run_state.any_len()).collect();
    let replicas = [1, 1, 2, 3][run_state.chance.below(4) as usize];
    let upserts = run_state.chance.below(2) == 0;
    put(keys, lens, replicas, upserts, run_state)
}

pub(crate) fn put(
    keys: Vec<usize>,
    lens: Vec<u64>,
    replicas: u32,
    upserts: bool,
    run_state: &mut RunState,
) -> Task {
    let items = leak(keys.iter().zip(lens).map(|(&key, len)| item(key, len, run_state)).collect());
    let config = config(run_state, replicas);
    let op = match upserts {
        true => PutOp::upsert(items, &config),
        false => PutOp::new(items, &config),
    };
    Task::new(op, keys, run_state, tally)
}

/// A put session: its parts are written in random order, and at times one is left out.
pub(super) fn session(run_state: &mut RunState) -> Task {
    let (key, len) = (run_state.any_key(), run_state.any_len());
    let items = leak(vec![item(key, len, run_state)]);
    let replicas = 1 + run_state.chance.below(2) as u32;
    let config = config(run_state, replicas);
    let op = StartOp::new(items, &config, SESSION_TTL_MS);
    Task::new(op, vec![key], run_state, move |started, after| match started.into_iter().next()? {
        Ok(put) => {
            let parts = random_parts(len, after.run_state);
            Some(Session { key, put, parts }.go_on(after.now, after.run_state))
        }
        Err(code) => tally(vec![Err(code)], after),
    })
}

/// The parts of an object in random order. Once in eight times one is missing.
fn random_parts(len: u64, run_state: &mut RunState) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut from = 0;
    while from < len {
        let part_len = match parts.len() {
            0..3 => 1 + run_state.chance.below(len - from),
            _ => len - from,
        };
        parts.push(Part { from, len: part_len });
        from += part_len;
    }
    for at in (1..parts.len()).rev() {
        parts.swap(at, run_state.chance.below(at as u64 + 1) as usize);
    }
    if run_state.chance.below(8) == 0 {
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
    fn go_on(mut self, now: Tick, run_state: &mut RunState) -> Task {
        let count = self.parts.len().min(1 + run_state.chance.below(3) as usize);
        let parts = self.parts.split_off(self.parts.len() - count);
        let begun = match parts.is_empty() {
            true => Err(ErrorCode::Ok),
            false => self.put.begin(0, KEYS[self.key], &parts, now),
        };
        let Ok(write) = begun else { return self.close(run_state) };
        let key = self.key;
        let op = PutPartsOp::new(vec![write]);
        Task::new(op, vec![key], run_state, move |written, after| {
            for write in written {
                // If no replica is left, closing the put fails.
                let _ = self.put.finish(&write);
            }
            Some(self.go_on(after.now, after.run_state))
        })
    }

    fn close(mut self, run_state: &mut RunState) -> Task {
        let key = KEYS[self.key];
        let closing = match self.put.ending(key) {
            Ok(end) if run_state.chance.below(10) > 0 => Closing::End(end),
            _ => self.put.giving_up(key),
        };
        self.put.note(&closing);
        let closings = leak(vec![closing]);
        let op = CloseOp::new(closings);
        Task::new(op, vec![self.key], run_state, move |closed, after| match closed[0] {
            CloseOutcome::Unknown(_) if after.run_state.chance.below(2) == 0 => {
                Some(self.close(after.run_state))
            }
            CloseOutcome::Settled(Ok(())) if matches!(closings[0], Closing::End(_)) => {
                after.run_state.tally.sessions += 1;
                after.run_state.acknowledge_put(after.client, self.key);
                None
            }
            _ => None,
        })
    }
}
