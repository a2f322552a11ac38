use mooncake_node::{Clearance, EntryState};
use mooncake_types::{Chance, ErrorCode};

/// A specification of the ledger, byte by byte. Versions and grants are plain counters.
#[derive(Clone)]
pub(crate) struct Oracle {
    /// The newest grant that began in each byte; zero for none.
    newest: Vec<u64>,
    /// The grant of the last writer of each byte.
    bytes: Vec<u64>,
    takes: Vec<Take>,
    writers: Vec<Writer>,
}

/// A write of a whole entry, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) offset: u64,
    pub(crate) entry_len: u64,
    pub(crate) from: u64,
    pub(crate) len: u64,
    pub(crate) version: u64,
    pub(crate) grant: u64,
}

impl Write {
    fn entry(&self) -> (usize, usize) {
        (self.offset as usize, (self.offset + self.entry_len) as usize)
    }

    fn part(&self) -> (usize, usize) {
        let from = self.offset + self.from;
        (from as usize, (from + self.len) as usize)
    }

    fn is_whole(&self) -> bool {
        self.entry_len == self.len
    }
}

/// A range that the writers of one grant have taken.
#[derive(Clone)]
struct Take {
    from: usize,
    to: usize,
    version: u64,
    grant: u64,
    /// Whether another grant has taken a byte of the range.
    lost: bool,
    /// Which bytes of the range are complete.
    in_place: Vec<bool>,
}

impl Take {
    fn is_complete(&self) -> bool {
        !self.lost && self.in_place.iter().all(|&byte| byte)
    }

    fn mark(&mut self, (from, to): (usize, usize), in_place: bool) {
        self.in_place[from - self.from..to - self.from].fill(in_place);
    }
}

#[derive(Clone)]
struct Writer {
    take: usize,
    from: usize,
    to: usize,
    life: Life,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    AtWork,
    Complete,
    Abandoned,
}

impl Writer {
    fn overlaps(&self, (from, to): (usize, usize)) -> bool {
        self.from < to && from < self.to
    }
}

impl Oracle {
    pub(crate) fn new(len: usize) -> Self {
        Self { newest: vec![0; len], bytes: vec![0; len], takes: vec![], writers: vec![] }
    }

    /// Begins a write. Returns its ticket and the tickets that it supersedes, or why it is refused.
    pub(crate) fn begin(&mut self, write: &Write) -> Result<(u64, Vec<u64>), ErrorCode> {
        let (from, to) = write.entry();
        let newest = &self.newest[from..to];
        if write.grant < write.version || newest.iter().any(|&begun| begun > write.grant) {
            return Err(ErrorCode::InvalidVersion);
        }
        let joined = if newest.contains(&write.grant) { self.find_joined(write)? } else { None };
        let (take, superseded) = match joined {
            Some(take) => (take, vec![]),
            None => self.take(write),
        };
        let part = write.part();
        self.takes[take].mark(part, false);
        self.writers.push(Writer { take, from: part.0, to: part.1, life: Life::AtWork });
        Ok((self.writers.len() as u64 - 1, superseded))
    }

    /// The take that this write adds a part to; none if it writes the entry anew.
    fn find_joined(&self, write: &Write) -> Result<Option<usize>, ErrorCode> {
        let same = |take: &Take| {
            let place = (take.from, take.to) == write.entry() && !take.lost;
            place && (take.version, take.grant) == (write.version, write.grant)
        };
        let found = self.takes.iter().position(same).ok_or(ErrorCode::InvalidVersion)?;
        let take = &self.takes[found];
        let here = |writer: &&Writer| writer.take == found && writer.life == Life::AtWork;
        let mut at_work = self.writers.iter().filter(here).peekable();
        let once = |code| if write.is_whole() { ErrorCode::InvalidVersion } else { code };
        if take.is_complete() {
            return Err(once(ErrorCode::InvalidWrite));
        }
        if at_work.peek().is_some_and(|writer| (writer.from, writer.to) == (take.from, take.to)) {
            return Err(once(ErrorCode::ObjectReplicaBusy));
        }
        if at_work.any(|writer| writer.overlaps(write.part())) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        Ok((!write.is_whole()).then_some(found))
    }

