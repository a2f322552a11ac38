use mooncake_types::{ErrorCode, limits};

/// Most key bytes in one request to the master, far below the limit of a frame's body.
pub(super) const MAX_BATCH_KEY_BYTES: usize = 4 << 20;

/// Most object bytes that one request asks grants for: even a slow network carries them well before the master
/// discards the puts. A longer object gets its own request.
const MAX_BATCH_OBJECT_BYTES: u64 = 1 << 30;

/// Refuses an empty or overlong key.
pub(super) fn check_key(key: &str) -> Result<(), ErrorCode> {
    if key.is_empty() || key.len() > limits::MAX_KEY_BYTES {
        return Err(ErrorCode::InvalidKey);
    }
    Ok(())
}

/// Returns the positions of the items that pass `check`, and initial results. The results of all other items are
/// final.
pub(super) fn checked<I, T>(
    items: &[I],
    check: impl Fn(&I) -> Result<(), ErrorCode>,
) -> (Vec<usize>, Vec<Result<T, ErrorCode>>) {
    let mut positions = Vec::with_capacity(items.len());
    let mut results = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let checked = check(item);
        if checked.is_ok() {
            positions.push(position);
        }
        results.push(Err(checked.err().unwrap_or(ErrorCode::InternalError)));
    }
    (positions, results)
}

/// Positions of a call that are still to be sent, cut into requests of bounded size.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    order: Vec<usize>,
    at: usize,
}

impl Batches {
    pub(super) const fn new(order: Vec<usize>) -> Self {
        Self { order, at: 0 }
    }

    /// A number that grows with each request that is taken.
    pub(super) const fn begun(&self) -> u64 {
        self.at as u64
    }

    /// The positions of the next request; empty when all have been taken.
    pub(super) fn take(&mut self, key_len: impl Fn(usize) -> usize) -> Vec<usize> {
        self.take_puts(|position| (key_len(position), 0))
    }

    /// Like [`Batches::take`], also bounded by object bytes: `lens` gives the lengths of a key and its object.
    pub(super) fn take_puts(&mut self, lens: impl Fn(usize) -> (usize, u64)) -> Vec<usize> {
        let (mut key_bytes, mut object_bytes) = (0, 0_u64);
        let rest = &self.order[self.at..];
        let fits = rest.iter().take(limits::MAX_BATCH_KEYS).take_while(|&&position| {
            let (key_len, object_len) = lens(position);
            let first = key_bytes == 0;
            key_bytes += key_len;
            object_bytes = object_bytes.saturating_add(object_len);
            first || (key_bytes <= MAX_BATCH_KEY_BYTES && object_bytes <= MAX_BATCH_OBJECT_BYTES)
        });
        let taken = rest[..fits.count()].to_vec();
        self.at += taken.len();
        taken
    }

    /// Takes all remaining positions.
    pub(super) fn take_rest(&mut self) -> Vec<usize> {
        let rest = self.order.split_off(self.at);
        self.at = self.order.len();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(count: usize, key_len: usize) -> Vec<usize> {
        let mut batches = Batches::new((0..count).collect());
        let mut sizes = Vec::new();
        let mut next = 0;
        loop {
            let taken = batches.take(|_| key_len);
            if taken.is_empty() {
                break;
            }
            assert_eq!(taken, (next..next + taken.len()).collect::<Vec<_>>());
            next += taken.len();
            sizes.push(taken.len());
        }
        assert_eq!(next, count);
        sizes
    }

    #[test]
    fn batches_are_cut_by_number_and_by_key_bytes() {
        for (count, key_len, expected) in [
            (0, 10, vec![]),
            (1, 10, vec![1]),
            (4096, 10, vec![4096]),
            (4097, 10, vec![4096, 1]),
            (10_000, 120, vec![4096, 4096, 1808]),
            (2048, 4096, vec![1024, 1024]),
            (1025, 4096, vec![1024, 1]),
        ] {
            assert_eq!(sizes(count, key_len), expected, "{count} keys of {key_len}");
        }
    }

    #[test]
    fn puts_are_cut_by_object_bytes_too() {
        let mut batches = Batches::new((0..5).collect());
        let lens = [1 << 29, 1 << 29, 1, 1 << 40, 1];
        let mut taken = || batches.take_puts(|position| (10, lens[position]));
        assert_eq!([taken(), taken(), taken(), taken()], [vec![0, 1], vec![2], vec![3], vec![4]]);
    }

    #[test]
    fn the_rest_is_what_was_not_taken() {
        let mut batches = Batches::new((0..5000).collect());
        batches.take(|_| 1);
        assert_eq!(batches.take_rest(), (4096..5000).collect::<Vec<_>>());
        assert_eq!(batches.take(|_| 1), Vec::<usize>::new());
    }

    #[test]
    fn keys_that_are_empty_or_too_long_are_refused() {
        assert_eq!(check_key(""), Err(ErrorCode::InvalidKey));
        assert_eq!(check_key("k"), Ok(()));
        assert_eq!(check_key(&"k".repeat(limits::MAX_KEY_BYTES)), Ok(()));
        assert_eq!(check_key(&"k".repeat(limits::MAX_KEY_BYTES + 1)), Err(ErrorCode::InvalidKey));
    }
}
