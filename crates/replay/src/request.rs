//! A client replays one request: it asks which prefix is stored, gets it, checks every byte, and puts the missing
//! blocks.

use std::time::Instant;

use mooncake_memory::RawSlice;
use mooncake_types::ErrorCode;

use crate::content::{self, Stamp, WORD_BYTES};
use crate::generations::Generations;
use crate::pool::{Item, Pool};
use crate::tally::{Call, Tally, WrongBlock};

/// Blocks are filled and checked in pieces that stay in the first-level cache.
const PIECE_BYTES: usize = 16 << 10;
/// The byte that fills the buffer before a get. No block has the stamp that it decodes to.
const POISON: u8 = 0xFF;

/// The blocks of a trace, which all clients share.
pub(crate) struct Blocks {
    /// The key of each distinct block.
    pub(crate) keys: Vec<String>,
    /// The length of each block.
    pub(crate) bytes: usize,
    /// Tells which puts a get may return.
    pub(crate) generations: Generations,
}

/// A client, which replays one request at a time.
pub(crate) struct Client<'a, P> {
    pool: P,
    blocks: &'a Blocks,
    /// Room for the blocks of the longest request.
    buffer: RawSlice<'a>,
    piece: Vec<u8>,
    pub(crate) tally: Tally,
}

impl<'a, P: Pool> Client<'a, P> {
    /// A client that reads into `buffer` and puts from it.
    pub(crate) fn new(pool: P, blocks: &'a Blocks, buffer: RawSlice<'a>) -> Self {
        let piece = vec![0; PIECE_BYTES.min(blocks.bytes)];
        Self { pool, blocks, buffer, piece, tally: Tally::default() }
    }

    /// Replays request `number`, counted from 1, which names these blocks.
    pub(crate) fn replay(&mut self, number: usize, blocks: &[u32]) {
        let stored = self.exist(blocks);
        let prefix = stored.iter().take_while(|&&stored| stored).count();
        let hits = self.get(number, &blocks[..prefix]);
        let missing: Vec<u32> = (hits..blocks.len())
            .filter(|&at| at < prefix || !stored[at])
            .map(|at| blocks[at])
            .collect();
        self.put(&missing);
        self.tally.requests += 1;
        self.tally.blocks += blocks.len() as u64;
        self.tally.hits += hits as u64;
    }

    fn exist(&mut self, blocks: &[u32]) -> Vec<bool> {
        let keys: Vec<&str> = blocks.iter().map(|&block| self.key(block)).collect();
        let start = Instant::now();
        let answers = self.pool.exist(&keys);
        self.tally.exist.record(start.elapsed());
        assert_eq!(answers.len(), keys.len(), "one answer per key");
        let mut found = |answer: Result<bool, ErrorCode>| {
            answer.unwrap_or_else(|code| {
                self.tally.error(Call::Exist, code);
                false
            })
        };
        answers.into_iter().map(&mut found).collect()
    }

    /// Gets the blocks, and checks all that arrive. Returns the length of the prefix that arrived.
    fn get(&mut self, number: usize, blocks: &[u32]) -> usize {
        if blocks.is_empty() {
            return 0;
        }
        self.poison(blocks.len());
        let oldest: Vec<u32> =
            blocks.iter().map(|&block| self.blocks.generations.oldest(block)).collect();
        let items = self.items(blocks);
        let start = Instant::now();
        let answers = self.pool.get_into(&items);
        self.tally.get.record(start.elapsed());
        assert_eq!(answers.len(), blocks.len(), "one answer per key");
        let mut arrived = Vec::with_capacity(blocks.len());
        for (at, answer) in answers.into_iter().enumerate() {
            arrived.push(self.arrived(answer));
            if arrived[at] {
                self.tally.bytes_read += self.blocks.bytes as u64;
                self.check(number, blocks[at], at, oldest[at]);
            }
        }
        arrived.iter().take_while(|&&arrived| arrived).count()
    }

