//! Carries out the operations of `mooncake-ops` that move no bytes.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use mooncake_connection::Fault;
use mooncake_ops::{CallError, Deadline, MasterRetry, Op, Step};
use mooncake_types::{Reply, Request, Tick};
use tokio::time::sleep;

use crate::link::Link;
use crate::node_drops::drop_at_nodes;

/// How long after its start a call may begin a step.
const CALL_MS: u64 = 10_000;

/// Milliseconds since the first question for them.
fn now() -> Tick {
    static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);
    Tick(u64::try_from(ZERO.elapsed().as_millis()).unwrap_or(u64::MAX))
}

impl Link {
    /// Runs an operation to its end, and returns its result.
    ///
    /// # Panics
    /// If the operation moves bytes.
    pub(crate) async fn drive<'a, O: Op<'a>>(&self, mut op: O) -> O::Output {
        let mut deadline = Deadline::of_ms(CALL_MS);
        loop {
            match deadline.next(&mut op, now()) {
                Step::Call(request) => {
                    let reply = self.ask_until(&request, &deadline).await;
                    op.on_reply(reply);
                }
                Step::Drop(drops) => op.on_transfer(drop_at_nodes(self, &drops).await),
                Step::Wait(until) => wait(until).await,
                Step::Done => return op.finish(),
                step @ (Step::Read(_) | Step::Write(..)) => unreachable!("{step:?} moves bytes"),
            }
        }
    }

    /// Asks the master, and repeats the request while a new leader is starting.
    async fn ask_until(
        &self,
        request: &Request<'_>,
        deadline: &Deadline,
    ) -> Result<Reply, CallError> {
        let mut retry = MasterRetry::default();
        loop {
            let left_ms = deadline.left_ms(now());
            let reply = self.ask(request, Duration::from_millis(left_ms)).await;
            let reply = reply.map_err(|fault| call_error(&fault, left_ms));
            let again = retry.again_at(now(), request, &reply);
            match again.filter(|&at| deadline.left_ms(at) > 0) {
                Some(at) => wait(at).await,
                None => return retry.read(reply),
            }
        }
    }
}

async fn wait(until: Tick) {
    sleep(Duration::from_millis(until.since_ms(now()))).await;
}

fn call_error(fault: &Fault, after_ms: u64) -> CallError {
    match fault {
        Fault::TimedOut => CallError::TimedOut { after_ms },
        Fault::Protocol(reason) => CallError::Protocol { reason: reason.clone() },
        other => CallError::Unreachable { reason: other.to_string() },
    }
}
