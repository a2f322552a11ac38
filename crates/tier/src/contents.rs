//! The table of contents of a file: the header of every record. With it, opening a log need not scan the file.

use crate::record::Record;

/// A record, and the block at which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) block: u64,
    pub(crate) record: Record,
}

/// The table of contents, encoded.
#[derive(Debug, Default)]
pub(crate) struct Contents(Vec<u8>);

impl Contents {
    /// Bytes that a record takes in the table.
    pub(crate) fn entry_len(record: &Record) -> u64 {
        4 + record.header_len() as u64
    }

    /// Adds a record. `nonce` is that of the headers in the table.
    pub(crate) fn push(&mut self, block: u64, record: &Record, nonce: u64) {
        self.0.extend((block as u32).to_le_bytes());
        self.0.extend(record.encode(nonce));
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the records of a table, up to the first invalid entry. `nonce` is that of its headers.
    pub(crate) fn decode(mut table: &[u8], nonce: u64) -> Vec<FoundRecord> {
        let mut found = Vec::new();
        while let Some((block, rest)) = table.split_first_chunk::<4>() {
            let Some(record) = Record::decode(rest, nonce) else { break };
            table = &rest[record.header_len()..];
            found.push(FoundRecord { block: u64::from(u32::from_le_bytes(*block)), record });
        }
        found
    }
}
