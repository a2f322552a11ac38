use std::fmt::{Arguments, Write};

/// How much a run logs. Logging takes longer than the run itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    Nothing,
    /// Only a hash of all lines.
    Hash,
    /// The hash, and each line is printed.
    Lines,
}

/// The log of a run.
#[derive(Debug)]
pub(crate) struct Log {
    hash: u64,
    line: String,
    detail: Detail,
}

impl Log {
    pub(crate) fn new(detail: Detail) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, line: String::new(), detail }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, now_us: u64, what: Arguments<'_>) {
        if self.detail != Detail::Nothing {
            self.write(now_us, what);
        }
    }

    fn write(&mut self, now_us: u64, what: Arguments<'_>) {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = write!(self.line, "{:>10}.{:03} ms  {what}", now_us / 1_000, now_us % 1_000);
        for chunk in self.line.as_bytes().chunks(8) {
            let word = chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if self.detail == Detail::Lines {
            println!("{}", self.line);
        }
    }

    /// The hash of all lines so far; `None` if nothing is logged.
    pub(crate) fn hash(&self) -> Option<u64> {
        (self.detail != Detail::Nothing).then_some(self.hash)
    }
}
