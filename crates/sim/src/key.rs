use mooncake_types::Chance;

/// The keys of all operations. A run uses the first few of them.
pub(crate) const KEYS: [&str; 12] =
    ["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2", "d0", "d1", "d2"];

/// The number of a key.
pub(crate) fn number_of(key: &str) -> usize {
    KEYS.iter().position(|known| *known == key).expect("a key that was put")
}

/// A few of the first `count` keys, some of them twice.
pub(crate) fn some_keys(chance: &mut Chance, count: usize) -> Vec<usize> {
    let len = [1, 1, 1, 2, 3][chance.below(5) as usize];
    (0..len).map(|_| chance.below(count as u64) as usize).collect()
}
