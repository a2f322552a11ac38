use mooncake_client::Chance;
use mooncake_client::node::Clearance;

/// What a ledger must do, said byte by byte.
#[derive(Clone)]
pub(crate) struct Oracle {
    /// The newest version that began in each byte; zero for none.
    newest: Vec<u64>,
    /// What each byte holds: the version of the writer that wrote it last.
    bytes: Vec<u64>,
    writers: Vec<Writer>,
}

#[derive(Clone)]
struct Writer {
    from: usize,
    to: usize,
    counter: u64,
    life: Life,
    superseded: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    AtWork,
    Complete,
    Abandoned,
}

impl Writer {
    fn overlaps(&self, from: usize, to: usize) -> bool {
        self.from < to && from < self.to
    }
}

impl Oracle {
    pub(crate) fn new(len: usize) -> Self {
        Self { newest: vec![0; len], bytes: vec![0; len], writers: Vec::new() }
    }

    /// The ticket and the tickets it superseded; nothing if it is refused.
    pub(crate) fn begin(&mut self, offset: u64, len: u64, counter: u64) -> Option<(u64, Vec<u64>)> {
        let (from, to) = (offset as usize, (offset + len) as usize);
        let newest = &self.newest[from..to];
        let is_newer = newest.iter().all(|&begun| begun < counter);
        let again = newest.iter().all(|&begun| begun == counter)
            && self.writers.iter().any(|writer| {
                let same = (writer.from, writer.to, writer.counter) == (from, to, counter);
                same && writer.life == Life::Abandoned && !writer.superseded
            });
        if !is_newer && !again {
            return None;
        }
        self.newest[from..to].fill(counter);
        let mut superseded = Vec::new();
        for (ticket, writer) in self.writers.iter_mut().enumerate() {
            if writer.overlaps(from, to) && !writer.superseded {
                writer.superseded = true;
                if writer.life == Life::AtWork {
                    superseded.push(ticket as u64);
                }
            }
        }
        let ticket = self.writers.len() as u64;
        let (life, is_superseded) = (Life::AtWork, false);
        self.writers.push(Writer { from, to, counter, life, superseded: is_superseded });
        Some((ticket, superseded))
    }

    pub(crate) fn clearance(&self, ticket: u64) -> Clearance {
        let writer = &self.writers[ticket as usize];
        if writer.superseded {
            return Clearance::Superseded;
        }
        let blocked = self.writers.iter().any(|other| {
            other.superseded && other.life == Life::AtWork && other.overlaps(writer.from, writer.to)
        });
        if blocked { Clearance::Wait } else { Clearance::Clear }
    }

    pub(crate) fn complete(&mut self, ticket: u64) -> bool {
        let writer = &mut self.writers[ticket as usize];
        writer.life = Life::Complete;
        if writer.superseded {
            return false;
        }
        let (from, to, counter) = (writer.from, writer.to, writer.counter);
        self.bytes[from..to].fill(counter);
        true
    }

    pub(crate) fn abandon(&mut self, ticket: u64) {
        self.writers[ticket as usize].life = Life::Abandoned;
    }

    pub(crate) fn open_tickets(&self) -> Vec<u64> {
        let at_work = |ticket: &u64| self.writers[*ticket as usize].life == Life::AtWork;
        (0..self.writers.len() as u64).filter(at_work).collect()
    }

    /// The length of the complete entry of that version at an offset.
    pub(crate) fn held_len(&self, offset: u64, counter: u64) -> Option<u64> {
        let held = self.writers.iter().find(|writer| {
            let here = (writer.from as u64, writer.counter) == (offset, counter);
            here && writer.life == Life::Complete && !writer.superseded
        });
        held.map(|writer| (writer.to - writer.from) as u64)
    }

    pub(crate) fn newest(&self, byte: u64) -> u64 {
        self.newest[byte as usize]
    }

    /// Every writer that is at work and was cleared writes somewhere in its range; one that was superseded after it
    /// had been cleared goes on for as long as it has not stopped.
    pub(crate) fn scribble(&mut self, chance: &mut Chance) {
        for ticket in self.open_tickets() {
            if self.clearance(ticket) == Clearance::Wait {
                continue;
            }
            let writer = &self.writers[ticket as usize];
            let byte = writer.from + chance.below((writer.to - writer.from) as u64) as usize;
            self.bytes[byte] = writer.counter;
        }
    }

    pub(crate) fn check_bytes(&self) {
        for writer in &self.writers {
            if writer.life == Life::Complete && !writer.superseded {
                let held = &self.bytes[writer.from..writer.to];
                assert!(held.iter().all(|&byte| byte == writer.counter), "{held:?}");
            }
        }
    }
}
