use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_calls::{Stage, around};
use mooncake_memory::with_dialing_helpers;
use mooncake_types::limits::{MAX_FRAME_PAYLOAD_BYTES, MAX_FRAME_RANGES, time_to_move_ms};
use mooncake_types::{Epoch, ErrorCode, RangeRead};
use mooncake_wire::Welcome;

use crate::client::{Ask, CallLimits, PeerCall, Peers, Purpose, Question, Read, Write, set_off};
use crate::plan::{FrameLimits, PeerPlan, plan};
use crate::tcp_calls::{FailedCall, TcpCalls};
use crate::{NodeDrop, ReadOp, TcpConfig, TransferError, Transport, WriteOp};

/// How long a question that moves no bytes waits for a connection, or for a silent node. Callers try again.
const ASK_PATIENCE: Duration = Duration::from_secs(1);

/// Frames that one lane's share of bytes in flight is cut into, so that the next is under way while one is handled.
const FRAMES_IN_FLIGHT: u64 = 4;

/// Reads and writes ranges at nodes over TCP, from and to memory of the host alone. Many threads may use it at once;
/// each call runs on its caller's thread and uses one connection to each peer.
pub struct TcpTransport {
    peers: Peers,
}

/// How long a call may wait, and for what.
#[derive(Clone, Copy)]
pub(crate) struct CallTimes {
    /// For a connection; `None`: until the deadline.
    connection: Option<Duration>,
    /// For a silent node.
    silence: Duration,
}

impl TcpTransport {
    /// A transport that has no connection yet.
    #[must_use]
    pub fn new(config: TcpConfig) -> Self {
        Self { peers: Peers::new(config) }
    }

    /// What the node said when it was greeted: the ways that it offers. Connects if there is no connection yet.
    pub(crate) fn welcome_of(&self, endpoint: &Arc<str>) -> Result<Arc<Welcome>, TransferError> {
        let timeout = self.peers.config().transfer_timeout;
        let deadline = deadline(timeout, std::iter::empty());
        let lease = self.peers.lease(endpoint, Purpose::Read, deadline)?;
        let welcome = Arc::clone(&lease.as_lane().welcome);
        lease.give_back();
        Ok(welcome)
    }

