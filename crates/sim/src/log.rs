use std::fmt::{Arguments, Write};

/// What happened, in order: always as one number, and as text if somebody is to read it.
#[derive(Debug, Default)]
pub(crate) struct Log {
    hash: u64,
    line: String,
    prints: bool,
}

impl Log {
    pub(crate) fn new(prints: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, line: String::new(), prints }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, now_us: u64, what: Arguments<'_>) {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = write!(self.line, "{:>10}.{:03} ms  {what}", now_us / 1_000, now_us % 1_000);
        for chunk in self.line.as_bytes().chunks(8) {
            let word = chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if self.prints {
            println!("{}", self.line);
        }
    }

    /// Two runs with the same lines have the same.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
