//! The longest time that each kind of call takes, whatever the master and the nodes answer, and however late.
//! `docs/troubleshooting.md` has the same table.

use mooncake_ops::{
    CallError, CloseOp, Closing, Deadline, ExistOp, GetItem, GetOp, ListOp, LocateOp, MasterRetry,
    MoveError, Op, PrefixLenOp, PutOp, RemoveOp, RemoveScanOp, RoutesOp, StartOp, Step, TaskOp,
};
use mooncake_types::{
    Chance, Epoch, ErrorCode, PutEnd, PutItem, PutRevoke, Remains, ReplicateConfig, Reply, Request,
    ScanPage, TaskId, Tick, Version, limits,
};

use crate::script::{
    done, found, found_after, grant, granted, located, remaining, statuses, version,
};

/// The value of `MC_RPC_TIMEOUT_MS`.
const REQUEST_MS: u64 = 30_000;

/// The value of `MC_TRANSFER_TIMEOUT`.
const TRANSFER_MS: u64 = 30_000;

/// The longest time that one attempt to drop entries takes.
const DROP_MS: u64 = 1_000;

/// A call starts no step later than this after its start.
const CALL_MS: u64 = 30_000;

/// A master and nodes with random answers: late ones, none, or ones that make the operation retry.
struct World {
    now: Tick,
    chance: Chance,
    counter: u64,
    /// The bytes of all transfers, failed ones included.
    bytes: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self { now: Tick::ZERO, chance: Chance::new(seed), counter: 1, bytes: 0 }
    }

    /// Runs an operation the way a store does.
    fn run<'a>(&mut self, mut op: impl Op<'a>) {
        let mut deadline = Deadline::of_ms(CALL_MS);
        loop {
            match deadline.next(&mut op, self.now) {
                Step::Call(request) => {
                    let reply = self.ask(&request, &deadline);
                    op.on_reply(reply);
                }
                Step::Read(fetches) => {
                    let bytes = fetches.iter().map(|fetch| fetch.range.len).sum();
                    op.on_transfer(self.transfer(fetches.len(), bytes));
                }
                Step::Write(_, deposits) => {
                    let bytes = deposits.iter().map(|deposit| deposit.range.len).sum();
                    op.on_transfer(self.transfer(deposits.len(), bytes));
                }
                Step::Drop(discards) => {
                    self.spend(DROP_MS);
                    op.on_transfer(self.results(discards.len()));
                }
                Step::Wait(until) => self.now = until,
                Step::Done => return,
            }
        }
    }

    fn ask(&mut self, request: &Request<'_>, deadline: &Deadline) -> Result<Reply, CallError> {
        let mut retry = MasterRetry::default();
        loop {
            let most = deadline.left_ms(self.now).min(REQUEST_MS);
            let reply = match self.spend(most) {
                true => self.answer(request),
                false => Err(CallError::TimedOut { after_ms: most }),
            };
            let again = retry.again_at(self.now, request, &reply);
            match again.filter(|&at| deadline.left_ms(at) > 0) {
                Some(at) => self.now = at,
                None => return retry.read(reply),
            }
        }
    }

    fn transfer(&mut self, count: usize, bytes: u64) -> Vec<Result<(), MoveError>> {
        self.bytes += bytes;
        self.spend(TRANSFER_MS + limits::time_to_move_ms(bytes));
        self.results(count)
    }

    /// Advances the time by a random part of `most_ms`; returns false if all of it passed.
    fn spend(&mut self, most_ms: u64) -> bool {
        let ms = match self.chance.below(8) {
            0 => most_ms,
            1 => self.chance.below(most_ms),
            2 => self.chance.below(most_ms / 10 + 1),
            _ => self.chance.below(5),
        };
        self.now = self.now.after_ms(ms.min(most_ms));
        ms < most_ms
    }

    fn results(&mut self, count: usize) -> Vec<Result<(), MoveError>> {
        let result = match self.chance.below(5) {
            0 => Ok(()),
            1 => Err(MoveError::Stale),
            2 => Err(MoveError::Refused(ErrorCode::ObjectReplicaBusy)),
            3 => Err(MoveError::Refused(ErrorCode::InvalidVersion)),
            _ => Err(MoveError::Broken),
        };
        vec![result; count]
    }

    /// A random answer of the master, with another place and version each time.
    fn answer(&mut self, request: &Request<'_>) -> Result<Reply, CallError> {
        self.counter += 1;
        let counter = self.counter;
        match self.chance.below(16) {
            0 => return Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus)),
            1 => return Err(CallError::Unreachable { reason: "gone".to_owned() }),
            _ => {}
        }
        let older = [(1, 64, 5)];
        match request {
            Request::PutStart(start) => {
                let grant = |item: &PutItem<'_>| grant(counter, &[(0, 0, counter, item.len)]);
                granted(start.puts.iter().map(grant).collect())
            }
            Request::PutEnd { puts } => match self.chance.below(3) {
                0 => remaining(vec![Err(ErrorCode::ObjectReplicaBusy); puts.len()], &older, 0),
                1 => statuses(vec![Err(ErrorCode::ObjectReplicaBusy); puts.len()]),
                _ => remaining(vec![Ok(()); puts.len()], &older, 0),
            },
            Request::GetReplicaList { keys } => {
                let results = keys.iter().map(|_| located(counter, 10, &[(0, 0, counter, 10)]));
                let results = results.collect();
                match self.chance.below(2) {
                    0 => found(results),
                    _ => found_after(results, &[(0, 1, counter, 5)]),
                }
            }
            Request::Remove { keys, .. }
            | Request::ClearReplicas { keys, .. }
            | Request::Retract { keys, .. } => remaining(vec![Ok(()); keys.len()], &older, 50),
            Request::Scan(_) => {
                let Ok(Reply::Remaining { remains, .. }) = remaining(vec![], &older, 0) else {
                    unreachable!()
                };
                let remains: Box<Remains> = Box::new(remains);
                Ok(Reply::Scanned(ScanPage { removed: 1, remains, ..ScanPage::default() }))
            }
            Request::PutRevoke { puts } => statuses(vec![Ok(()); puts.len()]),
            Request::PrefixLen { keys, .. } => Ok(Reply::PrefixLen(keys.len() as u32)),
            Request::ExistKey { keys, .. } => Ok(Reply::Exist(vec![Ok(true); keys.len()])),
            _ => done(),
        }
    }
}