    fn put(&mut self, blocks: &[u32]) {
        if blocks.is_empty() {
            return;
        }
        let puts: Vec<_> =
            blocks.iter().map(|&block| self.blocks.generations.begin(block)).collect();
        for (at, put) in puts.iter().enumerate() {
            self.fill(at, Stamp { block: put.block, generation: put.generation });
        }
        let items = self.items(blocks);
        let start = Instant::now();
        let answers = self.pool.put(&items);
        self.tally.put.record(start.elapsed());
        assert_eq!(answers.len(), blocks.len(), "one answer per key");
        for (put, answer) in puts.into_iter().zip(answers) {
            self.blocks.generations.end(put, answer.is_ok());
            match answer {
                Ok(()) => {
                    self.tally.stored += 1;
                    self.tally.bytes_written += self.blocks.bytes as u64;
                }
                Err(ErrorCode::ObjectAlreadyExists) => self.tally.already_stored += 1,
                Err(ErrorCode::NoAvailableHandle) => self.tally.no_room += 1,
                Err(code) => self.tally.error(Call::Put, code),
            }
        }
    }

    fn arrived(&mut self, answer: Result<u64, ErrorCode>) -> bool {
        match answer {
            Ok(len) if len == self.blocks.bytes as u64 => return true,
            Ok(_) => self.tally.error(Call::Get, ErrorCode::InvalidRead),
            // Short leases and a busy pool cause both.
            Err(ErrorCode::ObjectNotFound | ErrorCode::LeaseExpired) => self.tally.lost += 1,
            Err(code) => self.tally.error(Call::Get, code),
        }
        false
    }

    fn check(&mut self, request: usize, block: u32, at: usize, oldest: u32) {
        let slice = self.slot(at);
        let newest = self.blocks.generations.newest(block);
        slice.sub(0, WORD_BYTES).read_into(&mut self.piece[..WORD_BYTES]);
        let (found, _) = content::read_back(&self.piece[..WORD_BYTES]);
        // Any put that may be the newest is right, but all bytes must belong to the same put.
        let plausible = found.block == block && (oldest..=newest).contains(&found.generation);
        let generation = if plausible { found.generation } else { newest };
        let stamp = Stamp { block, generation };
        let mut first: Option<content::Mismatch> = None;
        for from in (0..self.blocks.bytes).step_by(PIECE_BYTES) {
            let len = PIECE_BYTES.min(self.blocks.bytes - from);
            let piece = &mut self.piece[..len];
            slice.sub(from, len).read_into(piece);
            if let Err(mismatch) = content::check(stamp, from / WORD_BYTES, piece) {
                let located = content::Mismatch { at: mismatch.at + from, bytes: 0, ..mismatch };
                first.get_or_insert(located).bytes += mismatch.bytes;
            }
        }
        if let Some(mismatch) = first {
            let key = self.key(block).to_owned();
            self.tally.wrong(WrongBlock { request, key, block, mismatch });
        }
    }

    fn fill(&mut self, at: usize, stamp: Stamp) {
        let slice = self.slot(at);
        for from in (0..self.blocks.bytes).step_by(PIECE_BYTES) {
            let len = PIECE_BYTES.min(self.blocks.bytes - from);
            content::fill(stamp, from / WORD_BYTES, &mut self.piece[..len]);
            slice.sub(from, len).write_from(&self.piece[..len]);
        }
    }

    /// Overwrites the buffer, so that a get that writes nothing cannot look right.
    fn poison(&mut self, blocks: usize) {
        self.piece.fill(POISON);
        for at in 0..blocks {
            let slice = self.slot(at);
            for from in (0..self.blocks.bytes).step_by(PIECE_BYTES) {
                let len = PIECE_BYTES.min(self.blocks.bytes - from);
                slice.sub(from, len).write_from(&self.piece[..len]);
            }
        }
    }

    fn items(&self, blocks: &[u32]) -> Vec<Item<'a>> {
        blocks.iter().enumerate().map(|(at, &block)| (self.key(block), self.slot(at))).collect()
    }

    fn key(&self, block: u32) -> &'a str {
        &self.blocks.keys[block as usize]
    }

    fn slot(&self, at: usize) -> RawSlice<'a> {
        self.buffer.sub(at * self.blocks.bytes, self.blocks.bytes)
    }
}

#[cfg(test)]
mod tests;
