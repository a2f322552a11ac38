//! Block bytes that describe themselves. Each 8-byte word names its block, the put that wrote it, and its place in the
//! block. So every swapped, shifted, torn or stale block shows.
//!
//! A word packs (generation, block, index) into 64 bits, multiplied by an odd constant. All words of a replay differ,
//! and a word can be decoded. The next word needs one addition, so filling and checking run at the speed of memory.

/// Most distinct blocks of a replay.
pub(crate) const MAX_BLOCKS: u32 = 1 << BLOCK_BITS;
/// The highest generation; the first is 1.
pub(crate) const MAX_GENERATION: u32 = (1 << GENERATION_BITS) - 1;
/// Largest block, in bytes.
pub(crate) const MAX_BLOCK_BYTES: usize = WORD_BYTES << INDEX_BITS;
/// Bytes of a word. Blocks consist of whole words.
pub(crate) const WORD_BYTES: usize = 8;

const INDEX_BITS: u32 = 20;
const BLOCK_BITS: u32 = 24;
const GENERATION_BITS: u32 = 20;
/// The golden ratio in 64 bits. Any odd number that spreads small differences over the word would do.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const INVERSE: u64 = inverse(FACTOR);

/// Identifies the bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The block.
    pub(crate) block: u32,
    /// The number of the put that wrote the bytes, from 1.
    pub(crate) generation: u32,
}

/// The first wrong word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The offset of the first wrong byte in the checked bytes.
    pub(crate) at: usize,
    /// How many bytes are wrong.
    pub(crate) bytes: u64,
    /// The stamp and the index that the wrong word decodes to. They mean nothing if the word is not one of this
    /// replay.
    pub(crate) found: (Stamp, usize),
}

/// Writes the words of a block from word `first` on.
///
/// # Panics
/// If `out` is not made of whole words or reaches beyond the largest block.
pub(crate) fn fill(stamp: Stamp, first: usize, out: &mut [u8]) {
    let mut word = first_word(stamp, first, out.len());
    for bytes in out.chunks_exact_mut(WORD_BYTES) {
        bytes.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(FACTOR);
    }
}

/// Compares every byte with what [`fill`] writes.
///
/// # Panics
/// As [`fill`].
pub(crate) fn check(stamp: Stamp, first: usize, bytes: &[u8]) -> Result<(), Mismatch> {
    let start = first_word(stamp, first, bytes.len());
    let mut word = start;
    let mut difference = 0;
    for bytes in bytes.chunks_exact(WORD_BYTES) {
        difference |= load(bytes) ^ word;
        word = word.wrapping_add(FACTOR);
    }
    if difference == 0 { Ok(()) } else { Err(locate(start, bytes)) }
}

/// Decodes a word into its stamp and its index in the block.
pub(crate) fn read_back(word: &[u8]) -> (Stamp, usize) {
    let packed = load(word).wrapping_mul(INVERSE);
    let field = |shift: u32, bits: u32| (packed >> shift & ((1 << bits) - 1)) as u32;
    let stamp = Stamp {
        block: field(INDEX_BITS, BLOCK_BITS),
        generation: field(INDEX_BITS + BLOCK_BITS, GENERATION_BITS),
    };
    (stamp, field(0, INDEX_BITS) as usize)
}

fn first_word(stamp: Stamp, first: usize, len: usize) -> u64 {
    assert!(len.is_multiple_of(WORD_BYTES), "{len} bytes are not whole words");
    assert!(first * WORD_BYTES + len <= MAX_BLOCK_BYTES, "beyond the largest block");
    assert!(stamp.block < MAX_BLOCKS && stamp.generation <= MAX_GENERATION, "{stamp:?}");
    let packed = u64::from(stamp.generation) << (INDEX_BITS + BLOCK_BITS)
        | u64::from(stamp.block) << INDEX_BITS;
    (packed + first as u64).wrapping_mul(FACTOR)
}

fn load(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a word has eight bytes"))
}

#[cold]
fn locate(start: u64, bytes: &[u8]) -> Mismatch {
    let mut mismatch: Option<Mismatch> = None;
    let mut word = start;
    for (index, found) in bytes.chunks_exact(WORD_BYTES).enumerate() {
        for (byte, (found_byte, expected)) in found.iter().zip(word.to_le_bytes()).enumerate() {
            if *found_byte != expected {
                let at = index * WORD_BYTES + byte;
                let first = Mismatch { at, bytes: 0, found: read_back(found) };
                mismatch.get_or_insert(first).bytes += 1;
            }
        }
        word = word.wrapping_add(FACTOR);
    }
    mismatch.expect("called for bytes that differ")
}

/// The inverse of an odd number modulo 2^64, by Newton's method. Each step doubles the number of correct bits.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

#[cfg(test)]
mod tests {

    use super::*;

    const MINE: Stamp = Stamp { block: 7, generation: 3 };

    fn block(stamp: Stamp) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        fill(stamp, 0, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_filled_is_accepted_whole_and_in_parts() {
        let bytes = block(MINE);
        assert_eq!(check(MINE, 0, &bytes), Ok(()));
        assert_eq!(check(MINE, 100, &bytes[800..1600]), Ok(()));
    }

    #[test]
    fn every_word_can_be_read_back() {
        for stamp in [MINE, Stamp { block: MAX_BLOCKS - 1, generation: MAX_GENERATION }] {
            for (index, word) in block(stamp).chunks_exact(WORD_BYTES).enumerate() {
                assert_eq!(read_back(word), (stamp, index));
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = block(MINE);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mismatch = check(MINE, 0, &bytes).unwrap_err();
            assert_eq!((mismatch.at, mismatch.bytes), (bit / 8, 1));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn swapped_shifted_torn_stale_and_missing_blocks_are_noticed_and_named() {
        let other = Stamp { block: 8, generation: 3 };
        let stale = Stamp { block: 7, generation: 2 };
        let mut torn = block(MINE);
        torn[2048..].copy_from_slice(&block(stale)[2048..]);
        let mut shifted = block(MINE);
        shifted.copy_within(8.., 0);
        let rows = [
            ("swapped", block(other), 0, (other, 0)),
            ("stale", block(stale), 0, (stale, 0)),
            ("shifted", shifted, 0, (MINE, 1)),
            ("torn", torn, 2048, (stale, 256)),
            ("missing", vec![0; 4096], 0, (Stamp { block: 0, generation: 0 }, 0)),
        ];
        for (name, bytes, word_at, found) in rows {
            let mismatch = check(MINE, 0, &bytes).unwrap_err();
            assert_eq!(
                (mismatch.at / WORD_BYTES * WORD_BYTES, mismatch.found),
                (word_at, found),
                "{name}"
            );
            assert!(mismatch.bytes > 0, "{name}");
        }
    }

    #[test]
    fn a_shift_by_less_than_a_word_is_noticed() {
        for by in 1..WORD_BYTES {
            let mut bytes = block(MINE);
            bytes.copy_within(by.., 0);
            assert!(check(MINE, 0, &bytes).is_err(), "shifted by {by}");
        }
    }
}
