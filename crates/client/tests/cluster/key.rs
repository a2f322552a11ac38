use crate::pool::Pool;

/// The keys that everything is about.
pub(crate) const KEYS: [&str; 40] = [
    "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b0", "b1", "b2", "b3", "b4", "b5",
    "b6", "b7", "b8", "b9", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "d0", "d1",
    "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9",
];

/// Longest object in bytes.
pub(crate) const MAX_LEN: u64 = 700;

pub(crate) fn any_key(pool: &mut Pool) -> usize {
    pool.chance.below(pool.keys as u64) as usize
}

/// A few keys, some of them twice.
pub(crate) fn some_keys(pool: &mut Pool) -> Vec<usize> {
    (0..1 + pool.chance.below(4)).map(|_| any_key(pool)).collect()
}