/// Runs a call 20,000 times. The longest, without the time for its bytes, must come close to the limit and not exceed
/// it.
fn check(what: &str, most_ms: u64, call: impl Fn(&mut World)) {
    let mut longest_ms = 0;
    for seed in 0..20_000 {
        let mut world = World::new(seed);
        call(&mut world);
        let took_ms = world.now.0.saturating_sub(limits::time_to_move_ms(world.bytes));
        assert!(took_ms <= most_ms, "{what}: {took_ms} ms, seed {seed}");
        longest_ms = longest_ms.max(took_ms);
    }
    assert!(longest_ms > most_ms * 9 / 10, "{what}: never longer than {longest_ms} ms");
}

fn all_of_ten_bytes() -> [GetItem<'static>; 1] {
    [GetItem::whole("a", Some(10))]
}

/// The pause before a drop is retried.
const PAUSE_MS: u64 = 100;

#[test]
fn what_moves_and_drops_nothing_takes_as_long_as_one_request() {
    let keys = ["a", "b"];
    check("exist", CALL_MS, |world| world.run(ExistOp::new(&keys)));
    check("prefix", CALL_MS, |world| world.run(PrefixLenOp::new(&keys, 0)));
    check("locate", CALL_MS, |world| world.run(LocateOp::new(&keys)));
    check("list", CALL_MS, |world| world.run(ListOp::new(None)));
    check("create a task", CALL_MS, |world| world.run(TaskOp::copy("a", &["node:1"])));
    check("query a task", CALL_MS, |world| world.run(TaskOp::query(TaskId(1))));
    let (items, config) = ([PutItem::new("a", 10)], ReplicateConfig::default());
    check("start a session", CALL_MS, |world| world.run(StartOp::new(&items, &config, 1_000)));
}

#[test]
fn what_waits_for_drops_takes_one_attempt_longer() {
    let most_ms = CALL_MS + DROP_MS + PAUSE_MS;
    let keys = ["a", "b"];
    check("remove", most_ms, |world| world.run(RemoveOp::new(&keys, true)));
    check("clear replicas", most_ms, |world| world.run(RemoveOp::replicas(&keys, "s")));
    check("remove all", most_ms, |world| world.run(RemoveScanOp::new(None, true)));
    check("hold", most_ms, |world| world.run(RoutesOp::new(&keys)));
    let put = PutEnd { key: "a", version: version(5), failed_replicas: 0, held_replicas: 0 };
    let closings = [Closing::End(put)];
    check("end a session", most_ms, |world| world.run(CloseOp::new(&closings)));
    let version = Version { epoch: Epoch(1), counter: 5 };
    let closings = [Closing::GiveUp(PutRevoke::new("a", version), vec![])];
    check("revoke a session", CALL_MS, |world| world.run(CloseOp::new(&closings)));
}

#[test]
fn what_moves_bytes_takes_one_transfer_longer() {
    let most_ms = CALL_MS + TRANSFER_MS;
    let (items, config) = (all_of_ten_bytes(), ReplicateConfig::default());
    check("get", most_ms, |world| world.run(GetOp::new(&items, &[], Chance::new(1))));
    for len in [10, 64 << 20, 1 << 30] {
        let items = [PutItem::new("a", len)];
        check("put", most_ms, |world| world.run(PutOp::new(&items, &config)));
        check("upsert", most_ms, |world| world.run(PutOp::upsert(&items, &config)));
    }
}
