use mooncake_memory::{Crc32c, RawSlice};
use mooncake_types::limits::CHUNK_BYTES;

/// Bytes that the checksums of a range of `len` bytes take on the wire.
pub(crate) fn sums_len(len: u64) -> u64 {
    4 * len.div_ceil(CHUNK_BYTES)
}

/// The checksums of ranges, chunk by chunk, as their bytes come by in order.
#[derive(Debug, Default)]
pub(crate) struct ChunkSums {
    /// Lengths of the ranges, in order.
    lens: Vec<u64>,
    /// How many of them have begun.
    begun: usize,
    /// Bytes that the range that began last still lacks.
    left: u64,
    /// Bytes that the open chunk still lacks; zero if none is open.
    room: usize,
    crc: Crc32c,
    sums: Vec<u32>,
}

impl ChunkSums {
    /// Starts over, for ranges of these lengths.
    pub(crate) fn restart(&mut self, lens: impl IntoIterator<Item = u64>) {
        self.lens.clear();
        self.lens.extend(lens);
        self.sums.clear();
        (self.begun, self.left, self.room) = (0, 0, 0);
    }

    /// Takes the next bytes in.
    ///
    /// # Panics
    /// If they are more than the ranges hold.
    pub(crate) fn feed(&mut self, piece: RawSlice) {
        let mut from = 0;
        while from < piece.len() {
            self.open_chunk();
            let part = piece.sub(from, self.room.min(piece.len() - from));
            self.crc.update_raw(part);
            from += part.len();
            self.room -= part.len();
            self.left -= part.len() as u64;
            if self.room == 0 {
                self.sums.push(self.crc.finish());
            }
        }
    }

    fn open_chunk(&mut self) {
        if self.room > 0 {
            return;
        }
        while self.left == 0 {
            self.left = self.lens[self.begun];
            self.begun += 1;
        }
        self.room = self.left.min(CHUNK_BYTES) as usize;
        self.crc = Crc32c::new();
    }

    /// The checksums of all chunks that are complete, in order.
    pub(crate) fn sums(&self) -> &[u32] {
        &self.sums
    }

    /// Takes these checksums out.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.sums)
    }
}

/// Little endian numbers as they stand in a trailer.
pub(crate) fn decode_sums(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Appends checksums as they stand in a trailer.
pub(crate) fn encode_sums(out: &mut Vec<u8>, sums: &[u32]) {
    out.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use mooncake_memory::Buffer;

    use super::*;

    #[test]
    fn chunks_end_with_their_range_wherever_the_pieces_are_cut() {
        let chunk = CHUNK_BYTES as usize;
        let lens = [10, 0, chunk, chunk + 1, 3];
        let total: usize = lens.iter().sum();
        let bytes: Vec<u8> = (0..total).map(|i| (i * 7 + i / 250) as u8).collect();
        let mut expected = Vec::new();
        let mut from = 0;
        for len in lens {
            expected.extend(bytes[from..from + len].chunks(chunk).map(mooncake_memory::crc32c));
            from += len;
        }
        let buffer = Buffer::from_vec(bytes);
        let mut sums = ChunkSums::default();
        for piece in [1, 7, 4096, chunk - 1, chunk, chunk + 1, total] {
            sums.restart(lens.map(|len| len as u64));
            for from in (0..total).step_by(piece) {
                sums.feed(buffer.raw().sub(from, piece.min(total - from)));
            }
            assert_eq!(sums.sums(), expected, "pieces of {piece}");
        }
        let mut wire = Vec::new();
        encode_sums(&mut wire, &expected);
        let wanted: u64 = lens.iter().map(|&len| sums_len(len as u64)).sum();
        assert_eq!((wire.len() as u64, decode_sums(&wire).collect()), (wanted, expected));
    }
}