    fn take(&mut self, write: &Write) -> (usize, Vec<u64>) {
        let (from, to) = write.entry();
        let mut superseded = Vec::new();
        for (ticket, writer) in self.writers.iter().enumerate() {
            let take = &self.takes[writer.take];
            let hit = !take.lost && take.from < to && from < take.to;
            if hit && writer.life == Life::AtWork {
                superseded.push(ticket as u64);
            }
        }
        for take in &mut self.takes {
            take.lost |= take.from < to && from < take.to;
        }
        self.newest[from..to].fill(write.grant);
        let in_place = vec![false; to - from];
        let Write { version, grant, .. } = *write;
        self.takes.push(Take { from, to, version, grant, lost: false, in_place });
        (self.takes.len() - 1, superseded)
    }

    pub(crate) fn clearance(&self, ticket: u64) -> Clearance {
        let writer = &self.writers[ticket as usize];
        if self.takes[writer.take].lost {
            return Clearance::Superseded;
        }
        let blocked = self.writers.iter().any(|other| {
            let zombie = self.takes[other.take].lost && other.life == Life::AtWork;
            zombie && other.overlaps((writer.from, writer.to))
        });
        if blocked { Clearance::Wait } else { Clearance::Clear }
    }

    pub(crate) fn complete(&mut self, ticket: u64) -> bool {
        let writer = &mut self.writers[ticket as usize];
        writer.life = Life::Complete;
        let take = &mut self.takes[writer.take];
        if take.lost {
            return false;
        }
        take.mark((writer.from, writer.to), true);
        self.bytes[writer.from..writer.to].fill(take.grant);
        true
    }

    pub(crate) fn abandon(&mut self, ticket: u64) {
        self.writers[ticket as usize].life = Life::Abandoned;
    }

    pub(crate) fn open_tickets(&self) -> Vec<u64> {
        let at_work = |ticket: &u64| self.writers[*ticket as usize].life == Life::AtWork;
        (0..self.writers.len() as u64).filter(at_work).collect()
    }

    /// The version, grant and length of the complete entry at this offset.
    pub(crate) fn held(&self, offset: u64) -> Option<(u64, u64, u64)> {
        let here = |take: &&Take| take.from as u64 == offset && take.is_complete();
        let take = self.takes.iter().find(here)?;
        Some((take.version, take.grant, (take.to - take.from) as u64))
    }

    /// The length and state that the ledger must report for the entry at this offset.
    pub(crate) fn state(&self, offset: u64) -> Option<(u64, EntryState)> {
        let here = |take: &&Take| take.from as u64 == offset && !take.lost;
        let take = self.takes.iter().find(here)?;
        let at_work = |writer: &Writer| {
            writer.life == Life::AtWork && std::ptr::eq(&self.takes[writer.take], take)
        };
        let state = if take.is_complete() {
            EntryState::Complete
        } else if take.in_place.contains(&true) || self.writers.iter().any(at_work) {
            EntryState::Writing
        } else {
            EntryState::Abandoned
        };
        Some(((take.to - take.from) as u64, state))
    }

    /// A write of the whole range of a random take that is not lost.
    pub(crate) fn pick(&self, chance: &mut Chance) -> Option<Write> {
        let live: Vec<&Take> = self.takes.iter().filter(|take| !take.lost).collect();
        let take = live.get(chance.below(live.len().max(1) as u64) as usize)?;
        let (offset, len) = (take.from as u64, (take.to - take.from) as u64);
        let Take { version, grant, .. } = **take;
        Some(Write { offset, entry_len: len, from: 0, len, version, grant })
    }

    pub(crate) fn newest(&self, byte: u64) -> u64 {
        self.newest[byte as usize]
    }

    /// Every open writer writes one byte of its part, unless it must wait. A superseded writer that was cleared before
    /// continues until it stops.
    pub(crate) fn scribble(&mut self, chance: &mut Chance) {
        for ticket in self.open_tickets() {
            if self.clearance(ticket) == Clearance::Wait {
                continue;
            }
            let writer = &self.writers[ticket as usize];
            let byte = writer.from + chance.below((writer.to - writer.from) as u64) as usize;
            // A half-written byte: it comes from this grant, but is not the final value.
            self.bytes[byte] = self.takes[writer.take].grant << 32;
        }
    }

    pub(crate) fn check_bytes(&self) {
        for take in self.takes.iter().filter(|take| take.is_complete()) {
            let held = &self.bytes[take.from..take.to];
            assert!(held.iter().all(|&byte| byte == take.grant), "{held:?}");
        }
    }
}
