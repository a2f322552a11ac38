//! Transfers in the order of a stream of a device.
//!
//! A function of the host on the stream moves the bytes. Memory of a device passes through staging memory, and the
//! stream itself copies between the two, so that no copy can wait for a stream that waits for the transfer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooncake_device::{CopyError, STAGING_BYTES, Staging, StreamStep, put_on_stream};
use mooncake_memory::{HeldSlice, Place, PlacedSlice};

use crate::mover::HeldTransfer;
use crate::registry::HeldBytes;
use crate::{BatchStatus, MoveError, Opcode};

/// Most transfers that wait for streams at a time.
const MAX_WAITING: usize = 256;

/// Most staging memories that are kept for reuse.
const MAX_IDLE: usize = 4;

/// Moves a part of a transfer, whose memory is all of the host. Returns how that ended.
type Run = Arc<dyn Fn(HeldTransfer) -> Result<BatchStatus, MoveError> + Send + Sync>;

/// The transfers that wait for streams.
#[derive(Default)]
pub(crate) struct StreamTransfers(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    state: Mutex<WaitingState>,
    ended: Condvar,
}

#[derive(Default)]
struct WaitingState {
    count: usize,
    /// Staging memory that no stream uses. It is dropped by threads of callers only, since that uses the device.
    idle: Vec<(u32, Staging)>,
}

/// A part of a transfer: what fits into the staging memory.
struct Part {
    load: HeldTransfer,
    /// Memory of the device, and of the host in its place.
    copies: Vec<(PlacedSlice<'static>, HeldSlice)>,
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, WaitingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a transfer waits no more, and keeps its staging memory.
    fn leave(&self, staging: Option<(u32, Staging)>) {
        let mut state = self.state();
        state.count -= 1;
        state.idle.extend(staging);
        drop(state);
        self.ended.notify_all();
    }
}

impl StreamTransfers {
    /// Waits until no transfer waits for a stream any more, or the limit is over.
    pub(crate) fn wait(&self, limit: Duration) {
        let state = self.0.state();
        let waited = self.0.ended.wait_timeout_while(state, limit, |state| state.count > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
    }

    /// Puts a transfer on a stream. `run` moves a part of it when its turn has come.
    pub(crate) fn put(&self, stream: usize, load: HeldTransfer, run: Run) -> Result<(), MoveError> {
        if load.pieces.is_empty() {
            return Ok(());
        }
        let staging = self.enter(device_of(&load))?;
        let opcode = load.opcode;
        let memory = staging.as_ref().map(|(_, staging)| staging.held());
        let mut steps = Vec::new();
        for Part { load, copies } in parts(&load, memory.as_ref()) {
            if opcode == Opcode::Write {
                steps.extend(
                    copies.iter().map(|(device, host)| StreamStep::ToHost(*device, host.clone())),
                );
            }
            let run = Arc::clone(&run);
            steps.push(StreamStep::Run(Box::new(move || run_or_end(&run, load))));
            if opcode == Opcode::Read {
                steps.extend(
                    copies.into_iter().map(|(device, host)| StreamStep::ToDevice(host, device)),
                );
            }
        }
        // It owns the staging memory, and the registrations until the last copy is over.
        let waiting = Arc::clone(&self.0);
        steps.push(StreamStep::Run(Box::new(move || {
            drop(load);
            waiting.leave(staging);
        })));
        put_on_stream(stream, steps).map_err(|error| {
            self.0.leave(None);
            refused(&error)
        })
    }

    /// Counts another transfer. Returns staging memory if a device is given.
    fn enter(&self, device: Option<u32>) -> Result<Option<(u32, Staging)>, MoveError> {
        let mut state = self.0.state();
        if state.count >= MAX_WAITING {
            return Err(MoveError::TooMany { limit: MAX_WAITING });
        }
        state.count += 1;
        let found = state.idle.iter().rposition(|&(ordinal, _)| Some(ordinal) == device);
        let staging = found.map(|at| state.idle.remove(at));
        let surplus = state.idle.len().saturating_sub(MAX_IDLE);
        let surplus: Vec<_> = state.idle.drain(..surplus).collect();
        drop(state);
        drop(surplus);
        match (device, staging) {
            (Some(ordinal), None) => match Staging::beyond_the_limit(ordinal) {
                Ok(staging) => Ok(Some((ordinal, staging))),
                Err(error) => {
                    self.0.leave(None);
                    Err(refused(&error))
                }
            },
            (_, staging) => Ok(staging),
        }
    }
}

fn refused(error: &CopyError) -> MoveError {
    MoveError::Stream { reason: error.to_string() }
}

/// The device of the first piece that lies on one.
fn device_of(load: &HeldTransfer) -> Option<u32> {
    load.pieces.iter().find_map(|(_, memory)| match memory.placed().place() {
        Place::Device(ordinal) => Some(ordinal),
        Place::Host => None,
    })
}

/// Cuts a transfer into parts that each fit into the staging memory. Memory of the host needs none.
fn parts(load: &HeldTransfer, staging: Option<&HeldSlice>) -> Vec<Part> {
    let (mut parts, mut at) = (vec![Part::of(load.opcode)], 0);
    for (piece, memory) in &load.pieces {
        let (HeldBytes::Device { memory, .. }, Some(staging)) = (memory, staging) else {
            parts.last_mut().expect("there is one").load.push(*piece, memory.clone());
            continue;
        };
        if at + memory.len() > 2 * STAGING_BYTES {
            parts.push(Part::of(load.opcode));
            at = 0;
        }
        let part = parts.last_mut().expect("there is one");
        let host = staging.sub(at, memory.len());
        part.load.push(*piece, HeldBytes::Host(host.clone()));
        part.copies.push((*memory, host));
        at += memory.len();
    }
    parts
}

impl Part {
    fn of(opcode: Opcode) -> Part {
        Part { load: HeldTransfer { opcode, pieces: Vec::new(), len_bytes: 0 }, copies: Vec::new() }
    }
}

/// Moves a part, or ends the process.
fn run_or_end(run: &Run, load: HeldTransfer) {
    let outcome = run(load);
    if outcome != Ok(BatchStatus::Done) {
        // The stream would go on with wrong bytes, and a function of the host cannot return an error.
        tracing::error!(
            ?outcome,
            "a transfer in the order of a stream has failed: the process ends"
        );
        std::process::abort();
    }
}
