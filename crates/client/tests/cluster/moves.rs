use mooncake_node::Clearance;
use mooncake_ops::{Deposit, Fetch, MoveError};
use mooncake_types::{Epoch, ErrorCode, Version};

use crate::cell::Cell;
use crate::pool::Pool;

/// How often a writer looks whether older ones have left before it gives up.
const PATIENCE: u32 = 20;

/// One range being written, a few bytes at a time.
pub(crate) struct Write {
    deposit: Deposit<'static>,
    key: usize,
    state: WriteState,
}

enum WriteState {
    New,
    Waiting { ticket: u64, looks: u32 },
    Copying { ticket: u64, done: u64 },
    Done(Result<(), MoveError>),
}

impl Write {
    pub(crate) fn new(deposit: Deposit<'static>, key: usize) -> Self {
        Self { deposit, key, state: WriteState::New }
    }

    pub(crate) fn result(&self) -> Option<Result<(), MoveError>> {
        match self.state {
            WriteState::Done(result) => Some(result),
            _ => None,
        }
    }

    /// Moves on; what is written is the object's own bytes, or those that were read for its item before.
    pub(crate) fn step(&mut self, epoch: Epoch, buffers: &[Vec<Cell>], pool: &mut Pool) {
        self.state = match self.state {
            WriteState::New => self.begin(epoch, pool),
            WriteState::Waiting { ticket, looks } => self.wait(ticket, looks, pool),
            WriteState::Copying { ticket, done } => self.copy(ticket, done, buffers, pool),
            WriteState::Done(result) => WriteState::Done(result),
        };
        if let WriteState::Done(Err(MoveError::Refused(_))) = self.state {
            pool.tally.refused_writes += 1;
        }
    }

    /// The client is gone; nodes that it was writing to will notice.
    pub(crate) fn forsake(&self, pool: &mut Pool) {
        if let WriteState::Waiting { ticket, .. } | WriteState::Copying { ticket, .. } = self.state
            && let Some(node) = pool.memory_of(self.deposit.range.segment)
        {
            node.orphan(ticket);
        }
    }

    fn broken(&self, pool: &mut Pool) -> WriteState {
        self.forsake(pool);
        WriteState::Done(Err(MoveError::Broken))
    }

    fn begin(&self, epoch: Epoch, pool: &mut Pool) -> WriteState {
        let range = &self.deposit.range;
        let Some(node) = pool.node_of(range.segment) else { return self.broken(pool) };
        match node.begin(epoch, range) {
            Ok(ticket) => WriteState::Waiting { ticket, looks: 0 },
            Err(code) => WriteState::Done(Err(MoveError::Refused(code))),
        }
    }

    fn wait(&self, ticket: u64, looks: u32, pool: &mut Pool) -> WriteState {
        let Some(node) = pool.node_of(self.deposit.range.segment) else { return self.broken(pool) };
        if node.has_stopped(ticket) {
            return WriteState::Done(Err(MoveError::Broken));
        }
        let refusal = match node.ledger.clearance(ticket) {
            Clearance::Clear => return WriteState::Copying { ticket, done: 0 },
            Clearance::Superseded => ErrorCode::InvalidVersion,
            Clearance::Wait if looks < PATIENCE => {
                return WriteState::Waiting { ticket, looks: looks + 1 };
            }
            Clearance::Wait => ErrorCode::ObjectReplicaBusy,
        };
        node.end(ticket);
        node.ledger.abandon(ticket);
        WriteState::Done(Err(MoveError::Refused(refusal)))
    }

    fn copy(&self, ticket: u64, done: u64, buffers: &[Vec<Cell>], pool: &mut Pool) -> WriteState {
        let range = &self.deposit.range;
        let upto = (done + 1 + pool.chance.below(200)).min(range.len);
        let notices = pool.chance.below(2) == 0;
        let Some(node) = pool.node_of(range.segment) else { return self.broken(pool) };
        if node.has_stopped(ticket) {
            return WriteState::Done(Err(MoveError::Broken));
        }
        if notices && node.is_interrupted(ticket) {
            node.end(ticket);
            node.ledger.abandon(ticket);
            return WriteState::Done(Err(MoveError::Refused(ErrorCode::InvalidVersion)));
        }
        for at in done..upto {
            let read = buffers[self.deposit.position].get((self.deposit.at + at) as usize);
            let own = Cell {
                key: self.key,
                version: range.version,
                at: range.object_offset + range.from + at,
            };
            let cell = read.copied().unwrap_or(own);
            node.cells[(range.offset + range.from + at) as usize] = cell;
        }
        if upto < range.len {
            return WriteState::Copying { ticket, done: upto };
        }
        node.end(ticket);
        let completed = node.ledger.complete(ticket, Vec::new());
        WriteState::Done(completed.map_err(MoveError::Refused))
    }
}

/// One range being read, a few bytes at a time.
pub(crate) struct Read {
    fetch: Fetch,
    state: ReadState,
}

enum ReadState {
    New,
    Copying { grant: Version, done: u64 },
    Done(Result<(), MoveError>),
}

impl Read {
    pub(crate) fn new(fetch: Fetch) -> Self {
        Self { fetch, state: ReadState::New }
    }

    pub(crate) fn result(&self) -> Option<Result<(), MoveError>> {
        match self.state {
            ReadState::Done(result) => Some(result),
            _ => None,
        }
    }

    /// Moves on; what it reads goes to its item's buffer.
    pub(crate) fn step(&mut self, buffers: &mut [Vec<Cell>], pool: &mut Pool) {
        let Fetch { position, range, at, .. } = &self.fetch;
        let chunk = 1 + pool.chance.below(200);
        let Some(node) = pool.node_of(range.segment) else {
            self.state = ReadState::Done(Err(MoveError::Broken));
            return;
        };
        self.state = match self.state {
            ReadState::New => match node.ledger.read(range) {
                Ok(held) => ReadState::Copying { grant: held.grant, done: 0 },
                Err(ErrorCode::ObjectNotFound) => ReadState::Done(Err(MoveError::Stale)),
                Err(code) => ReadState::Done(Err(MoveError::Refused(code))),
            },
            ReadState::Copying { grant, done } => {
                let upto = (done + chunk).min(range.len);
                let buffer = &mut buffers[*position];
                let from = (range.offset + range.from) as usize;
                let cells = &node.cells[from + done as usize..from + upto as usize];
                let to = (at + done) as usize;
                buffer.resize(buffer.len().max(to + cells.len()), Cell::default());
                buffer[to..to + cells.len()].copy_from_slice(cells);
                match upto == range.len {
                    false => ReadState::Copying { grant, done: upto },
                    true if node.ledger.still_holds(range.offset, range.version, grant) => {
                        ReadState::Done(Ok(()))
                    }
                    true => ReadState::Done(Err(MoveError::Stale)),
                }
            }
            ReadState::Done(result) => ReadState::Done(result),
        };
    }
}