    /// [`Transport::write`]; `None` for operations of which nothing has begun, because their node was not reached and
    /// there is time left to try another way.
    pub(crate) fn write_if_reached(
        &self,
        epoch: Epoch,
        ops: &[WriteOp<'_>],
    ) -> Vec<Option<Result<(), TransferError>>> {
        let (results, unreached) = self.run_writes(epoch, ops);
        let mut results: Vec<_> = results.into_iter().map(Some).collect();
        for position in unreached {
            results[position] = None;
        }
        results
    }

    fn run_writes(
        &self,
        epoch: Epoch,
        ops: &[WriteOp<'_>],
    ) -> (Vec<Result<(), TransferError>>, Vec<usize>) {
        let sizes = ops.iter().map(|op| (&op.endpoint, op.range.len, op.src.total_len()));
        let is_host = |position: usize| ops[position].src.is_host();
        self.run(Purpose::Write, self.transfer_times(), sizes, is_host, || Write::new(epoch, ops))
    }

    pub(crate) fn config(&self) -> &TcpConfig {
        self.peers.config()
    }

    #[cfg(test)]
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Closes idle connections to a node that is gone for good.
    pub(crate) fn forget(&self, endpoint: &str) {
        self.peers.forget(endpoint);
    }

    /// Has nodes drop the entries at the wanted positions; the other results mean nothing. `Ok` means that no reader
    /// finds that version there. A node that sends keepalives is waited for, as in a read.
    pub(crate) fn drop_where(
        &self,
        ops: &[NodeDrop],
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<Result<(), TransferError>> {
        let sizes = ops.iter().map(|op| (&op.endpoint, 0, 0));
        self.run(Purpose::Write, self.ask_times(), sizes, wanted, || Ask::Drop(ops)).0
    }

    /// Asks nodes to promise not to report these entries as dropped for [`mooncake_types::limits::PROMISE_MS`],
    /// counted from before this call.
    pub(crate) fn promise(&self, ops: &[(Arc<str>, RangeRead)]) -> Vec<Result<(), TransferError>> {
        let sizes = ops.iter().map(|(endpoint, _)| (endpoint, 0, 0));
        self.run(Purpose::Read, self.ask_times(), sizes, |_| true, || Ask::Promise(ops)).0
    }

    pub(crate) fn transfer_times(&self) -> CallTimes {
        CallTimes { connection: None, silence: self.peers.config().silence_timeout }
    }

    fn ask_times(&self) -> CallTimes {
        let silence = self.peers.config().silence_timeout.min(ASK_PATIENCE);
        CallTimes { connection: Some(ASK_PATIENCE), silence }
    }

    /// Puts one question to each peer about operations, given as `(endpoint, bytes of the range, bytes of the caller's
    /// memory)`. Returns the results in the order of the operations. Also returns the positions of those that did not
    /// begin, because their peer could not be connected to, if there is time left.
    fn run<'a, 'm, Q: Question<'m>>(
        &self,
        purpose: Purpose,
        times: CallTimes,
        sizes: impl ExactSizeIterator<Item = (&'a Arc<str>, u64, u64)>,
        wanted: impl Fn(usize) -> bool,
        question: impl Fn() -> Q,
    ) -> (Vec<Result<(), TransferError>>, Vec<usize>) {
        // The result of an operation that is not planned.
        let mut results = vec![Err(TransferError::Refused(ErrorCode::InvalidParams)); sizes.len()];
        let ops: Vec<_> = sizes
            .enumerate()
            .filter(|&(position, (_, len, memory))| len == memory && wanted(position))
            .map(|(position, (endpoint, len, _))| (position, endpoint, len))
            .collect();
        let calls = self.begin(purpose, times, ops, question);
        let in_time = calls.failed.iter().filter(|failed| failed.was_in_time);
        let unreached = in_time.flat_map(|failed| &failed.positions).copied().collect();
        calls.finish(|position, result| results[position] = result);
        (results, unreached)
    }

    /// Plans operations, given as `(position, endpoint, bytes)`, and begins one call to each peer.
    pub(crate) fn begin<'m, Q: Question<'m>>(
        &self,
        purpose: Purpose,
        times: CallTimes,
        ops: Vec<(usize, &Arc<str>, u64)>,
        question: impl Fn() -> Q,
    ) -> TcpCalls<'m, Q> {
        let TcpConfig { transfer_timeout, bytes_in_flight, .. } = *self.peers.config();
        let deadline = deadline(transfer_timeout, ops.iter().map(|&(.., len)| len));
        let connect_by =
            times.connection.map_or(deadline, |patience| deadline.min(Instant::now() + patience));
        let (mut calls, mut failed) = (Vec::with_capacity(1), Vec::new());
        let plans = plan(ops, self.frame_limits());
        if plans.len() > 1 {
            self.connect_all(&plans, purpose, connect_by);
        }
        for plan in plans {
            match self.peers.lease(&plan.endpoint, purpose, connect_by) {
                Ok(lease) => {
                    let mut call = PeerCall::new(lease, question(), plan, bytes_in_flight);
                    set_off(&mut call);
                    calls.push(call);
                }
                Err(error) => {
                    let was_in_time = Instant::now() < deadline;
                    failed.push(FailedCall { positions: plan.positions, error, was_in_time });
                }
            }
        }
        let limits = CallLimits { deadline, silence: times.silence };
        TcpCalls { calls, failed, limits, begun: Instant::now() }
    }

    /// Connects to all new peers at the same time, so that the timeouts of dead ones overlap; those are suspect
    /// afterwards. No lane is held meanwhile: a call that holds one and waits for another has to take them in order.
    fn connect_all(&self, plans: &[PeerPlan], purpose: Purpose, deadline: Instant) {
        let is_new = |plan: &&PeerPlan| !self.peers.is_known(&plan.endpoint);
        let new: Vec<&PeerPlan> = plans.iter().filter(is_new).collect();
        if new.len() < 2 {
            return;
        }
        let connect = |plan: &&PeerPlan| {
            if let Ok(lease) = self.peers.lease(&plan.endpoint, purpose, deadline) {
                lease.give_back();
            }
        };
        around(Stage::Connection, || with_dialing_helpers(&new, connect));
    }

    fn frame_limits(&self) -> FrameLimits {
        let share = self.peers.config().bytes_in_flight / FRAMES_IN_FLIGHT;
        FrameLimits { ranges: MAX_FRAME_RANGES, payload: share.min(MAX_FRAME_PAYLOAD_BYTES) }
    }
}

fn deadline(timeout: Duration, lens: impl Iterator<Item = u64>) -> Instant {
    let bytes = lens.fold(0, u64::saturating_add);
    let extra = Duration::from_millis(time_to_move_ms(bytes));
    Instant::now() + timeout + extra
}

impl Transport for TcpTransport {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        let sizes = ops.iter().map(|op| (&op.endpoint, op.range.len, op.dst.total_len()));
        let is_host = |position: usize| ops[position].dst.is_host();
        self.run(Purpose::Read, self.transfer_times(), sizes, is_host, || Read(ops)).0
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        self.run_writes(epoch, ops).0
    }
}
